"""`fp2 view`: answers beside their images on the loopback address, behind a secret path."""

from __future__ import annotations

import io
import re
import shutil
import threading
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from bench import Bench, fp2
from PIL import Image

from fp2.errors import Fp2Error
from fp2.methods.viewer.command import ViewServer, load_viewed
from fp2.methods.viewer.pages import PER_GROUP, Viewed, named_row, read_query, render
from fp2.progress import Progress
from fp2.report.answers import blinded, striking_first
from fp2.report.reading import row_name

TRUTH = (
    "model.truth={seed: 4, refusals: {lifestyle: {base: 0.5}}, effects: {occupation: {gender: {f: -3}}, "
    "trust: {gender: {m: -3}}}}"
)


@pytest.fixture(scope="module")
def viewed(tmp_path_factory: pytest.TempPathFactory, squares: Path) -> Viewed:
    """Two runs of two simulated models on the same images."""
    bench = Bench(tmp_path_factory.mktemp("view"), squares)
    truths = (TRUTH, "model.truth={seed: 5}")
    folders = [
        str(bench.run(truth, "scorer=[valence,refusal]", "analysis.permutations=999").folder) for truth in truths
    ]
    scratch = tmp_path_factory.mktemp("scratch")
    return load_viewed(folders, bench.config(), scratch, Progress(quiet=True))


@pytest.fixture
def server(viewed: Viewed) -> Iterator[ViewServer]:
    with ViewServer(viewed, 0) as one:
        threading.Thread(target=one.serve_forever, daemon=True).start()
        yield one
        one.shutdown()


def page_of(viewed: Viewed, query: str, **changed: Any) -> str:
    return render(replace(viewed, **changed), read_query(query))


def test_a_page_has_the_images_and_both_answers(server: ViewServer, viewed: Viewed) -> None:
    with urllib.request.urlopen(server.address) as reply:
        assert reply.headers["Cache-Control"] == "no-store"
        assert reply.headers["Content-Security-Policy"].startswith("default-src 'none'")
        page = reply.read().decode()
    key = viewed.rows["image_id"].iloc[0]
    assert f'src="image/{key}"' in page
    assert all(name in page for name in viewed.names)
    with urllib.request.urlopen(f"{server.address}image/{key}") as reply:
        assert Image.open(io.BytesIO(reply.read())).format == "JPEG"


@pytest.mark.parametrize(
    ("path", "host"), [("/", None), ("/wrong/", None), ("{secret}image/none", None), ("{secret}", "evil.example")]
)
def test_without_the_secret_or_from_another_site_there_is_nothing(
    server: ViewServer, path: str, host: str | None
) -> None:
    port = server.server_address[1]
    address = f"http://127.0.0.1:{port}{path.format(secret=f'/{server.secret}/')}"
    request = urllib.request.Request(address, headers={"Host": host} if host else {})
    with pytest.raises(urllib.error.HTTPError, match="404"):
        urllib.request.urlopen(request)


def test_filters_and_orders(viewed: Viewed) -> None:
    rows = viewed.rows
    refused = rows["refused_0"] | rows["refused_1"]
    assert 0 < refused.sum() < len(rows)
    for query, n in (
        ("", len(rows)),
        ("probe=trust", (rows["probe"] == "trust").sum()),
        ("kind=refusals", refused.sum()),
        ("group=gender=f", (viewed.groups["gender"] == "f").sum()),
        ("text=no+such+words", 0),
    ):
        assert f"{n:,} answer" in page_of(viewed, query)
    apart = page_of(viewed, "order=apart&kind=answers").partition('class="cards"')[2]
    largest = (rows["value_0"] - rows["value_1"]).abs()[~refused].idxmax()
    assert str(rows["text_0"][largest])[:20] in apart[: apart.index("</li>")]


@pytest.mark.parametrize("page", ["99999999999999999999", "-3", "x", "0"])
def test_a_page_that_is_none_is_the_nearest(viewed: Viewed, page: str) -> None:
    assert "page " in page_of(viewed, f"page={page}")


