"""How a question becomes a prompt, with templates of every kind and the user's own formats."""

from __future__ import annotations

import json
import shutil
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from family_checkpoints import save
from jinja2.sandbox import ImmutableSandboxedEnvironment

from fp2.engines.checkpoint import resolve_checkpoint
from fp2.engines.hf.families import facts_for
from fp2.engines.hf.processors import load_processor
from fp2.engines.hf.prompts import DATE_PARTS, TODAY, PromptFormat, check_prompt, with_fixed_date
from fp2.errors import Fp2Error

PARTS = "{% for m in messages %}{% for part in m['content'] %}{% if part['type'] == 'image' %}<image>{% else %}"
ENDS = "{{ part['text'] }}{% endif %}{% endfor %}{% endfor %}!"


@pytest.fixture(scope="module")
def llava(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save("llava", tmp_path_factory.mktemp("prompts"))


def form_of(folder: Path, **options: Any) -> PromptFormat:
    checkpoint = resolve_checkpoint(str(folder))
    form = PromptFormat(checkpoint, facts_for(checkpoint.config), **options)
    return form.with_processor(load_processor(folder, checkpoint, backend="pil", remote_code=False))


def with_template(llava: Path, tmp_path: Path, template: str, **options: Any) -> PromptFormat:
    folder = Path(shutil.copytree(llava, tmp_path / "net"))
    (folder / "chat_template.jinja").write_text(template)
    return form_of(folder, **options)


@pytest.mark.parametrize(
    ("template", "seeing", "blind"),
    [
        (PARTS + ENDS, "<image>Who?!", "Who?!"),
        ("{% for m in messages %}{{ 'Q: ' + m['content'] }}{% endfor %} A:", "Q: <image>\nWho? A:", "Q: Who? A:"),
        ("{% for m in messages %}Q: {{ m['content'] }}{% endfor %} A:", "Q: <image>\nWho? A:", "Q: Who? A:"),
        ("{{ bos_token }}" + PARTS + ENDS, "<s><image>Who?!", "<s>Who?!"),
    ],
    ids=["parts", "a string only", "writes a list out", "with its own start"],
)
def test_a_template_gets_the_kind_of_message_that_it_takes(
    llava: Path, tmp_path: Path, template: str, seeing: str, blind: str
) -> None:
    form = with_template(llava, tmp_path, template)
    assert (form.text("Who?"), form.text("Who?", images=0)) == (seeing, blind)
    assert form.adds_start_token(seeing) is not seeing.startswith("<s>")


@pytest.mark.parametrize(
    ("template", "says"),
    [
        ("{{ nothing.at.all }}", "cannot be rendered"),
        ("{% for m in messages %}Hello{% endfor %}", "leaves out"),
        ("{{ raise_exception('no users here') }}", "no users here"),
        ("{% for m in messages %}", "cannot be rendered"),
    ],
)
def test_a_template_that_does_not_work_is_one_line(llava: Path, tmp_path: Path, template: str, says: str) -> None:
    form = with_template(llava, tmp_path, template)
    with pytest.raises(Fp2Error, match=says) as told:
        form.text("Who?")
    assert "\n" not in str(told.value)
    assert "model.chat=false" in str(told.value)


def test_a_template_in_the_tokenizer_is_found(llava: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(llava, tmp_path / "net"))
    (folder / "chat_template.jinja").unlink()
    config = (folder / "tokenizer_config.json").read_text()
    template = ("Q: {% for m in messages %}{{ m['content'] }}{% endfor %}").replace('"', '\\"')
    (folder / "tokenizer_config.json").write_text(config.replace("{", '{"chat_template": "' + template + '",', 1))
    form = form_of(folder)
    assert form.form == "chat"
    assert form.text("Who?", images=0) == "Q: Who?"


def test_the_origin_of_the_format(llava: Path, tmp_path: Path) -> None:
    assert form_of(llava).identity() == {"form": "chat"}
    assert form_of(llava, chat=False).identity() == {"form": "raw", "format": "USER: {image}\n{question} ASSISTANT:"}
    own = form_of(llava, prompt="{question} {image}:")
    assert own.identity() == {"form": "own", "format": "{question} {image}:"}
    assert own.text("Who?") == "Who? <image>:"
    assert own.text("Who?", images=0) == "Who? :"
    bare = Path(shutil.copytree(llava, tmp_path / "bare"))
    (bare / "chat_template.jinja").unlink()
    assert form_of(bare).form == "raw"
    with pytest.raises(Fp2Error, match="no chat template"):
        form_of(bare, chat=True).identity()


@pytest.mark.parametrize(
    ("prompt", "chat", "says"),
    [
        ("{image} What?", None, "{question} 0 times"),
        ("{question}", None, "{image} 0 times"),
        ("{image}{question}{question}", None, "{question} 2 times"),
        ("{image}{question}", True, "cannot be combined"),
    ],
)
def test_an_invalid_format_is_refused(prompt: str, chat: bool | None, says: str) -> None:
    with pytest.raises(Fp2Error, match=says.replace("{", r"\{")):
        check_prompt(prompt, chat)
    check_prompt("{image} {a} {question}", False)


DATED = "Today is {{ strftime_now('%A %d %B %Y, %H:%M') }}, {{ strftime_now('%Y-%m-%d') }}."


def test_the_prompt_is_the_same_on_every_day(llava: Path, tmp_path: Path) -> None:
    form = with_template(llava, tmp_path, DATED + PARTS + ENDS)
    assert form.text("Who?") == "Today is Friday 26 July 2024, 12:00, 2024-07-26.<image>Who?!"
    assert form.identity() == {"form": "chat", "today": "2024-07-26 12:00"}
    today = datetime.strptime(TODAY, "%Y-%m-%d %H:%M")
    assert {mark: today.strftime(mark) for mark in DATE_PARTS} == DATE_PARTS


def test_a_date_is_fixed_inside_macros_loops_and_tests(llava: Path, tmp_path: Path) -> None:
    template = (
        "{% macro head() %}[{{ strftime_now('%d %b %Y') }}]{% endmacro %}"
        "{% if strftime_now is defined %}{% set day = strftime_now('%d')|int - 1 %}{% endif %}"
        "{{ head() }}{{ day }}{% for i in [1] %}{{ strftime_now('%y%%') }}{% endfor %}"
    )
    form = with_template(llava, tmp_path, template + PARTS + ENDS)
    assert form.text("Who?") == "[26 Jul 2024]2524%<image>Who?!"


@pytest.mark.parametrize("start", ["", "\n", "\n\n", "  ", " \n", "x"])
def test_what_fixes_the_date_leaves_the_rest_as_it_was(start: str) -> None:
    template = start + "{% set a = 1 %}\n  {% if a %}\n  b{{ c }}\n{% endif %}{# strftime_now #}"
    environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)
    plain, fixed = (environment.from_string(one).render(c="c") for one in (template, with_fixed_date(template)))
    assert fixed == plain


def test_a_template_of_the_tokenizer_gets_the_same_date(llava: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(llava, tmp_path / "net"))
    (folder / "chat_template.jinja").unlink()
    config = json.loads((folder / "tokenizer_config.json").read_text())
    config["chat_template"] = "{{ strftime_now('%Y') }} {% for m in messages %}{{ m['content'] }}{% endfor %}"
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    form = form_of(folder)
    assert form.text("Who?", images=0) == "2024 Who?"
    assert "today" in form.identity()
