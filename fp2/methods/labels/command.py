"""`fp2 label`: people label some answers of a run in a browser on this machine; the labels are analysed."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any

from rich.table import Table

from fp2.extension import CSS, HTML, SCRIPT, Fp2Error, LoopbackServer, Reply, Terminal, load_config
from fp2.methods.labels.table import RESOLVER

if TYPE_CHECKING:
    from fp2.extension import LabelScale
    from fp2.methods.labels.sample import Sheet, Wanted

HERE = Path(__file__).parent
KEYS = "1234567890"


def label(
    run: str,
    wanted: Wanted,
    labeller: str,
    overrides: Sequence[str],
    *,
    port: int,
    status: bool,
    analyse: bool,
    labels: Path | None,
    as_json: bool,
) -> int:
    """Serve the labelling page of a run until Ctrl-C; or print the state of the labels, or analyse them."""
    from fp2.extension import Progress, finish_purges, in_quotes, print_json, run_folder, states_again
    from fp2.methods.labels.sample import NEEDED, sheet_of
    from fp2.methods.reruns.rescore_command import rescore

    if labels is not None:
        return rescore(run, [*overrides, f"analysis.labels={in_quotes(str(labels.expanduser().resolve()))}"])
    config = load_config([word for word in overrides if not states_again(word)])
    finish_purges(config, Progress())
    with tempfile.TemporaryDirectory(prefix="fp2-label-") as scratch:
        sheet = sheet_of(run_folder(run, config, Path(scratch), NEEDED), config, wanted, overrides)
    if analyse:
        return rescore(run, [*overrides, f"analysis.labels={in_quotes(str(sheet.merge()))}"])
    if status:
        print_json(_state(sheet)) if as_json else _show(sheet)
        return 0
    console = Terminal()
    with LabelServer(sheet, labeller, port) as server:
        if not server.order:
            what = "no two labellers differ" if labeller == RESOLVER else "the sample has no answer of the run"
            raise Fp2Error(f"there is nothing to label: {what}", where=str(sheet.folder))
        about = sheet.about
        console.print(f"{len(server.order)} answers for {about['scorer']}, {server.done} labelled by {labeller}")
        if (few := _few(sheet)) is not None:
            console.print(few, style="yellow", highlight=False)
        console.print(f"{server.address}  (Ctrl-C ends it)", soft_wrap=True)
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            left = len(server.order) - server.done
            words = "all are labelled" if not left else f"{left} are left; the same command continues"
            console.print(f"{server.done} of {len(server.order)} labelled: {words}")
    return 0


class LabelServer(LoopbackServer):
    """Serves the page of one labeller; every label is on the disk before the next answer is shown."""

    def __init__(self, sheet: Sheet, labeller: str, port: int) -> None:
        self.sheet, self.labeller = sheet, labeller
        self.order, self.given = sheet.order(labeller), sheet.given(labeller)
        self._lock = Lock()
        super().__init__(port)

    @property
    def done(self) -> int:
        """How many answers of this labeller's are labelled or skipped."""
        return sum(answer in self.given for answer in self.order)

    def get(self, name: str, query: str) -> Reply | None:
        """Return the page of the next answer, the styles or the script."""
        from fp2.extension import stylesheet

        if name == "style.css":
            return Reply(CSS, stylesheet(HERE / "label.css").encode())
        if name == "label.js":
            return Reply(SCRIPT, (HERE / "label.js").read_bytes())
        if name:
            return None
        left = (k for k, answer in enumerate(self.order) if answer not in self.given)
        place = next((k for k in left if not self.sheet.withdrawn(self.order[k])), None)
        answer = None if place is None else (place, *self.sheet.texts[self.order[place]])
        return Reply(HTML, render(self.sheet.scale, self.labeller, self.done, len(self.order), answer).encode())

    def post(self, name: str, form: dict[str, str]) -> Reply | None:
        """Keep a label, or take back the last one; None for what the page does not send."""
        place, value = form.get("place", ""), form.get("label")
        with self._lock:
            if form.get("undo"):
                last = next((answer for answer in reversed(self.given) if answer in self.order), None)
                if last is not None:
                    self.sheet.append(self.labeller, last, None, undo=True)
                    del self.given[last]
                return Reply("text/plain", b"", location=".")
            known = {f"{one:g}": one for one in self.sheet.scale.values} | {"": None}
            if name or value not in known or not place.isdecimal() or int(place) >= len(self.order):
                return None
            answer = self.order[int(place)]
            self.sheet.append(self.labeller, answer, known[value])
            self.given.pop(answer, None)
            self.given[answer] = known[value]
        return Reply("text/plain", b"", location=".")


