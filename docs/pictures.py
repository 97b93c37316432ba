"""Draw the pictures of these pages that show results: `python docs/pictures.py [PROJECT [RUN]]`.

Eight runs on the drawn people in a project's folder (by default this one), about five minutes of processor time: the
default run (or RUN, if it is there), and simulated models with planted effects. None of them is about people. Pages are
opened in Chromium.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from rich.console import Console

import fp2
from fp2.api import Run
from fp2.report.section import load_sections
from fp2.report.terminal import print_results

IMAGES = Path(__file__).resolve().parent / "images"
SWEPT = {"Quiet-2B": 0.0, "Mild-2B": -1.0, "Plain-3B": -1.5, "Sharp-2B": -2.5, "Harsh-1B": -4.5}
"""Points of simulated models, in levels of their ten sentences."""
GAP = {"all": {"region": {"Africa": -2, "Asia": -1}}, "occupation": {"pronoun": {"She/her/hers": -2}}}
SKIN = {"V": 0.4, "VI": 0.4}
"""Shares of the points."""
DISPARITIES = "fp2.report.disparities:DisparitiesSection"


def simulated(name: str, effects: object, seed: int, root: Path, folder: Path) -> Run:
    """Run a simulated model on the drawn people."""
    truth = folder / f"{name}.yaml"
    truth.write_text(json.dumps({"seed": seed, "effects": effects}), encoding="utf-8")
    words = [f"model.name={name}", f"model.truth={truth}", "cut=all", "analysis=quick", "tracking=none", "report=none"]
    return fp2.evaluate(model="planted", scorers="valence", overrides=words, root=root)


def command(*words: object) -> None:
    """Run a command of fp2."""
    subprocess.run([sys.executable, "-m", "fp2.cli", *map(str, words)], check=True)


def picture(page: Path, name: str, width: int, height: int) -> None:
    """Take a picture of the first part of a page."""
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    assert chromium, "Chromium is needed"
    words = ["--headless", "--no-sandbox", "--hide-scrollbars", f"--window-size={width},{height}"]
    subprocess.run(
        [chromium, *words, f"--screenshot={IMAGES / name}", page.resolve().as_uri()], check=True, capture_output=True
    )


def draw_default(run: Run, folder: Path) -> None:
    """Draw the terminal, the dashboard and the passport of the default run."""
    console = Console(record=True, width=80, force_terminal=True, file=(folder / "terminal.txt").open("w"))
    print_results(run.results, console, sections=load_sections([DISPARITIES]))
    svg = console.export_svg(title="make run")
    (folder / "terminal.html").write_text(f"<style>body {{ margin: 0 }} svg {{ width: 880px }}</style>{svg}")
    picture(folder / "terminal.html", "terminal.png", 880, 486)
    picture(run.folder / "dashboard.html", "dashboard.png", 1100, 1712)
    command("passport", run.folder / "passport.json", "--html", folder / "passport.html")
    picture(folder / "passport.html", "passport.png", 760, 620)


def draw(root: Path, default: Run) -> None:
    """Draw all of them."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        draw_default(default, folder)
        swept = []
        for seed, (name, points) in enumerate(SWEPT.items(), 1):
            effects = {probe: {"region": {"Africa": points}} for probe in ("occupation", "neighbourhood")}
            effects["trust"] = {"skin_tone": {skin: share * points for skin, share in SKIN.items()}}
            swept.append(simulated(name, effects, seed, root, folder).folder)
        command("report", *swept, "--to", folder / "report")
        shutil.copyfile(folder / "report" / "fingerprints.png", IMAGES / "sweep.png")
        pair = [simulated("fair", {}, 6, root, folder).folder, simulated("gap", GAP, 7, root, folder).folder]
        command("compare", *pair, "--figure", IMAGES / "compared.png")


if __name__ == "__main__":
    project = Path(sys.argv[1] if len(sys.argv) > 1 else ".").resolve()
    draw(project, fp2.load_run(sys.argv[2], root=project) if len(sys.argv) > 2 else fp2.evaluate(root=project))
