"""`fp2 verify` and `fp2 keygen`."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from bench import Bench, fp2


def test_a_passport_is_valid_until_a_file_changes_and_for_its_key_only(
    finished: Bench, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = finished.outputs / "one"
    key = next(iter((finished.root / "state" / "keys").glob("*.pub*")))
    assert fp2("verify", str(folder / "passport.json"), "--key", str(key)) == 0
    assert "passport valid" in capsys.readouterr().out
    assert fp2("keygen", str(finished.root / "other.pem")) == 0
    out = capsys.readouterr().out
    other = Path(re.search(r"public key.*: (.+)", out)[1])  # type: ignore[index]
    assert (finished.root / "other.pem").stat().st_mode & 0o077 == 0
    assert fp2("verify", str(folder / "passport.json"), "--key", str(other)) == 1
    assert fp2("keygen", str(finished.root / "other.pem")) == 2  # never over a key that is there
    capsys.readouterr()
    results = folder / "results.json"
    results.write_text(
        results.read_text(encoding="utf-8").replace('"composite": 0', '"composite": 1'), encoding="utf-8"
    )
    assert fp2("verify", str(folder / "passport.json"), "--key", str(key)) == 1
    assert "results.json" in capsys.readouterr().err