def render(scale: LabelScale, labeller: str, done: int, total: int, answer: tuple[int, str, str] | None) -> str:
    """Return the page; `answer` is its place in the sample, the question and the text, None where all are labelled."""
    from fp2.extension import environment, plain

    place, question, text = answer or (None, "", "")
    buttons = [
        {"key": key, "value": f"{value:g}", "meaning": meaning}
        for key, (value, meaning) in zip(KEYS, scale.values.items(), strict=False)
    ]
    page = (HERE / "label.html.j2").read_text(encoding="utf-8")
    return (
        environment()
        .from_string(page)
        .render(
            definition=scale.question,
            buttons=buttons,
            labeller=plain(labeller),
            done=done,
            total=total,
            place=place,
            question=plain(question),
            text=plain(text),
        )
    )


def _few(sheet: Sheet) -> str | None:
    """Return a warning where the sample cannot have enough labels of each probe and group."""
    from fp2.methods.labels.correction import LEAST_LABELLED

    strata = {(row["probe"], row["stratum"]) for row in sheet.rows}
    per_class = len(sheet.rows) / max(1, len(strata))
    if per_class * len(sheet.scale.values) >= 2 * LEAST_LABELLED:
        return None
    return (
        f"A group needs {LEAST_LABELLED:g} labelled subjects for a probe, more where strata differ in size: draw more "
        "answers (--n), or fewer probes (--probe)"
    )


def _state(sheet: Sheet) -> dict[str, Any]:
    """Return how many answers each labeller has labelled, their agreement, and the answers on which they differ."""
    given = {name: sheet.given(name) for name in sheet.labellers()}
    resolved = given.get(RESOLVER, {})
    differing = sheet.differing()
    return {
        "sample": {**sheet.about, "folder": str(sheet.folder)},
        "labellers": {
            name: {"labelled": sum(one is not None for one in own.values()), "skipped": list(own.values()).count(None)}
            for name, own in given.items()
        },
        "agreement": [{"first": one, "second": two, **asdict(found)} for one, two, found in sheet.agreement()],
        "differing": len(differing),
        "unresolved": sum(answer not in resolved for answer in differing),
    }


def _show(sheet: Sheet) -> None:
    """Print the state of the labels."""
    from fp2.extension import number, plain

    state, console = _state(sheet), Terminal()
    about = state["sample"]
    table = Table(title=f"{len(sheet.answers)} of {about['answers']:,} answers drawn for {about['scorer']}")
    for heading in ("labeller", "labelled", "skipped", "left"):
        table.add_column(heading, justify="left" if heading == "labeller" else "right")
    for name, one in state["labellers"].items():
        left = len(sheet.order(name)) - one["labelled"] - one["skipped"]
        table.add_row(plain(name), str(one["labelled"]), str(one["skipped"]), str(max(left, 0)))
    console.print(table)
    for one in state["agreement"]:
        reach = f" ({number(one['ci_low'], 2)} to {number(one['ci_high'], 2)})" if one["kappa"] is not None else ""
        kappa = f"Cohen's kappa {number(one['kappa'], 2)}{reach}"
        console.print(f"{plain(one['first'])} and {plain(one['second'])}: {kappa} on {one['n']} answers")
    if state["differing"]:
        more = f", {state['unresolved']} not decided yet: fp2 label RUN --disagreements"
        console.print(f"They differ on {state['differing']} answers{more if state['unresolved'] else ', all decided'}")
    console.print(f"folder  {plain(about['folder'])}", soft_wrap=True, highlight=False)
