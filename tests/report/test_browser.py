"""Every page in Chromium: accessible, readable at each width, silent, closed to the network, deaf to hostile words."""

from __future__ import annotations

import copy
import json
import math
import re
import shutil
import threading
from collections.abc import Iterator
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import numpy as np
import pytest
from bench import REPOSITORY, Bench, fp2, results_of
from report.chart_examples import CHARTS
from report.conftest import make_hostile, make_results
from report.hostile_words import HOSTILE_TEXTS
from report.test_dashboard import Page
from thorough import thorough_but

import fp2 as fp2_library
from fp2.ask.answers import read_tables
from fp2.methods.labels.command import LabelServer
from fp2.methods.labels.sample import Wanted, sheet_of
from fp2.methods.several_runs.sweep import SweepRun, sweep_results
from fp2.methods.several_runs.sweep_page import render_sweep
from fp2.methods.several_runs.sweep_report import make_report
from fp2.methods.viewer.command import ViewServer, load_viewed
from fp2.notes import read_notes
from fp2.progress import Progress
from fp2.report.dashboard import render_dashboard
from fp2.report.leaderboard import summarise
from fp2.report.page import PageSection, render_page
from fp2.report.reading import number
from fp2.report.section import load_sections
from fp2.report.values import ChartKind
from fp2.runs.logged import logged_config, logged_protocol
from fp2.runs.stages import Evaluation, results_from

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium is installed to open the pages with")
RELEASED = REPOSITORY / "tests" / "releases" / "0.3.0" / "runs"
PROTOCOLS = ("attention", "diversity", "fhibe_clip", "fhibe_narrow", "fhibe_scores", "fhibe_vqa", "gras", "twins")
"""Runs of every protocol, as an earlier version left them; the code of today makes their pages."""
PAGES = ("dashboard", "supplements", "hostile dashboard", "sweep", "hostile sweep", "passport", "comparison", "view",
         "label", "charts", "notebook", *PROTOCOLS)  # fmt: skip
WIDTHS = (390, 800, 1200, 1280, 1400)
"""A phone, a tablet, desks."""
DASHBOARD = ("report=default", "report.figures=false")
SUPPLEMENTS = (
    "cut.each=[gender,region,gender_x_region]", "analysis.published=true", "analysis.multiverse=true",
    "analysis.adjust=[brightness]", "analysis.permutations=99", "analysis.bootstrap=50", "analysis.min_subjects=4",
)  # fmt: skip
"""What the analysis of a run can have beyond its default."""
CLIPPED = """Array.from(document.querySelectorAll('.scroll')).filter(e => e.checkVisibility()
  && e.scrollWidth > e.clientWidth).map(e => e.getAttribute('aria-label'))"""
