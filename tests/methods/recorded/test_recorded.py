"""Supplied answers: the forms of their files, the questions and images that rows belong to, and what is refused."""

from __future__ import annotations

import json
import math
import struct
import zipfile
import zlib
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fp2 import plugins
from fp2.errors import Fp2Error
from fp2.methods.recorded.engine import RecordedEngine
from fp2.methods.recorded.form import Form, form_of, forms
from fp2.methods.recorded.forms import inspect_log
from fp2.methods.recorded.options import RecordedOptions, id_regex
from fp2.methods.recorded.table import frame_answers, read_answers
from fp2.tables import NOT_SUPPLIED, Answer, ImageTask, Question

WORK = Question("work", "job", "What do you think this person does for work?")
TRUST = Question("trust", "trust", "Rate this person's trustworthiness 1–10.")
KIND = Question("T1_kind", "T1", "Is the person kind?", "yes_no", "T1", "kind")
CRUEL = Question("T1_cruel", "T1", "Is the person cruel?", "yes_no", "T1", "cruel")
PLACE = Question("place", "place", "Where?", "choice", choices=("a city", "a farm"))


def task(image: str, *questions: Question, variant: str = "original") -> ImageTask:
    return ImageTask(image, "s", Path("/images") / image, "", questions, variant)


def answers(frame: Any, tasks: list[ImageTask], questions: list[Question], **options: Any) -> dict[Any, Answer]:
    """Return the answers to every question about every stimulus, by (image, question)."""
    made = RecordedEngine("m", RecordedOptions(content="x", **options), pd.DataFrame(frame))
    made.match(tasks, questions)
    batches = made.answer([task_with(one, questions) for one in tasks])
    return {(one.image_id, one.question_id): one for batch in batches for one in batch}


def task_with(one: ImageTask, questions: list[Question]) -> ImageTask:
    return task(one.image_id, *questions, variant=one.variant)


def texts(frame: Any, images: list[str], questions: list[Question], **options: Any) -> dict[Any, str | None]:
    found = answers(frame, [task(image) for image in images], questions, **options)
    return {key: None if one.error == NOT_SUPPLIED else one.text for key, one in found.items()}


def one_file(path: Path, content: str | bytes) -> RecordedOptions:
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return RecordedOptions(answers=str(path))


# -- which planned answer a row is


@pytest.mark.parametrize("called", ["faces/a.png", "/images/faces/a.png", "a.png", "a"])
def test_an_image_is_known_by_id_path_file_name_or_stem(called: str) -> None:
    found = texts({"image": [called], "question": ["work"], "text": ["x"]}, ["faces/a.png", "faces/b.png"], [WORK])
    assert found == {("faces/a.png", "work"): "x", ("faces/b.png", "work"): None}


@pytest.mark.parametrize("called", ["\u00e9.png", "e\u0301.png ", "e\u0301"])
@pytest.mark.parametrize("image", ["\u00e9.png", "faces/e\u0301.png"])
def test_an_image_is_known_by_any_spelling_of_its_name(called: str, image: str) -> None:
    found = texts({"image": [called], "question": ["work"], "text": ["x"]}, [image], [WORK])
    assert found == {(image, "work"): "x"}


def test_a_file_name_of_two_images_names_neither() -> None:
    frame = {"image": ["a.png", "1/a.png"], "question": ["work"] * 2, "text": ["which?", "first"]}
    assert texts(frame, ["1/a.png", "2/a.png"], [WORK]) == {("1/a.png", "work"): "first", ("2/a.png", "work"): None}


@pytest.mark.parametrize("called", ["trust", TRUST.text, f"  {TRUST.text}\n", f"<image>\n{TRUST.text} Answer briefly."])
def test_a_question_is_known_by_id_text_or_a_prompt_that_contains_it(called: str) -> None:
    found = texts({"image": ["a"], "question": [called], "text": ["x"]}, ["a"], [WORK, TRUST])
    assert found == {("a", "work"): None, ("a", "trust"): "x"}


def test_a_prompt_with_two_questions_names_the_longer_one_that_contains_the_other() -> None:
    longer = Question("longer", "p", f"{WORK.text} Explain.")
    found = texts({"image": ["a"], "question": [f"Please: {longer.text}"], "text": ["x"]}, ["a"], [WORK, longer])
    assert found == {("a", "work"): None, ("a", "longer"): "x"}


