"""The page's whole run in one command: what it asks for is known before there are any data."""

import pytest

from fp2.app import main
from fp2.commands.plan import plan_run
from fp2.compose import jobs_of, load_config

MODELS = ["paligemma_3b_mix_448", "smolvlm2_2_2b", "qwen2_5_vl_3b", "internvl2_2b", "moondream2"]


def test_it_is_the_run_that_the_page_describes():
    config = load_config(["experiment=page", "data.root=/data"])
    assert (config.data.kind, config.data.limit, config.data.stratify) == ("fhibe", 3000, ["region"])
    assert list(config.probe.probes) == ["occupation", "education", "authority", "trust", "lifestyle", "neighbourhood"]
    assert config.cut.each[0] == "region"
    assert [job[-1] for job in jobs_of(["experiment=page"])] == [f"model={model}" for model in MODELS]


@pytest.mark.parametrize(
    ("words", "said"), [([], "data.root (the folder of the release) is not given"), (["data.root=/no"], "not exist")]
)
def test_its_size_is_told_without_the_data(words, said, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    plan_run(["experiment=page", *words])
    told = capsys.readouterr().out
    assert "18,000" in told
    assert "90,000" in told
    assert all(model in told for model in MODELS)
    assert said in told


def test_without_the_data_it_ends_with_one_line(capsys):
    assert main(["experiment=page"]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_a_choice_on_the_command_line_takes_the_place_of_the_five():
    assert [job[-1] for job in jobs_of(["experiment=page", "model=smolvlm2_2_2b"])] == ["model=smolvlm2_2_2b"]
