"""A board of passports: what counts, what is refused, and how models are ranked."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fp2.cli import main
from fp2.methods.board.pages import standings, write_site
from fp2.methods.board.pooling import SiteMeans, pool, rank
from fp2.methods.board.submissions import Refused, read_board
from fp2.report.keys import SigningKey, generate_key
from fp2.report.passport import AUDIT_TYPE, PARTIAL_TYPE, PREDICATE_TYPE, STATEMENT_TYPE, sign
from fp2.stats.composite import mean_covariances

GROUPS, PROBES = ("Africa", "Asia", "Europe"), ("occupation", "trust")
SIZE = 30


def statement(model: str, answers: np.ndarray, *, answer_set: str = "", **changes: Any) -> dict[str, Any]:
    """Return what a passport states of answers (groups, subjects, probes)."""
    n = answers.shape[1]
    values, groups = answers.reshape(-1, len(PROBES)), np.repeat(GROUPS, n)
    subjects = np.arange(len(values)).astype(str)
    rows = [
        {
            "probe": probe,
            "cut": "region",
            "scorer": "valence",
            "dependent_groups": False,
            "raw": 0.1,
            "groups": [
                {"group": group, "n_subjects": n, "mean": float(answers[g, :, p].mean())}
                for g, group in enumerate(GROUPS)
            ],
        }
        for p, probe in enumerate(PROBES)
    ]
    composite = {"probes": PROBES, "groups": GROUPS, "covariances": mean_covariances(values, groups, subjects)}
    predicate = {
        "issued": "2026-11-01T00:00:00+00:00",
        "complete": True,
        "disparities": rows,
        "composites": {"region": composite},
        "model": {"name": model, "id": model, "engine": "hf", "weights_digest": model},
        "dataset": {"name": "people", "release": "1", "n_subjects": 3 * n},
        "protocol": {"probes_digest": "p", "probes": [{"id": probe} for probe in PROBES], "cuts": ["region"]},
        "scorers": [{"name": "valence", "version": "1"}],
        "statistics": {"primary": "valence"},
        "run": {"response_set": answer_set or f"{model} {answers.sum()}"},
        **changes,
    }
    kind = PREDICATE_TYPE if predicate["complete"] else PARTIAL_TYPE
    return {"_type": STATEMENT_TYPE, "subject": [], "predicateType": kind, "predicate": predicate}


def answers(seed: int, gap: float = 0.0, n: int = SIZE) -> np.ndarray:
    """Return answers in which the first group is `gap` above the others."""
    values = 0.2 * np.random.default_rng(seed).standard_normal((len(GROUPS), n, len(PROBES)))
    values[0] += gap
    return values


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> dict[str, SigningKey]:
    """Return the keys of two parties."""
    folder = tmp_path_factory.mktemp("keys")
    return {party: generate_key(folder / f"{party}.pem") for party in ("here", "there")}


Put = Callable[..., Path]


@pytest.fixture
def put(tmp_path: Path, keys: dict[str, SigningKey]) -> Put:
    """Return a function that puts a passport into the folder of a board."""
    (tmp_path / "all" / "keys").mkdir(parents=True)
    for party, key in keys.items():
        (tmp_path / "all/keys" / f"{party}.pem").write_bytes(key.public_path.read_bytes())

    def put(name: str, stated: dict[str, Any], party: str = "here") -> Path:
        path = tmp_path / "all" / name / "passport.json"
        path.parent.mkdir()
        path.write_text(json.dumps(sign(stated, keys[party])))
        return path

    return put


def test_passports_of_one_question_are_ranked_and_others_stand_apart(put: Put, tmp_path: Path) -> None:
    put("a", statement("fair", answers(1)))
    put("b", statement("unfair", answers(2, gap=0.5)), "there")
    put("c", statement("fair", answers(3)), "there")
    put("other", statement("fair", answers(4), dataset={"name": "people", "release": "2", "n_subjects": 90}))
    board = read_board(tmp_path / "all", [])
    assert not board.refused
    first, second = standings(board, n_resamples=400, seed=1, alpha=0.05)
    assert (len(first.pooled), len(second.pooled)) == (2, 1)
    assert second.ranks is None
    assert second.question.release == "people 2"
    assert first.ranks is not None
    ranked = [(first.names[row.name], row.rank_low, row.rank_high, row.letters) for row in first.ranks.rows]
    assert ranked == [("fair", 1, 1, "a"), ("unfair", 2, 2, "b")]
    unfair = next(pooled for model, pooled in first.pooled.items() if first.names[model] == "unfair")
    low, high = unfair.interval(0.05)
    # one group .5 above two others: the root mean square over three pairs is .5 * sqrt(2 / 3)
    assert low < 0.5 * np.sqrt(2 / 3) < high
    pages = write_site(board, [first, second], tmp_path / "site")
    assert next(page.name for page in pages) == "index.html"
    assert len(pages) == 3
    for page in pages[1:]:
        assert f'href="{page.name}"' in pages[0].read_text()
        assert 'href="index.html"' in page.read_text()
        assert re.search(r"rank [12] of 2;", page.read_text())


def test_what_is_tampered_repeated_replayed_or_incomparable_is_refused_with_its_reason(
    put: Put, tmp_path: Path, keys: dict[str, SigningKey]
) -> None:
    stated = statement("fair", answers(1), answer_set="s")
    original = put("a", stated)
    copied = original.with_name("passport-copy.json")
    copied.write_bytes(original.read_bytes())
    tampered = put("b", statement("fair", answers(2)))
    envelope = json.loads(tampered.read_text())
    envelope["payload"] = json.loads(original.read_text())["payload"]
    tampered.write_text(json.dumps(envelope))
    later = {"issued": "2026-11-02T00:00:00+00:00"}
    put("replayed", statement("mine", answers(1), answer_set="s", **later), "there")
    put("numbers", statement("mine", answers(1), answer_set="t", **later), "there")
    put("partial", statement("fair", answers(3), complete=False))
    put("bare", statement("fair", answers(4), composites={"region": {"probes": PROBES, "groups": GROUPS}}))
    stranger = generate_key(tmp_path / "stranger.pem")
    (tmp_path / "all/stranger.json").write_text(json.dumps(sign(statement("fair", answers(5)), stranger)))
    (tmp_path / "all/passport-broken.json").write_text("{")
    board = read_board(tmp_path / "all", [])
    assert [each.path for each in board.submissions] == ["a/passport-copy.json"]
    reasons = {path: reason for path, reason in board.refused}
    assert set(reasons) == {
        "a/passport.json",
        "b/passport.json",
        "replayed/passport.json",
        "numbers/passport.json",
        "partial/passport.json",
        "bare/passport.json",
        "stranger.json",
        "passport-broken.json",
    }
    assert "same passport as a/passport-copy.json" in reasons["a/passport.json"]
    assert "changed" in reasons["b/passport.json"]
    assert "same answers" in reasons["replayed/passport.json"]
    assert "same numbers" in reasons["numbers/passport.json"]
    assert "PARTIAL" in reasons["partial/passport.json"]
    assert "covariances" in reasons["bare/passport.json"]
    assert "signature" in reasons["stranger.json"]
    assert "DSSE" in reasons["passport-broken.json"]


def certificate(payload: str, **facts: Any) -> dict[str, Any]:
    """Return what an auditor states of the passport with a payload digest."""
    subject = [{"name": "passport", "uri": "urn:fp2:passport", "digest": {"sha256": payload}}]
    return {"_type": STATEMENT_TYPE, "subject": subject, "predicateType": AUDIT_TYPE, "predicate": facts}


def test_audits_by_others_are_marks_and_one_that_found_differences_refuses(put: Put, tmp_path: Path) -> None:
    put("a", statement("fair", answers(1), preregistration={"as_registered": True}))
    put("b", statement("fair", answers(2)), "there")
    put("c", statement("fair", answers(3)))
    payload = {each.path[0]: each.payload for each in read_board(tmp_path / "all", []).submissions}
    put("audit-a", certificate(payload["a"], recomputed=True, bound={"share": 0.01}, differences=0), "there")
    put("audit-b", certificate(payload["b"], recomputed=True, bound=None, differences=0), "there")
    put("audit-c", certificate(payload["c"], recomputed=True, bound=None, differences=2), "there")
    board = read_board(tmp_path / "all", [])
    marks = {each.path[0]: each.marks for each in board.submissions}
    assert marks == {"a": ("signed", "recomputed", "audited", "pre-registered"), "b": ("signed",)}
    assert [refused.path for refused in board.refused] == ["c/passport.json"]
    assert "audit by there" in board.refused[0].reason


def test_a_replaced_passport_does_not_count(put: Put, tmp_path: Path) -> None:
    board_path = put("a", statement("fair", answers(1)))
    payload = read_board(tmp_path / "all", []).submissions[0].payload
    put("b", statement("fair", answers(2), supersedes={"sha256": payload}, issued="2026-11-03T00:00:00+00:00"))
    board = read_board(tmp_path / "all", [])
    name = board_path.relative_to(tmp_path / "all").as_posix()
    assert board.refused == [Refused(name, "it was replaced by b/passport.json")]
    assert [each.path for each in board.submissions] == ["b/passport.json"]


def test_two_signatures_name_both_parties(put: Put, tmp_path: Path, keys: dict[str, SigningKey]) -> None:
    from fp2.report.passport import countersign

    path = put("a", statement("fair", answers(1)))
    path.write_text(json.dumps(countersign(json.loads(path.read_text()), keys["there"])))
    assert read_board(tmp_path / "all", []).submissions[0].parties == ("here", "there")


def site(rng: np.random.Generator, truth: np.ndarray, between: np.ndarray, n: int = 25) -> SiteMeans:
    """Return what a site states whose means differ from the truth by random effects of covariance `between`."""
    effect = rng.multivariate_normal(np.zeros(truth.shape[1]), between, size=len(truth))
    people = truth + effect + 0.3 * rng.standard_normal((n, *truth.shape))
    covariance = np.stack([np.cov(people[:, g].T) / n for g in range(len(truth))])
    return SiteMeans(people.mean(axis=0), covariance, np.full(len(truth), float(n)))


def test_the_variance_between_sites_is_estimated_with_its_correlation() -> None:
    between = 0.01 * np.array([[1.0, 0.8, 0.0], [0.8, 1.0, 0.0], [0.0, 0.0, 0.0]])
    rng = np.random.default_rng(3)
    truth = rng.normal(0, 0.2, (4, 3))
    pooled = pool({"m": [site(rng, truth, between) for _ in range(400)]})["m"]
    estimated = pooled.covariance.mean(axis=0) * 400 - np.eye(3) * 0.3**2 / 25
    assert np.abs(estimated - between).max() < 0.0015
    # sites shift the level of a probe without a difference between groups
    shifted = [
        SiteMeans(s.means + rng.normal(0, 5, 3), s.covariance, s.n_subjects)
        for s in (site(rng, truth, between) for _ in range(400))
    ]
    assert pool({"m": shifted})["m"].tau == pytest.approx(pooled.tau, rel=0.15)


def test_sites_that_agree_are_weighted_by_their_precision() -> None:
    truth = np.array([[0.0, 0.1], [0.2, 0.3], [0.1, 0.0]])
    covariances = [np.tile(np.eye(2) * variance, (3, 1, 1)) for variance in (0.04, 0.01)]
    sites = [SiteMeans(truth, covariance, np.full(3, 30.0)) for covariance in covariances]
    pooled = pool({"m": sites})["m"]
    assert pooled.tau == 0
    assert pooled.covariance == pytest.approx(np.tile(np.eye(2) / (1 / 0.04 + 1 / 0.01), (3, 1, 1)))


def test_models_of_few_noisy_sites_are_not_told_apart() -> None:
    """In 60 classes of equal models the rank sets hold together in at least nine of ten; benchmarks have more."""
    rng, wrong = np.random.default_rng(5), 0
    truth = rng.normal(0, 0.1, (3, 3))
    between = np.diag([0.03, 0.0, 0.0])
    for seed in range(60):
        models = {f"m{k}": [site(rng, truth, between) for _ in range(1 + 2 * (k < 2))] for k in range(3)}
        wrong += bool(rank(pool(models), n_resamples=200, seed=seed, alpha=0.05).better.any())
    assert wrong <= 6


def test_the_command_prints_what_it_refused_and_strict_fails(
    put: Put, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    put("a", statement("fair", answers(1)))
    put("b", statement("unfair", answers(2, gap=0.5)), "there")
    put("c", statement("fair", answers(3), complete=False))
    monkeypatch.chdir(tmp_path)

    def call(*words: str) -> int:
        monkeypatch.setattr("sys.argv", ["fp2", "board", *words])
        with pytest.raises(SystemExit) as raised:
            main()
        return int(raised.value.code or 0)

    assert call("all", "--json", "--resamples", "200") == 0
    facts = json.loads(capsys.readouterr().out)
    assert [row["model"] for row in facts["comparisons"][0]["models"]] == ["fair", "unfair"]
    assert [row["path"] for row in facts["refused"]] == ["c/passport.json"]
    assert call("all", "--strict", "--resamples", "200") == 1
    for words, named in ((["nowhere"], "nowhere"), ([str(tmp_path / "all/keys")], "no passport")):
        assert call(*words) == 2
        line = capsys.readouterr().err.strip().splitlines()[-1]
        assert named in line
        assert "Traceback" not in line