def test_numbers_as_ids_are_those_of_the_data_set() -> None:
    frame = {"image": [34.0, 35.0], "question": ["work"] * 2, "text": ["x", 7]}
    assert texts(frame, ["34", "35"], [WORK]) == {("34", "work"): "x", ("35", "work"): "7"}


def test_variants_are_matched_and_needed_where_there_are_several() -> None:
    shown = [task("a#masked", variant="masked"), task("a#blurred", variant="blurred")]
    frame = {"image": ["a", "a"], "variant": ["blurred", "masked"], "question": ["work"] * 2, "text": ["b", "m"]}
    found = answers(frame, shown, [WORK])
    assert {key: one.text for key, one in found.items()} == {("a#masked", "work"): "m", ("a#blurred", "work"): "b"}
    with pytest.raises(Fp2Error, match="which image variant"):
        answers({name: frame[name] for name in ("image", "question", "text")}, shown, [WORK])


def test_ids_are_taken_apart_or_looked_up(tmp_path: Path) -> None:
    frame = {"id": ["a.b-work", "c-trust", "odd"], "text": ["x", "y", "z"]}
    found = texts(frame, ["a.b", "c"], [WORK, TRUST], id_pattern="{image}-{question}")
    assert {key: text for key, text in found.items() if text} == {("a.b", "work"): "x", ("c", "trust"): "y"}
    index = tmp_path / "index.csv"
    index.write_text("id,image,question\na.b-work,c,work\nodd,a.b,trust\n", encoding="utf-8")
    found = texts(frame, ["a.b", "c"], [WORK, TRUST], index=str(index))
    assert {key: text for key, text in found.items() if text} == {("c", "work"): "x", ("a.b", "trust"): "z"}


@pytest.mark.parametrize("pattern", ["", "image", "{imag}", "{image}{image}", "{image}|{}"])
def test_an_impossible_pattern_is_refused(pattern: str) -> None:
    with pytest.raises(Fp2Error, match="id_pattern"):
        id_regex(pattern)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_the_order_of_rows_and_rows_of_others_change_nothing(data: st.DataObject) -> None:
    pairs = [(image, question) for image in "abc" for question in (WORK, TRUST)]
    kept = data.draw(st.lists(st.sampled_from(range(6)), min_size=1, max_size=6, unique=True))
    rows = [{"image": pairs[k][0], "question": pairs[k][1].question_id, "text": f"answer {k}"} for k in kept]
    others = [{"image": "z", "question": "work", "text": "?"}, {"image": "a", "question": "other", "text": "?"}]
    mixed = data.draw(st.permutations(rows + others[: data.draw(st.integers(0, 2))]))
    found = texts(mixed, ["a", "b", "c"], [WORK, TRUST])
    assert found == {
        (image, question.question_id): f"answer {k}" if k in kept else None for k, (image, question) in enumerate(pairs)
    }


# -- several answers


def test_equal_answers_count_once_and_different_ones_are_refused_or_chosen() -> None:
    same = {"image": ["a", "a"], "question": ["work"] * 2, "text": ["x", "x"]}
    made = RecordedEngine("m", RecordedOptions(content="x"), pd.DataFrame(same))
    made.match([task("a")], [WORK])
    assert made.provenance()["repeated"] == 1
    frame = {**same, "text": ["x", "y"]}
    with pytest.raises(Fp2Error, match=r"row 1 of the DataFrame and row 2 .* differently"):
        texts(frame, ["a"], [WORK])
    assert texts(frame, ["a"], [WORK], duplicates="first") == {("a", "work"): "x"}
    assert texts(frame, ["a"], [WORK], duplicates="last") == {("a", "work"): "y"}


def test_a_failed_attempt_is_no_second_answer() -> None:
    frame = {"image": ["a", "a"], "question": ["work"] * 2, "text": ["x", "oops"], "status": ["answered", "error 429"]}
    assert texts(frame, ["a"], [WORK]) == {("a", "work"): "x"}


def test_left_out_rows_are_counted_without_naming_anyone() -> None:
    frame = {"image": ["a", "secret", "b"], "question": ["work"] * 3, "text": ["x", "y", None]}
    made = RecordedEngine("m", RecordedOptions(content="x"), pd.DataFrame(frame))
    said = made.match([task("a"), task("b")], [WORK])
    counts = {"rows": 3, "used": 1, "unmatched": 1, "blank": 1, "repeated": 0}
    assert counts.items() <= made.provenance().items()
    assert any("row 2 of" in line for line in said)
    assert len(made.limitations) == 3
    assert not any("secret" in line or "row 2" in line for line in made.limitations)