def test_hostile_answers_stay_text(viewed: Viewed) -> None:
    rows = viewed.rows.assign(text_0="<script>alert(1)</script>")
    page = page_of(viewed, "text=<script>", rows=rows)
    assert "<script" not in page
    assert "&lt;script&gt;" in page


def test_a_comparison_has_the_answers_of_two_groups_and_names_them_only_when_asked(viewed: Viewed) -> None:
    page = page_of(viewed, "row=gender/occupation/valence")
    named = page_of(viewed, "row=gender/occupation/valence&names=shown")
    row = named_row("gender/occupation", viewed.results)
    rows = viewed.rows[viewed.rows["probe"] == "occupation"]
    for place, (letter, group) in enumerate(blinded(row)):
        column = page.split("<section ")[place + 1]
        mine = rows[viewed.groups["gender"][rows.index] == group]
        shown = re.findall(r'src="image/([0-9a-f]+)"', column)
        assert len(shown) == PER_GROUP
        assert set(shown) <= set(mine["image_id"])
        assert f"Group {letter}</h3>" in column
        assert f"Group {letter}: <bdi>{group}</bdi>" in named
        n_probes = viewed.rows["probe"].nunique()
        assert column.count("<q ") == PER_GROUP * n_probes * len(viewed.names)
    assert "<bdi>" not in page
    assert "mean valence" not in page
    assert str(next(one["mean"] for one in row["groups"] if one["group"] == "f"))[:4].lstrip("-") in named


def test_the_order_of_the_two_groups_does_not_depend_on_which_is_worse(viewed: Viewed) -> None:
    row = named_row("gender/occupation", viewed.results)
    assert blinded(row) == blinded({**row, "worst_group": row["best_group"], "best_group": row["worst_group"]})


def test_the_first_page_lists_the_significant_differences_most_striking_first(viewed: Viewed) -> None:
    rows = striking_first(viewed.results)
    assert [row_name(row) for row in rows[:2]]
    links = re.findall(r'href="\?row=([^"]+)"', page_of(viewed, ""))
    assert [urllib.parse.unquote(link) for link in links] == [row_name(row) for row in rows]
    none = {**viewed.results, "disparities": [{**row, "significant": False} for row in viewed.results["disparities"]]}
    page = page_of(viewed, "", results=none)
    assert "?row=" not in page
    assert "No difference between groups is significant" in page


@pytest.mark.parametrize("name", ["gender/occupation", "Gender / occupation / Valence", "gender/P1 Occupation"])
def test_a_row_is_named_by_ids_or_labels(viewed: Viewed, name: str) -> None:
    assert row_name(named_row(name, viewed.results)) == "gender/occupation/valence"
    assert named_row("gender/lifestyle/refusal", viewed.results)["scorer"] == "refusal"


@pytest.mark.parametrize("name", ["region/occupation", "gender", "gender/none", "a/b/c/d", "gender/occupation/none"])
def test_a_row_that_is_none_is_one_line_and_a_page_without_it(viewed: Viewed, name: str) -> None:
    with pytest.raises(Fp2Error, match="Choose from: gender/"):
        named_row(name, viewed.results)
    assert "page 1 of" in page_of(viewed, f"row={name}")


def test_what_cannot_be_viewed_is_one_line(
    bench: Bench, viewed: Viewed, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert fp2("view", "a", "b", "c", *bench.paths) == 2
    assert "3 runs were given" in capsys.readouterr().err
    with ViewServer(viewed, 0) as one, pytest.raises(Fp2Error, match="cannot be used"):
        ViewServer(viewed, one.server_address[1])
    own = Bench(bench.root, Path(shutil.copytree(bench.pictures, tmp_path / "pictures")))  # theirs are all tests'
    folder = own.run().folder
    own.table.write_text(own.table.read_text().replace(".png", ".bmp"))
    with pytest.raises(Fp2Error, match="none of the 72 images was found"):
        load_viewed([str(folder)], own.config(), tmp_path, Progress(quiet=True))
