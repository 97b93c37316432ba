"""`fp2 view`: read a run's answers beside the images they are about, in a browser on this machine.

A run's tables have salted keys; the images are found again through the salt and the data set of this machine. Nothing
is written.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlencode

from fp2.extension import (
    CSS,
    HTML,
    IMAGE_B,
    Fp2Error,
    LoopbackServer,
    Progress,
    Reply,
    RowAnswers,
    Terminal,
    artifacts,
    distinct_names,
    groups_of,
    load_config,
    logged_config,
    logged_cuts,
    paths_by_key,
    read_results,
    read_tables,
    row_name,
    run_folder,
    thumbnail,
    values_of,
)
from fp2.methods.viewer.pages import HERE, OF_SECOND, Viewed, named_row, read_query, render

if TYPE_CHECKING:
    import pandas as pd

    from fp2.extension import Config


SIDE = 512
"""Pixels of the long side of an image, at most."""


def view(words: Sequence[str], overrides: Sequence[str], port: int, row: str = "") -> None:
    """Serve the answers of one or two runs until Ctrl-C; print the address, at the disparity `row` if one is named."""
    if not 1 <= len(words) <= 2:
        raise Fp2Error(f"{len(words)} runs were given", where="fp2 view", fix="Give one, or two")
    with tempfile.TemporaryDirectory(prefix="fp2-view-") as scratch:
        viewed = load_viewed(words, load_config(overrides), Path(scratch), Progress())
    query = f"?{urlencode({'row': row_name(named_row(row, viewed.results))})}" if row else ""
    with ViewServer(viewed, port) as server:
        Terminal().print(f"{server.address}{query}  (Ctrl-C ends it)", soft_wrap=True)
        server.serve_forever()


class ViewServer(LoopbackServer):
    """Serves one `Viewed`."""

    def __init__(self, viewed: Viewed, port: int) -> None:
        self.viewed = viewed
        super().__init__(port)

    def get(self, name: str, query: str) -> Reply | None:
        """Return a page, the styles or an image."""
        from PIL.Image import DecompressionBombError

        from fp2.extension import stylesheet

        viewed = self.viewed
        if not name:
            return Reply(HTML, render(viewed, read_query(query)).encode())
        if name == "style.css":
            return Reply(CSS, stylesheet(HERE / "view.css").encode())
        if (path := viewed.images.get(name.removeprefix("image/"))) is None:
            return None
        try:
            return Reply("image/jpeg", thumbnail(path, SIDE))
        except (OSError, ValueError, SyntaxError, DecompressionBombError):
            return None


_NEEDED = (artifacts.RESULTS, artifacts.CONFIG, artifacts.PEOPLE, artifacts.RESPONSES, artifacts.SCORES)
_KEY = ["image_id", "subject_id", "question_id"]


def load_viewed(words: Sequence[str], here: Config, scratch: Path, progress: Progress) -> Viewed:
    """Load the answers of one or two runs, and find their images."""
    from fp2.extension import load_configured, probe_labels, scorer_names

    folders = []
    for number, word in enumerate(words):
        (scratch / str(number)).mkdir()
        folders.append(run_folder(word, here, scratch / str(number), _NEEDED))
    results = [read_results(folder) for folder in folders]
    scorer = str(results[0]["analysis"].get("primary", ""))
    first = logged_config(folders[0], here, results[0]["run_id"])
    other_scorers = [name for name in scorer_names(results[0]) if name != scorer]
    rows, people = _answers(folders[0], scorer, other_scorers, 0)
    for number, folder in enumerate(folders[1:], start=1):
        rows = rows.merge(_answers(folder, scorer, other_scorers, number)[0].drop(columns="probe"), on=_KEY)
    if rows.empty:
        fix = "Give runs on the same images and questions, made in one project"
        raise Fp2Error("the runs share no question about an image", where=" and ".join(words), fix=fix)
    dataset = load_configured(first, progress).people
    state = Path(here.paths.state)
    images = paths_by_key(dataset, state)
    if IMAGE_B in dataset:
        second = paths_by_key(dataset[dataset[IMAGE_B].notna()].assign(image_path=dataset[IMAGE_B]), state)
        images |= {key + OF_SECOND: path for key, path in second.items()}
    if not set(rows["image_id"]) & set(images):
        fix = "Give the data set's place (data.root=, data.path=), in the project that made the run"
        raise Fp2Error("the run's images are not in this data set", where=words[0], fix=fix)
    key = ["image_id", "subject_id"]
    groups = {
        cut.name: rows[key].join(groups_of(people, cut), on=key)["group"].fillna("")
        for cut in logged_cuts(first, people)
    }
    names = distinct_names([(str(result["model"]["name"]), str(result["run_id"])) for result in results])
    return Viewed(names, rows, groups, results[0], scorer, images, probe_labels(results[0]))


def _answers(folder: Path, scorer: str, other_scorers: Sequence[str], number: int) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the answered rows of a run, with its number behind the columns' names, and its people."""
    tables = read_tables(folder)
    if not isinstance(tables.answers, RowAnswers):
        raise Fp2Error("the answers of this run are probabilities, not texts", where=str(folder))
    rows = tables.answers.answered[[*_KEY, "probe", "response_key", "text", "refused"]]
    renamed = {name: f"{name}_{number}" for name in ("text", "refused", "value")}
    values = {f"value_{number}.{other}": values_of(tables, rows, other) for other in other_scorers}
    table = rows.assign(value=values_of(tables, rows, scorer), **values)
    table = table.drop(columns="response_key").rename(columns=renamed)
    return table.drop_duplicates(_KEY).reset_index(drop=True), tables.people