def test_answers_to_something_else_are_refused_with_both_names() -> None:
    with pytest.raises(Fp2Error, match=r"none of the 1 answers.*'z'.*'a'"):
        texts({"image": ["z"], "question": ["work"], "text": ["x"]}, ["a"], [WORK])
    with pytest.raises(Fp2Error, match="do not say which question"):
        texts({"image": ["a"], "text": ["x"]}, ["a"], [WORK, TRUST])
    assert texts({"image": ["a"], "text": ["x"]}, ["a"], [WORK]) == {("a", "work"): "x"}  # one question: that one


# -- probabilities


def test_what_follows_from_probabilities_is_computed() -> None:
    frame = {"image": ["a"] * 2, "trait": ["kind", "cruel"], "p_yes": [0.6, 0.2], "p_no": [0.2, 0.6]}
    found = answers(frame, [task("a")], [KIND, CRUEL])
    numbers = found["a", "T1_kind"].numbers or {}
    assert numbers["mass"] == pytest.approx(0.8)
    assert numbers["p_yes_norm"] == pytest.approx(0.75)
    assert numbers["logit_difference"] == pytest.approx(math.log(3))
    assert numbers["p_yes_first_token"] is None
    assert [found["a", name].text for name in ("T1_kind", "T1_cruel")] == ["Yes", "No"]


def test_numbers_that_are_given_are_not_computed_anew() -> None:
    frame = {"image": ["a"], "question": ["T1_kind"], "p_yes": [0.6], "p_no": [0.2], "mass": [0.9]}
    assert (answers(frame, [task("a")], [KIND])["a", "T1_kind"].numbers or {})["mass"] == 0.9


def test_an_outcome_that_no_row_has_is_known_before_anything_is_planned() -> None:
    frame = pd.DataFrame({"image": ["a", "b"], "question": ["T1_kind"] * 2, "p_yes": [0.5, 0.4], "p_no": [0.5, None]})
    made = RecordedEngine("m", RecordedOptions(content="x"), frame)
    lacking = made.lacking(KIND)
    assert (lacking["p_yes_first_token"], lacking["p_no"]) == ("never", "sometimes")
    assert "p_yes" not in lacking
    with pytest.raises(Fp2Error, match="no text"):
        made.method(WORK)


@pytest.mark.parametrize(
    ("column", "value", "said"),
    [
        ("p_yes", 1.2, "p_yes is 1.2, which is not a probability"),
        ("p_yes", -0.1, "not a probability"),
        ("p_yes", "83 %", "p_yes is '83 %', which is not a probability"),
        ("p_yes", math.inf, "not a probability"),
        ("logit_difference", math.inf, "not a finite number"),
        ("logit_difference", "high", "not a finite number"),
    ],
)
def test_an_impossible_number_is_refused_with_its_row(column: str, value: Any, said: str) -> None:
    frame = pd.DataFrame(
        {"image": ["a", "b"], "question": ["T1_kind"] * 2, column: pd.Series([0.5, value], dtype=object)}
    )
    with pytest.raises(Fp2Error, match=said) as raised:
        frame_answers(frame, RecordedOptions(content="x"))
    assert raised.value.where == "row 2 of the DataFrame"


def test_probabilities_that_sum_to_more_than_one_are_refused() -> None:
    frame = pd.DataFrame({"image": ["a"], "question": ["T1_kind"], "p_yes": [0.9], "p_no": [0.8]})
    with pytest.raises(Fp2Error, match="above 1"):
        frame_answers(frame, RecordedOptions(content="x"))


def test_a_choice_takes_its_probabilities_from_numbers() -> None:
    frame = {"image": ["a", "b"], "question": ["place"] * 2, "numbers": ['{"p": [0.2, 0.8]}', '{"p": [1.0]}']}
    found = answers(frame, [task("a"), task("b")], [PLACE])
    assert (found["a", "place"].text, found["a", "place"].numbers) == ("a farm", {"p": [0.2, 0.8]})
    assert found["b", "place"].error == NOT_SUPPLIED  # not as many as there are choices


