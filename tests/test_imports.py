"""Starting up costs nothing: help and typing errors come before any heavy library."""

from __future__ import annotations

import resource
import subprocess
import sys
from pathlib import Path

import pytest
from bench import REPOSITORY, environment

HEAVY = ("torch", "transformers", "mlflow", "pandas", "sklearn", "scipy", "matplotlib", "numpy", "PIL")
PARTS = "fp2.stats, fp2.scorers, fp2.data, fp2.engines, fp2.report, fp2.store, fp2.probes, fp2.protocols"


@pytest.mark.parametrize(
    ("code", "heavy"),
    [
        (f"import fp2.app, fp2.cli, {PARTS}", HEAVY),
        (f"import fp2; dir(fp2); import {PARTS}", ("hydra", "jinja2", "cryptography", "rich", *HEAVY)),
        ("import contextlib, fp2.app\nwith contextlib.suppress(SystemExit): fp2.app.main(['--help'])", HEAVY),
        ("import fp2.app; assert fp2.app.main(['model=plantd']) == 2", HEAVY),
        ("import fp2.app; assert fp2.app.main(['cut=[a,b]']) == 2", HEAVY),
        ("import fp2.stats.disparities, fp2.stats.adjustment", ("scipy", "pandas", "statsmodels")),
        ("import fp2.report.disparity_charts", ("matplotlib",)),
        (
            "from fp2.plugins import ENGINES, installed\n"
            "for engine in installed(ENGINES).values(): __import__(engine.value.partition(':')[0])",
            ("torch", "transformers", "vllm", "httpx2"),
        ),
        (
            "from fp2.plugins import DATA, installed\nfor data in installed(DATA).values(): data.load()",
            ("pandas", "numpy", "PIL", "pyarrow"),
        ),
        (
            "from fp2.plugins import SCORERS, installed\nfrom fp2.scorers.registry import build_scorer\n"
            "for name in installed(SCORERS): build_scorer(name, {})",
            ("sklearn", "torch", "pandas", "scipy", "vaderSentiment"),
        ),
    ],
)
def test_nothing_heavy_is_imported(code: str, heavy: tuple[str, ...], own_root: Path) -> None:
    ask = f"\nimport sys; print([name for name in {heavy!r} if name in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", code + ask], env=environment(own_root), capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "[]"


def test_launch_help_names_the_groups_and_is_quick(own_root: Path) -> None:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(
        [sys.executable, str(REPOSITORY / "launch.py"), "--help"],
        env=environment(own_root),
        cwd=own_root,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0
    for group in ("model", "probe", "cut", "scorer", "data", "engine", "analysis", "report", "tracking", "sweep"):
        assert group in done.stdout
    assert list(own_root.iterdir()) == []  # asking for help writes nothing
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert (
        after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < 0.7
    )  # 0.35 s; 0.8 s by Hydra's own page
