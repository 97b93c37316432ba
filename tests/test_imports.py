"""Starting up costs nothing: help and typing errors come before any heavy library."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
from pathlib import Path

import pytest
from bench import REPOSITORY, environment

HEAVY = ("torch", "transformers", "mlflow", "pandas", "sklearn", "scipy", "matplotlib", "numpy", "PIL")
ASK = f"\nimport json, sys; print(json.dumps([name for name in {HEAVY!r} if name in sys.modules]))"


def loaded_by(code: str, root: Path) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", code + ASK], env=environment(root), capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    return list(json.loads(done.stdout.splitlines()[-1]))


@pytest.mark.parametrize(
    "code",
    [
        "import fp2.app, fp2.cli",
        "import contextlib, fp2.app\nwith contextlib.suppress(SystemExit): fp2.app.main(['--help'])",
        "import fp2.app; assert fp2.app.main(['model=plantd']) == 2",
        "import fp2.app; assert fp2.app.main(['cut=[a,b]']) == 2",
        "import fp2.stats, fp2.scorers, fp2.data, fp2.engines, fp2.report, fp2.store, fp2.probes, fp2.protocols",
    ],
)
def test_nothing_heavy_is_imported(code: str, own_root: Path) -> None:
    assert loaded_by(code, own_root) == []


def test_launch_help_names_the_groups_and_is_quick(own_root: Path) -> None:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(
        [sys.executable, str(REPOSITORY / "launch.py"), "--help"],
        env=environment(own_root), cwd=own_root, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert done.returncode == 0
    for group in ("model", "probe", "cut", "scorer", "data", "engine", "analysis", "report", "tracking", "sweep"):
        assert group in done.stdout
    assert list(own_root.iterdir()) == []  # asking for help writes nothing
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert (
        after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < 0.7
    )  # 0.35 s; 0.8 s by Hydra's own page