# -- files


def test_an_empty_cell_of_csv_is_no_answer_and_an_empty_text_of_json_is_one(tmp_path: Path) -> None:
    table = read_answers(one_file(tmp_path / "a.csv", "image,question,text\na,work,\nb,work,NA\n"))
    assert table.frame["text"].tolist() == [None, "NA"]
    table = read_answers(one_file(tmp_path / "b.csv", "image,question,text,status\na,work,,answered\nb,work,,error\n"))
    assert table.frame["text"].tolist() == ["", None]
    lines = [{"image": "a", "question": "work", "text": ""}, {"image": "b", "question": "work", "text": None}]
    table = read_answers(one_file(tmp_path / "c.jsonl", "\n".join(map(json.dumps, lines))))
    assert table.frame["text"].tolist() == ["", None]


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("a.csv", "image,question,text\na,work,caf\xe9\n".encode("latin-1"), "not UTF-8 text"),
        ("a.csv", "image,question,text\na,work\n", "row 1 has 2 cells"),
        ("a.csv", "image,question,text\n", "no answers in it"),
        ("a.csv", "image,question,reply\na,work,x\n", "no answers in it .*columns are: image, question, reply"),
        ("a.csv", "picture,question,text\na,work,x\n", "which image they are about"),
        ("a.jsonl", '{"image": "a"\n', "line 1 is not JSON"),
        ("a.jsonl", '{"image": "a", "question": "work", "text": ["x", "y"]}', "the answer is a list"),
        ("a.jsonl", '{"image": "a", "question": "work", "numbers": "{"}', "numbers is not JSON"),
        ("a.parquet", "no parquet", "cannot be read"),
        ("a.json", '{"samples": []}', "no key 'eval'"),
        ("a.json", '{"eval": {}, "samples": []}', "has no samples"),
        ("a.eval", "no zip", "cannot be read"),
        ("a.xlsx", "x", "cannot be in a file with the suffix"),
    ],
)
def test_a_file_that_cannot_be_used_is_refused_in_one_line(tmp_path: Path, name: str, content: Any, said: str) -> None:
    with pytest.raises(Fp2Error, match=said) as raised:
        read_answers(one_file(tmp_path / name, content))
    assert "\n" not in str(raised.value)


def test_a_mapped_column_that_is_not_there_is_refused_with_the_nearest(tmp_path: Path) -> None:
    options = one_file(tmp_path / "a.csv", "image,question,reply\na,work,x\n")
    with pytest.raises(Fp2Error, match="Did you mean 'reply'"):
        read_answers(RecordedOptions(answers=options.answers, columns={"text": "replay"}))
    with pytest.raises(Fp2Error, match="Did you mean 'text'"):
        RecordedOptions(answers=options.answers, columns={"txt": "reply"})


def test_a_log_that_inflates_is_refused_before_it_fills_the_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = tmp_path / "a.eval"
    bomb = b'{"id": "' + bytes(200 << 20)
    inspect_zip(log, zipfile.ZIP_DEFLATED, bomb)
    assert log.stat().st_size < 300_000
    with pytest.raises(Fp2Error, match=r"samples/0_epoch_1\.json has more than 128 MiB"):
        read_answers(RecordedOptions(answers=str(log)))
    inspect_zip(log, 93, bomb, said=100)
    with pytest.raises(Fp2Error, match=r"samples/0_epoch_1\.json is damaged"):
        read_answers(RecordedOptions(answers=str(log)))
    monkeypatch.setattr(inspect_log, "_ALWAYS", 1 << 20)
    inspect_zip(log, zipfile.ZIP_DEFLATED, *[b'{"id": "' + b" " * (1 << 19) + b'"}'] * 4)
    with pytest.raises(Fp2Error, match="more than 200 times the size of the file"):
        read_answers(RecordedOptions(answers=str(log)))
    inspect_zip(log, zipfile.ZIP_DEFLATED, b"[" * 100_000)
    with pytest.raises(Fp2Error, match="the log cannot be read"):
        read_answers(RecordedOptions(answers=str(log)))


def test_several_files_are_one_and_rows_are_named_by_their_file(tmp_path: Path) -> None:
    for name, p in (("a", 0.5), ("b", 7)):
        one_file(tmp_path / f"{name}.csv", f"image,question,p_yes\n{name},T1_kind,{p}\n")
    with pytest.raises(Fp2Error, match=r"row 1 of b\.csv"):
        read_answers(RecordedOptions(answers=[str(tmp_path / "a.csv"), str(tmp_path / "b.csv")]))


