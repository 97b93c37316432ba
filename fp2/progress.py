"""Progress bars on standard error; plain lines where it is not a terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console, RenderableType
from rich.progress import BarColumn, MofNCompleteColumn, TaskID, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.progress import Progress as Bars
from rich.text import Text

from fp2.text import printable


class Terminal(Console):
    """A console that shows text as it is: no markup is read in it, and control characters are escapes."""

    def __init__(self, **options: Any) -> None:
        super().__init__(markup=False, **options)

    def render_str(self, text: str, **options: Any) -> Text:
        """Return `text` without control characters; line breaks stay."""
        return super().render_str("\n".join(printable(text_line, None) for text_line in text.split("\n")), **options)


class _DetailedBars(Bars):
    """Progress bars with one line below them, cut to the width of the terminal."""

    detail = ""

    def __exit__(self, kind: type[BaseException] | None, *error: Any) -> None:
        """End the display; after an error, without what had not begun."""
        for task in self.tasks if kind is not None else ():
            if not task.completed:
                self.update(task.id, visible=False)
        super().__exit__(kind, *error)

    def get_renderables(self) -> Iterable[RenderableType]:
        """Yield the bars, and the line."""
        yield from super().get_renderables()
        if self.detail:
            yield Text(printable(self.detail), style="dim", no_wrap=True, overflow="ellipsis")


class AnswerBar:
    """The progress bar of asking: answers so far, with a line of counts below it."""

    def __init__(self, bars: _DetailedBars, task: TaskID, note: Callable[[str], None]) -> None:
        self._bars, self._task, self._note = bars, task, note
        self._started = False

    def show(self, done: int, planned: int, line: str) -> None:
        """Show that `done` of the planned answers are there; `line` is shown below the bar."""
        if not self._started:
            self._started = True
            if done and done == planned:
                self._note(f"All {planned} answers are in the store; no model is loaded")
            elif done:
                self._note(f"{done} of {planned} answers are in the store; continuing")
        self._bars.detail = line
        self._bars.update(self._task, completed=done, total=planned)


Listener = Callable[[str, int, int | None], None]
"""Called with what is being done, the steps done and their number (None: unknown)."""


class Progress:
    """What a run shows while it works.

    Parameters
    ----------
    console : Console, optional
        Where to; standard error by default, so that tables on standard output stay clean.
    quiet : bool
        Show nothing.
    """

    def __init__(self, console: Console | None = None, *, quiet: bool = False) -> None:
        self.console = console or Terminal(stderr=True, quiet=quiet)
        self.listener: Listener = lambda stage, done, total: None

    def stage(self, title: str, done: int = 0, total: int | None = None) -> None:
        """Tell the listener what is being done now, and how far it is (`fp2 watch`)."""
        self.listener(title, done, total)

    def note(self, line: str) -> None:
        """Say one line."""
        self.console.print(Text(printable(line)), style="dim")

    def _bars(self) -> _DetailedBars:
        return _DetailedBars(
            TextColumn("{task.description:<30}", markup=False),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            console=self.console,
        )

    @contextmanager
    def count_up(self, title: str, total: int) -> Iterator[Callable[[int], None]]:
        """Yield a function to be called with the number of further steps done."""
        with self._bars() as bars:
            task = bars.add_task(printable(title, 80), total=total)
            self.stage(title, 0, total)

            def report(more: int) -> None:
                bars.advance(task, more)
                self.stage(title, int(bars.tasks[0].completed), total)

            yield report

    @contextmanager
    def counter(self, title: str) -> Iterator[Callable[[int, int], None]]:
        """Yield a function to be called with (done, total); the bar appears at the first call."""
        with self._bars() as bars:
            task = bars.add_task(printable(title, 80), total=None, visible=False)

            def report(done: int, total: int) -> None:
                bars.update(task, completed=done, total=total, visible=True)
                self.stage(title, done, total)

            yield report

    @contextmanager
    def steps(self, title: str, total: int) -> Iterator[Callable[[], None]]:
        """Yield a function to be called after each of `total` steps; at the end all of them count as done."""
        done = 0
        with self.count_up(title, total) as report:

            def step() -> None:
                nonlocal done
                done += 1
                report(1)

            yield step
            report(total - done)

    @contextmanager
    def answers(self, title: str) -> Iterator[AnswerBar]:
        """Yield the progress bar of asking."""
        with self._bars() as bars:
            yield AnswerBar(bars, bars.add_task(printable(title, 80), total=None), self.note)

    @contextmanager
    def stages(self) -> Iterator[Callable[[str, int, int | None, str], None]]:
        """Yield a function to be called with a stage, its steps done, their number and a line that is shown below."""
        with self._bars() as bars:
            task, shown = bars.add_task("", total=None), ""

            def show(stage: str, done: int, total: int | None, message: str) -> None:
                nonlocal shown
                if stage != shown:
                    bars.reset(task)
                    shown = stage
                bars.detail = message
                bars.update(task, description=printable(stage, 80), completed=done, total=total)

            yield show