"""Labels of the tables that go on beyond their right edge."""
A4 = {"dashboard": (1047, 718), "sweep": (1047, 718), "comparison": (1047, 718), "passport": (688, 1016)}
"""CSS pixels between the margins that the page states: 10 mm in landscape, 14 mm in portrait."""
ALL_RULES = {"type": "tag", "values": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "best-practice"]}
IMPACTS = ("minor", "moderate", "serious", "critical")
CONTRAST = {"type": "rule", "values": ["color-contrast"]}


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """One Chromium for all pages."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        one = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield one
        one.close()


class Pages(dict[str, str]):
    """Page -> address; a page is made when it is opened first: `make test` opens a few, `make test-thorough` all."""

    def __init__(self, bench: Bench, folder: Path) -> None:
        self.bench, self.folder = bench, folder
        self.servers: list[ViewServer | LabelServer] = []

    def __missing__(self, name: str) -> str:
        if name in ("view", "label"):
            server = self.view() if name == "view" else LabelServer(self.sheet(), "a", 0)
            self.servers.append(server)
            threading.Thread(target=server.serve_forever, daemon=True).start()
            self[name] = server.address
        else:
            self[name] = self.written(name).as_uri()
        return self[name]

    @cached_property
    def runs(self) -> list[Path]:
        """Two runs of simulated models."""
        truth = "model.truth={seed: 3, refusals: {lifestyle: {base: 0.3}}, effects: {occupation: {gender: {f: -3}}}}"
        words = (*DASHBOARD, "cut.each=[gender,region]")
        return [
            self.bench.run(truth, "analysis.permutations=1999", *words).folder,
            self.bench.run("model.truth={seed: 5}", *words).folder,
        ]

    @cached_property
    def attacked(self) -> list[dict[str, Any]]:
        """Made-up results in which every word is an attack, and others; two of four cuts."""
        results = [make_hostile(make_results("other", 2, 0.5)), make_results("peeps-vlm", 1, 1.0, embedded=True)]
        return [{**one, "cuts": ["region", "pronoun"]} for one in results]

    def written(self, name: str) -> Path:
        """Write a page, and return its file."""
        names, path = [str(run) for run in self.runs], self.folder / f"{name}.html"
        if name in ("dashboard", "supplements"):
            run = self.runs[0] if name == "dashboard" else self.bench.run(*DASHBOARD, *SUPPLEMENTS).folder
            return run / "dashboard.html"
        if name == "passport":
            assert fp2("passport", f"{names[0]}/passport.json", "--html", str(path)) in (0, 1)
        elif name == "comparison":
            assert fp2("compare", *names, "--html", str(path), *self.bench.paths) == 0
        elif name == "sweep":
            make_report(names, self.bench.config(*DASHBOARD), self.folder, Progress(quiet=True))
            return self.folder / "report.html"
        else:
            path.write_text(self.html(name), encoding="utf-8")
        return path

    def html(self, name: str) -> str:
        """Return a page that is of no finished run, or of one of an earlier version."""
        if name == "charts":
            kinds = [PageSection(kind.value, kind.value, [chart]) for kind, chart in CHARTS.items()]
            about = {"title": "Charts", "cuts": {}, "scorers": [], "version": "0", "has_answers": False}
            return render_page(about, [], kinds, 0)
        if name == "notebook":
            shown = fp2_library.load_run(self.runs[0])._repr_html_()
            return f'<!DOCTYPE html><html lang="en"><title>x</title><main><h1>x</h1><h2>x</h2>{shown}</main></html>'
        if name == "hostile sweep":
            runs = [SweepRun(copy.deepcopy(one), None, HOSTILE_TEXTS[0]) for one in self.attacked]
            return render_sweep(sweep_results(runs, [], 10))
        if name == "hostile dashboard":
            attacks = [{"probe": "trust", "text": text, "count": 9} for text in HOSTILE_TEXTS]
            answer = {"probe": "trust", "question": "q", "refused": False, "value": 0.1}
            sample = [{**answer, "text": text, "groups": {"region": text}} for text in HOSTILE_TEXTS]
            board = [row for one in self.attacked for row in summarise(one)]
            return render_dashboard(self.attacked[0], attacks, board, sample=sample)
        results, sections = analysed_again(RELEASED / name, self.bench.config())
        return render_dashboard(results, [], summarise(results), sections=sections)

    def view(self) -> ViewServer:
        viewed = load_viewed([str(run) for run in self.runs], self.bench.config(), self.folder, Progress(quiet=True))
        texts = (HOSTILE_TEXTS * len(viewed.rows))[: len(viewed.rows)]
        return ViewServer(replace(viewed, rows=viewed.rows.assign(text_0=texts)), 0)

    def sheet(self) -> Any:
        return sheet_of(self.runs[0], self.bench.config(), Wanted(None, 36, None, None, None))


@pytest.fixture(scope="module")
def addresses(tmp_path_factory: pytest.TempPathFactory, squares: Path) -> Iterator[Pages]:
    pages = Pages(Bench(tmp_path_factory.mktemp("project"), squares), tmp_path_factory.mktemp("pages"))
    yield pages
    for server in pages.servers:
        server.shutdown()
        server.server_close()


def analysed_again(folder: Path, here: Any) -> tuple[dict[str, Any], Any]:
    """Return the results that the code of today finds in the tables of a run, and the sections that show them."""
    before = results_of(folder)
    config = logged_config(folder, here, before["run_id"])
    config.analysis.permutations, config.analysis.bootstrap = 39, 20
    tables = read_tables(folder)
    protocol, job = logged_protocol(config, tables.people)
    job = replace(job, facts=protocol.recall(before))
    evaluation = Evaluation(protocol, job, tables, before, read_notes(before))
    results = results_from(evaluation, protocol.analyse(tables, job))
    return results, load_sections(protocol.section_targets())


class Opened:
    """A page at one width, with what it said to the console and asked of the network."""

    def __init__(self, browser: Any, address: str, width: int, scheme: str) -> None:
        window = {"width": width, "height": 900}
        self.context = browser.new_context(viewport=window, color_scheme=scheme, reduced_motion="reduce")
        self.page = self.context.new_page()
        self.said: list[str] = []
        self.asked: list[str] = []
        self.page.on("console", lambda message: self.said.append(message.text))
        self.page.on("pageerror", lambda error: self.said.append(str(error)))
        self.page.on("dialog", lambda dialog: (self.said.append(dialog.message), dialog.dismiss()))
        self.page.on("request", lambda request: self.asked.append(request.url))
        self.page.goto(address)

    def __enter__(self) -> Opened:
        return self

    def __exit__(self, *error: object) -> None:
        self.context.close()


def violations(page: Any, rules: Any = None, *, least: str = "minor") -> list[tuple[str, str, str]]:
    """Return what axe finds on a page, all rules by default: the rule, the element, and what is wrong with it."""
    import axe_playwright_python

    if not page.evaluate("'axe' in window"):
        page.evaluate((Path(axe_playwright_python.__file__).parent / "axe.min.js").read_text(encoding="utf-8"))
    options = {"runOnly": rules or ALL_RULES, "resultTypes": ["violations"], "preload": False}
    found = page.evaluate("options => axe.run(document, options)", options)["violations"]
    found = [rule for rule in found if IMPACTS.index(rule["impact"]) >= IMPACTS.index(least)]
    return [(rule["id"], node["html"][:200], node["failureSummary"]) for rule in found for node in rule["nodes"]]


SCHEMES = {WIDTHS[0]: ("dark", "light"), WIDTHS[-1]: ("light", "dark")}
"""On a phone and a desk, each dark and light: of the second scheme at a width, the contrast."""
ONE_SCHEME = (*PROTOCOLS, "view", "label", "charts", "notebook")
"""Pages of the same parts and colours as the others: dark on a phone, light on a desk."""


@pytest.mark.parametrize("name", thorough_but(PAGES, "dashboard", "comparison", "view"))
def test_a_page_is_accessible_silent_closed_and_never_wider_than_the_window(
    browser: Any, addresses: dict[str, str], name: str
) -> None:
    own, whole_from = addresses[name], WIDTHS[3] if name == "sweep" else WIDTHS[2]
    with Opened(browser, own, WIDTHS[0], "dark") as one:
        for width in WIDTHS:
            one.page.set_viewport_size({"width": width, "height": 900})
            assert one.page.evaluate("document.documentElement.scrollWidth") <= width, width
            if width >= whole_from and "hostile" not in name:  # whose words can be wider than any window
                assert one.page.evaluate(CLIPPED) == [], width
            schemes = SCHEMES.get(width, ())[: 1 if name in ONE_SCHEME else 2]
            for scheme, rules in zip(schemes, (ALL_RULES, CONTRAST), strict=False):
                one.page.emulate_media(color_scheme=scheme)
                assert not violations(one.page, rules), (width, scheme)
        assert not one.said
        assert all(address.startswith((own, "data:")) for address in one.asked)


def test_on_a_phone_answers_take_the_width_and_tables_show_that_they_go_on(browser: Any, addresses: Any) -> None:
    with Opened(browser, addresses["dashboard"], WIDTHS[0], "light") as one:
        one.page.get_by_role("heading", name="Answers to read").click()
        widths = one.page.evaluate(
            "Array.from(document.querySelectorAll('#sample tr:not([hidden]) td:has(q)'), e => e.clientWidth)"
        )
        assert min(widths) > 0.84 * WIDTHS[0]  # raises if there is none
        rows = "Array.from(document.querySelectorAll('#sample tbody tr')).filter(e => e.checkVisibility()).length"
        assert one.page.evaluate(rows) == 3  # of more: the others are behind a button
        labels = "getComputedStyle(document.querySelector('#sample td:has(q)'), '::before').content"
        assert "attr(data-label)" in one.page.evaluate(labels) or "Answer" in one.page.evaluate(labels)
        table = one.page.locator(
            ".scroll[aria-label='Disparities between groups: Valence by gender (worst: lowest mean)']"
        )
        masks = "e => getComputedStyle(e).maskImage"
        assert "gradient" in table.evaluate(masks)
        first = "e => e.querySelector('tbody th').getBoundingClientRect().left - e.getBoundingClientRect().left"
        table.evaluate("e => { e.scrollLeft = e.scrollWidth; }")
        one.page.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
        assert table.evaluate(masks) == "none"
        assert table.evaluate(first) == 0


@pytest.mark.parametrize("name", thorough_but(A4, "dashboard"))
def test_nothing_is_cut_or_folded_on_paper(browser: Any, addresses: dict[str, str], name: str) -> None:
    with Opened(browser, addresses[name], A4[name][0], "light") as one:
        one.page.set_viewport_size(dict(zip(("width", "height"), A4[name], strict=True)))
        one.page.emulate_media(media="print")
        one.page.evaluate("dispatchEvent(new Event('beforeprint'))")
        assert one.page.evaluate(CLIPPED) == []
        assert one.page.evaluate("document.documentElement.scrollWidth") <= A4[name][0]
        left = "details:not([open]), :not(th) > button, .tip"
        shown = f"Array.from(document.querySelectorAll('{left}')).filter(e => e.checkVisibility()).length"
        assert one.page.evaluate(shown) == 0
        one.page.evaluate("dispatchEvent(new Event('afterprint'))")
        assert one.page.locator("details[open]").count() == 0


@pytest.mark.parametrize("name", thorough_but(["dashboard", "sweep"], "dashboard"))
def test_print_shows_what_the_switches_hide(browser: Any, addresses: dict[str, str], name: str) -> None:
    with Opened(browser, addresses[name], WIDTHS[1], "dark") as one:
        hidden = "Array.from(document.querySelectorAll('table')).filter(e => !e.checkVisibility()).length"
        on_screen = one.page.evaluate(hidden)
        one.page.emulate_media(media="print")
        assert one.page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
        assert not one.page.locator("#switches").is_visible()
        on_paper = one.page.evaluate(hidden)
        assert on_paper < on_screen if name == "dashboard" else on_paper == on_screen
        one.page.evaluate("dispatchEvent(new Event('beforeprint'))")
        assert not one.page.locator(".on-screen:visible, .other-score:visible").count()
        if name == "dashboard":
            assert "Answers to read" in one.page.locator("#unprinted").inner_text()


@pytest.mark.parametrize("name", thorough_but(["dashboard", "sweep"], "dashboard"))
def test_the_keyboard_reaches_everything(browser: Any, addresses: dict[str, str], name: str) -> None:
    focused = "document.activeElement"
    with Opened(browser, addresses[name], WIDTHS[-1], "light") as one:
        press = one.page.keyboard.press
        press("Tab")
        assert one.page.evaluate(f"{focused}.textContent") == "Skip to the results"
        while one.page.evaluate(f"{focused}.name") != "cut":
            press("Tab")
        shown = (
            "Array.from(document.querySelectorAll('main .scroll:not([hidden])'), e => e.dataset.cut).filter(Boolean)"
        )
        assert set(one.page.evaluate(shown)) == {"gender"}
        press("ArrowRight")
        assert set(one.page.evaluate(shown)) == {"region"}
        while one.page.evaluate(f"{focused}.textContent") != "Probe":
            press("Tab")
            assert one.page.evaluate(f"{focused} !== document.body"), "the headings of the table were not reached"
        assert one.page.evaluate(f"getComputedStyle({focused}).outlineStyle") != "none"
        press("Enter")
        assert one.page.evaluate(f"{focused}.parentElement.getAttribute('aria-sort')") == "ascending"


@pytest.mark.parametrize(
    ("name", "marks"),
    [
        ("hostile dashboard", "[aria-labelledby=h-summary] .beside .beside figure.chart:first-of-type .point circle"),
        ("sweep", "section[aria-labelledby=h-leaderboard] td"),
    ],
)
def test_every_mark_says_its_value(browser: Any, addresses: dict[str, str], name: str, marks: str) -> None:
    """By pointer and by keyboard, with words that the page holds."""
    with Opened(browser, addresses[name], WIDTHS[1], "dark") as one:
        tip, found = one.page.locator("#tip"), one.page.locator(f"{marks}[data-tip]:visible")
        found.first.scroll_into_view_if_needed()
        said = found.evaluate_all("all => all.map(e => e.dataset.tip)")
        found.first.hover()
        assert tip.inner_text().split() == said[0].split()
        one.page.mouse.move(0, 0)
        tip.wait_for(state="hidden")
        assert [one.page.locator(f"{marks}[tabindex='0']:visible").count(), found.count() > 3] == [1, True]
        found.first.focus()
        one.page.keyboard.press("ArrowRight")
        assert tip.inner_text().split() == said[1].split()
        assert one.page.locator("[aria-label]:focus, [aria-describedby=tip]:focus").count() == 1
        ends = tip.bounding_box()
        assert ends["x"] >= 0
        assert ends["x"] + ends["width"] <= WIDTHS[1]
        one.page.keyboard.press("Escape")
        assert not tip.is_visible()
    html = Path(unquote(addresses[name].removeprefix("file://"))).read_text(encoding="utf-8")
    held = [attrs for _, attrs in Page(html).tags]
    charts = [json.loads(attrs["data-chart"] or "") for attrs in held if "data-chart" in attrs]
    radars = [point.get("title") for chart in charts for one in chart["series"] for point in one["points"]]
    assert set(said) <= {*radars, *(attrs.get("title") for attrs in held)}


def test_hostile_words_are_read_as_words(browser: Any, addresses: dict[str, str]) -> None:
    for name in ("hostile dashboard", "hostile sweep", "view"):
        with Opened(browser, addresses[name], WIDTHS[1], "light") as one:
            assert one.page.locator("img[src=x], a[href^='https://evil'], b").count() == 0
            shown = one.page.evaluate("document.body.textContent")
            assert "<script>alert(1)</script>" in shown
            assert "{{ 7 * 7 }}" in shown or name == "hostile sweep"  # no template is filled from an answer


def test_charts_are_drawn_where_they_are_seen_and_on_paper(browser: Any, addresses: dict[str, str]) -> None:
    """Each at the width of its place, with the runs that are chosen; nothing is drawn for what is hidden."""
    with Opened(browser, addresses["sweep"], WIDTHS[-1], "light") as one:
        drawn = "Array.from(document.querySelectorAll('[data-chart]')).filter(e => e.querySelector('svg')).length"
        visible, lines = one.page.locator("[data-chart]:visible"), one.page.locator(".point.r1 circle:visible")
        assert one.page.evaluate(drawn) == visible.count() < one.page.locator("[data-chart]").count()
        before = lines.count()
        one.page.locator("#runs span").nth(1).click()
        assert [before > 0, lines.count()] == [True, 0]
        one.page.locator("#runs span").nth(1).click()
        assert lines.count() == before
        effects = one.page.locator("[data-chart]:visible svg").last
        wide = effects.bounding_box()["width"]
        one.page.set_viewport_size({"width": WIDTHS[0], "height": 900})
        one.page.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
        assert effects.bounding_box()["width"] < WIDTHS[0] < wide
        assert float(effects.get_attribute("width")) == pytest.approx(effects.bounding_box()["width"], abs=1)
        one.page.evaluate("dispatchEvent(new Event('beforeprint'))")
        assert one.page.evaluate(drawn) == one.page.locator("[data-chart]").count()


@pytest.mark.parametrize("name", thorough_but(["dashboard", "passport", "fhibe_scores"], "dashboard"))
@pytest.mark.parametrize(("width", "height"), [(390, 844), (800, 900), (1400, 900)])
def test_the_first_screen_has_a_chart_and_few_words(
    browser: Any, addresses: dict[str, str], width: int, height: int, name: str
) -> None:
    with Opened(browser, addresses[name], width, "light") as one:
        top = one.page.locator("main svg").first.bounding_box()["y"]
        assert top < height
        words = one.page.evaluate(
            "document.querySelector('header').innerText + document.querySelector('main section').innerText"
        ).split()
        assert len(words) <= 250
        assert len(one.page.inner_text("body").split()) <= 900
        assert one.page.evaluate("document.documentElement.scrollHeight") / height <= (9 if width == 390 else 6)


@pytest.mark.parametrize("width", [WIDTHS[0], WIDTHS[-1]])
@pytest.mark.parametrize("start", thorough_but(["p.lead a", "svg a", "th a"], "svg a"))
def test_one_key_leads_to_the_answers_of_a_difference_and_the_groups_stay_hidden(
    browser: Any, addresses: dict[str, str], start: str, width: int
) -> None:
    """From the sentence, the chart or the table; without a name until the reader asks for it."""
    with Opened(browser, addresses["dashboard"], width, "light") as one:
        one.page.locator(f"{start}:visible").first.focus()
        one.page.keyboard.press("Enter")
        part = one.page.locator("details[id='answers/gender/occupation/valence']")
        part.locator("table").wait_for(state="visible")
        one.page.wait_for_function("document.activeElement.parentElement.id === 'answers/gender/occupation/valence'")
        assert 0 <= part.bounding_box()["y"] < 900
        assert part.locator("td").count() == 2 * part.locator("tbody tr").count() > 0
        key = part.locator("details p")
        assert not key.is_visible()
        one.page.keyboard.press("Tab")
        while one.page.evaluate("document.activeElement.localName") != "summary":
            one.page.keyboard.press("Tab")
        one.page.keyboard.press("Enter")
        assert {"f", "m"} <= set(key.locator("bdi").all_inner_texts())
        assert not one.said


@pytest.mark.parametrize("width", thorough_but([WIDTHS[0], WIDTHS[-1]], WIDTHS[-1]))
def test_the_view_compares_two_groups_by_keyboard(browser: Any, addresses: dict[str, str], width: int) -> None:
    """Two columns that lie side by side; names and the other answers about an image when they are asked for."""

    def press(words: str) -> None:
        one.page.get_by_text(words).first.focus()
        one.page.keyboard.press("Enter")

    with Opened(browser, addresses["view"], width, "light") as one:
        press("P1 Occupation by gender")
        one.page.wait_for_url("**row=gender**")
        left, right = (column.bounding_box() for column in one.page.locator(".two > section").all())
        assert left["y"] == right["y"]
        assert left["x"] + left["width"] <= right["x"]
        heads = one.page.locator(".two h3")
        assert heads.all_inner_texts() == ["Group A", "Group B"]
        press("other answers")
        assert one.page.locator(".tile details q:visible").count() >= 5
        press("show which group")
        one.page.wait_for_url("**names=shown**")
        assert sorted(text.split()[2] for text in heads.all_inner_texts()) == ["f", "m"]
        assert one.page.evaluate("document.documentElement.scrollWidth") <= width
        assert not violations(one.page)


def test_a_chart_draws_the_numbers_it_holds(browser: Any, addresses: dict[str, str]) -> None:
    """The centres of the points, back on the scale of the axis, are the disparities of the row."""
    with Opened(browser, addresses["dashboard"], WIDTHS[-1], "light") as one:
        charts = [
            json.loads(figure.get_attribute("data-chart")) for figure in one.page.locator("[data-chart]:visible").all()
        ]
        place = next(n for n, chart in enumerate(charts) if chart["kind"] == "intervals")
        radar, intervals = charts[0], charts[place]
        centres = "all => all.map(e => [Number(e.getAttribute('cx')), Number(e.getAttribute('cy'))])"
        points = one.page.locator("[data-chart]:visible >> nth=0 >> .point circle").evaluate_all(centres)
        svg = one.page.locator("[data-chart]:visible >> nth=0 >> svg")
        middle = [float(svg.get_attribute(name)) / 2 for name in ("width", "height")]
        outer = max(float(ring.get_attribute("r")) for ring in svg.locator(".grid circle").all())
        found = [math.dist(point, middle) / outer * radar["end"] for point in points]
        drawn = [point["value"] for point in radar["series"][0]["points"] if "value" in point]
        assert found == pytest.approx(drawn, abs=1e-3)
        figure = one.page.locator("[data-chart]:visible").nth(place)
        rules = figure.locator(".interval line").evaluate_all(
            "all => all.map(e => [Number(e.getAttribute('x1')), Number(e.getAttribute('x2'))])"
        )
        bars = figure.locator(".chance rect").evaluate_all("all => all.map(e => Number(e.getAttribute('x')))")
        rows = [point for point in intervals["series"][0]["points"] if "value" in point]
        xs = [x for x, _ in figure.locator(".point circle").evaluate_all(centres)]
        scale = (xs[0] - bars[0]) / rows[0]["value"]
        assert [(x - bars[0]) / scale for x in xs] == pytest.approx([row["value"] for row in rows], abs=2e-3)
        ends = [(row["low"], row["high"]) for row in rows]
        assert [(low - bars[0]) / scale for low, _ in rules] == pytest.approx([low for low, _ in ends], abs=2e-3)
        assert [(high - bars[0]) / scale for _, high in rules] == pytest.approx([high for _, high in ends], abs=2e-3)


CENTRES = "all => all.map(e => [Number(e.getAttribute('cx')), Number(e.getAttribute('cy'))])"
BOXES = "all => all.map(e => ['x', 'y', 'width', 'height'].map(name => Number(e.getAttribute(name))))"


def assert_linear(pixels: Any, values: Any) -> None:
    """Check that pixels are a linear function of the values: differences are in proportion."""
    slope, start = np.polyfit(values, pixels, 1)
    assert pixels == pytest.approx([start + slope * value for value in values], abs=0.05)


@pytest.mark.parametrize("width", thorough_but([WIDTHS[0], WIDTHS[-1]], WIDTHS[0]))
def test_every_kind_of_chart_draws_its_numbers(browser: Any, addresses: dict[str, str], width: int) -> None:
    with Opened(browser, addresses["charts"], width, "light") as one:
        section = {kind: one.page.locator(f"section[aria-labelledby='h-{kind}']") for kind in ChartKind}
        points = {
            kind: [p for s in chart.series for p in s.points if p.value is not None] for kind, chart in CHARTS.items()
        }
        for kind in (ChartKind.INTERVALS, ChartKind.LINES, ChartKind.POINTS):
            centres = section[kind].locator(".point circle").evaluate_all(CENTRES)
            values = [p.value for p in points[kind]]
            if kind is ChartKind.INTERVALS:
                assert_linear([x for x, _ in centres], values)
            else:
                assert_linear([y for _, y in centres], values)
                assert_linear([x for x, _ in centres], [p.x for p in points[kind]])
        bars = section[ChartKind.BARS].locator(".bar rect").evaluate_all(BOXES)
        assert_linear([w for _, _, w, _ in bars], [p.value for p in points[ChartKind.BARS]])
        columns = section[ChartKind.HISTOGRAM].locator(".column rect").evaluate_all(BOXES)
        assert_linear([h for *_, h in columns], [p.value for p in points[ChartKind.HISTOGRAM]])
        cells = section[ChartKind.HEAT].locator("td.cell").all_inner_texts()
        wanted = [number(p.value, 2) for s in CHARTS[ChartKind.HEAT].series for p in s.points]
        assert [re.sub(r"[▼▲*]|lower|higher|significant", "", text).strip() for text in cells] == wanted
        for kind, chart in section.items():
            assert chart.locator("[data-tip]").count() == len(points[kind]), kind
        legend = section[ChartKind.LINES].locator(".legend").inner_text()
        assert all(words in legend for words in ("model 11", "overall mean", "equivalence"))