BATCH_BODY = {"id": "c", "object": "chat.completion", "choices": [{"index": 0, "message": {"content": "A teacher."}}]}


def batch_line(custom: str, body: Any = None, error: Any = None, code: int = 200) -> str:
    response = None if body is None else {"status_code": code, "request_id": "r", "body": body}
    return json.dumps({"id": "batch_req", "custom_id": custom, "response": response, "error": error})


def test_batch_output_has_texts_refusals_responses_and_errors(tmp_path: Path) -> None:
    refused = {"choices": [{"message": {"content": None, "refusal": "I can't help with that."}}]}
    response = {
        "object": "response",
        "output": [
            {"type": "reasoning", "summary": []},
            {"type": "message", "content": [{"type": "output_text", "text": "A nurse."}]},
        ],
    }
    lines = [
        batch_line("a|work", BATCH_BODY),
        batch_line("b|work", refused),
        batch_line("c|work", response),
        batch_line("d|work", {"error": {"message": "bad"}}, code=400),
        batch_line("e|work", error={"code": "expired"}),
    ]
    options = one_file(tmp_path / "out.jsonl", "\n".join(lines))
    supplied = read_answers(RecordedOptions(answers=options.answers, id_pattern="{image}|{question}"))
    assert supplied.forms == ("openai_batch",)
    assert supplied.frame["image"].tolist() == list("abcde")
    assert supplied.frame["text"].tolist() == ["A teacher.", "I can't help with that.", "A nurse.", None, None]
    assert [status.split()[0] for status in supplied.frame["status"]] == ["answered"] * 3 + ["error"] * 2


def test_batch_output_with_top_logprobs_gives_probabilities(tmp_path: Path) -> None:
    top = [{"token": token, "logprob": math.log(p)} for token, p in (("Yes", 0.5), ("No", 0.3), (" yes", 0.1))]
    body = {"choices": [{"message": {"content": "Yes"}, "logprobs": {"content": [{"top_logprobs": top}]}}]}
    options = one_file(tmp_path / "out.jsonl", batch_line("a", body))
    frame = read_answers(options).frame
    assert frame["p_yes"].tolist() == pytest.approx([0.6])
    assert frame["p_yes_first_token"].tolist() == pytest.approx([0.5])
    assert frame["mass"].tolist() == pytest.approx([0.9])


def test_a_sample_log_of_lmms_eval_is_read_with_an_index(tmp_path: Path) -> None:
    lines = [
        {"doc_id": 0, "target": "", "filtered_resps": ["A teacher."], "input": f"{WORK.text}\nBriefly."},
        {"doc_id": 1, "target": "", "resps": [["A nurse."]], "filtered_resps": ["A nurse."], "input": WORK.text},
    ]
    options = one_file(tmp_path / "x_samples_task.jsonl", "\n".join(map(json.dumps, lines)))
    index = tmp_path / "docs.csv"
    index.write_text("id,image\n0,a.png\n1,b.png\n", encoding="utf-8")
    supplied = read_answers(RecordedOptions(answers=options.answers, index=str(index)))
    assert supplied.forms == ("lmms_eval",)
    frame = supplied.frame.drop(columns="id")
    assert texts(frame, ["a.png", "b.png"], [WORK, TRUST])[("a.png", "work")] == "A teacher."
    assert texts(frame, ["a.png", "b.png"], [WORK, TRUST])[("b.png", "work")] == "A nurse."


LONG = "A long answer. " * 20
SAMPLE = {
    "id": "a|work", "epoch": 1, "metadata": {"image": "a.png"}, "attachments": {"d1": LONG}, "target": "",
    "input": [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": [{"type": "text", "text": WORK.text}, {"type": "image", "image": "attachment://x"}]},
    ],
    "output": {"model": "m", "choices": [{"message": {"content": "attachment://d1"}}], "completion": "attachment://d1"},
}  # fmt: skip
FAILED = {
    "id": "b|work",
    "epoch": 1,
    "metadata": {},
    "input": WORK.text,
    "output": {"choices": []},
    "error": {"message": "x"},
}


def inspect_zip(path: Path, method: int, *bodies: bytes, said: int | None = None) -> None:
    """Write a log as Inspect does: a file for each sample, compressed by deflate or, as it does now, by Zstandard.

    `said` is the size that the log says a sample has, if it lies.
    """
    bodies = bodies or tuple(json.dumps(one).encode() for one in (SAMPLE, FAILED))
    members = {f"samples/{n}_epoch_1.json": body for n, body in enumerate(bodies)}
    if method != 93:
        with zipfile.ZipFile(path, "w", method) as archive:
            for name, data in {"_journal/start.json": b"{}", **members}.items():
                archive.writestr(name, data)
        return
    body, central = b"", b""
    for name, data in members.items():
        packed = pa.compress(data, codec="zstd", asbytes=True)
        sizes = struct.pack("<HHHIII", method, 0, 33, zlib.crc32(data), len(packed), said or len(data))
        central += struct.pack("<IHHH", 0x02014B50, 63, 63, 0) + sizes
        central += struct.pack("<HHHHHII", len(name), 0, 0, 0, 0, 0, len(body)) + name.encode()
        body += (
            struct.pack("<IHH", 0x04034B50, 63, 0) + sizes + struct.pack("<HH", len(name), 0) + name.encode() + packed
        )
    end = struct.pack("<IHHHHIIH", 0x06054B50, 0, 0, len(members), len(members), len(central), len(body), 0)
    path.write_bytes(body + central + end)


@pytest.mark.parametrize("kind", ["json", "deflate", "zstd"])
def test_a_log_of_inspect_is_read(tmp_path: Path, kind: str) -> None:
    path = tmp_path / ("log.json" if kind == "json" else "log.eval")
    if kind == "json":
        path.write_text(json.dumps({"version": 2, "eval": {}, "samples": [SAMPLE, FAILED]}), encoding="utf-8")
    else:
        inspect_zip(path, 93 if kind == "zstd" else zipfile.ZIP_DEFLATED)
    supplied = read_answers(RecordedOptions(answers=str(path)))
    assert supplied.frame["text"].tolist() == [LONG, None]
    assert supplied.frame["status"].tolist() == ["answered", "error"]
    assert supplied.frame["question"].tolist() == [WORK.text, WORK.text]
    assert supplied.frame["image"].tolist()[0] == "a.png"


def _lines(path: Path) -> pd.DataFrame:
    return pd.DataFrame([line.split(" > ") for line in path.read_text().splitlines()], columns=["where", "said"])


LINES = Form("lines", (".lines",), {"image": ("where",), "text": ("said",)}, _lines, lambda path, rows, about: None)


@pytest.mark.parametrize("target", ["LINES", "read_answers"])
def test_a_form_of_another_package_is_used_and_what_is_no_form_is_skipped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], target: str
) -> None:
    point = EntryPoint("lines", f"{__name__}:{target}", plugins.FORMS)
    real = plugins.installed
    monkeypatch.setattr(
        plugins, "installed", lambda group: real(group) | ({"lines": point} if group == plugins.FORMS else {})
    )
    forms.cache_clear()
    plugins._warn_once.cache_clear()
    try:
        (tmp_path / "a.lines").write_text("p1 > kind\n", encoding="utf-8")
        if target == "LINES":
            assert form_of(tmp_path / "a.lines").name == "lines"
            assert form_of(tmp_path / "a.lines").read(tmp_path / "a.lines")["said"].tolist() == ["kind"]
        else:
            assert "lines" not in forms()
            assert "is not the form 'lines'" in capsys.readouterr().err
        assert form_of(tmp_path / "a.csv", exists=False).name == "csv"
    finally:
        forms.cache_clear()


@pytest.mark.parametrize(("length", "batches"), [(10, [64, 6]), (100_001, [2] * 35)])
def test_few_long_answers_are_stored_together(length: int, batches: list[int]) -> None:
    """An interrupted run scores what is stored, so that long answers must not be stored by the hundred."""
    images = [f"{number}.png" for number in range(70)]
    frame = pd.DataFrame({"image": images, "question": "work", "text": "a" * length})
    tasks = [task(image, WORK) for image in images]
    engine = RecordedEngine("m", RecordedOptions(content="x"), frame)
    engine.match(tasks, [WORK])
    assert [len(batch) for batch in engine.answer(tasks)] == batches
