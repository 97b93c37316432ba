"""From a question to a prompt: by the chat template, the family's plain format, or the user's own format."""

from __future__ import annotations

import functools
from dataclasses import dataclass, replace
from typing import Any, Literal

from fp2.engines.checkpoint import DATE_FUNCTION, Checkpoint
from fp2.engines.hf.families import IMAGE, QUESTION, FamilyFacts
from fp2.engines.hf.reasoning import TemplateReasoning, read_template, switched
from fp2.engines.reasoning import always_reasons, cannot_reason
from fp2.errors import Fp2Error
from fp2.tables import Reasoning

PromptForm = Literal["chat", "raw", "own", "code"]
_TRIAL = "What is this?"
TODAY = "2024-07-26 12:00"
"""The date that every chat template gets: a prompt must not change from day to day.

It is the default date of the templates of Llama 3.2.
"""
DATE_PARTS = {  # by the directives of strftime, in English for every locale
    **{"%Y": "2024", "%y": "24", "%G": "2024", "%m": "07", "%-m": "7", "%d": "26", "%-d": "26", "%e": "26"},
    **{"%B": "July", "%b": "Jul", "%h": "Jul", "%A": "Friday", "%a": "Fri", "%w": "5", "%u": "5", "%j": "208"},
    **{"%-j": "208", "%U": "29", "%W": "30", "%V": "30", "%H": "12", "%-H": "12", "%I": "12", "%-I": "12"},
    **{"%M": "00", "%-M": "0", "%S": "00", "%-S": "0", "%f": "000000", "%p": "PM", "%Z": "", "%z": ""},
    **{"%F": "2024-07-26", "%D": "07/26/24", "%x": "07/26/24", "%T": "12:00:00", "%X": "12:00:00", "%R": "12:00"},
    **{"%c": "Fri Jul 26 12:00:00 2024", "%%": "%"},
}


def check_prompt(prompt: str | None, chat: bool | None = None) -> None:
    """Raise unless a user's prompt format has `{image}` and `{question}` once each, and no chat template is set."""
    if prompt is None:
        return
    for mark in (IMAGE, QUESTION):
        if prompt.count(mark) != 1:
            raise Fp2Error(
                f"the prompt format {prompt!r} has {mark} {prompt.count(mark)} times",
                where="model.prompt",
                fix='Write it once, for instance "{image}Question: {question} Answer:"',
            )
    if chat:
        raise Fp2Error(
            "a prompt format cannot be combined with the chat template",
            where="model.prompt",
            fix="Set model.chat to null or false",
        )


@dataclass(frozen=True)
class PromptFormat:
    """How the questions of a model are written.

    Parameters
    ----------
    checkpoint : Checkpoint
    facts : FamilyFacts
    chat : bool, optional
        Whether to use the chat template; by default, if the checkpoint has one.
    prompt : str, optional
        The user's own format, with `{image}` and `{question}`.
    processor : ProcessorMixin, optional
        The loaded processor, which `text` and `adds_start_token` need.
    reasoning : {"off", "auto", "on"} or int
        As in `Decoding`.
    """

    checkpoint: Checkpoint
    facts: FamilyFacts
    chat: bool | None = None
    prompt: str | None = None
    processor: Any = None
    reasoning: Reasoning = "auto"

    def __post_init__(self) -> None:
        check_prompt(self.prompt, self.chat)

    def with_processor(self, processor: Any) -> PromptFormat:
        """Return the same format with a processor."""
        return replace(self, processor=processor)

    @property
    def form(self) -> PromptForm:
        """The origin of the format."""
        if self.prompt is not None:
            return "own"
        has = self.checkpoint.chat_template_digest is not None
        if self.chat and not has:
            message = f"the model {self.checkpoint.id} has no chat template"
            raise Fp2Error(message, where="model.chat", fix="Set it to null")
        return "chat" if (has if self.chat is None else self.chat) else "raw"

    def identity(self) -> dict[str, str]:
        """Return the part of the response key; the chat template itself is in the checkpoint's identity."""
        form = self.form
        if form == "chat":
            return {"form": form, "today": TODAY} if self.checkpoint.uses_date else {"form": form}
        return {"form": form, "format": self._plain}

    @functools.cached_property
    def template(self) -> TemplateReasoning:
        """What the chat template says of reasoning; nothing where it is not used.

        Raises
        ------
        Fp2Error
            If the model cannot do what `reasoning` says.
        """
        template = read_template(self.checkpoint.chat_template) if self.form == "chat" else TemplateReasoning()
        if self.reasoning == "off" and template.possible and template.switch is None:
            raise always_reasons(self.checkpoint.id)
        if self.reasoning not in ("off", "auto") and not template.possible:
            raise cannot_reason(self.checkpoint.id)
        return template

    def text(self, question: str, images: int = 1, *, scored: bool = False) -> str:
        """Return the prompt for `question`, with the image token as often as there are images (several: of a chat).

        A model whose probabilities are read (`scored`) does not reason.
        """
        if self.form == "chat":
            return self._chat(question, images, scored)
        plain = self._plain if images else self._plain.replace(IMAGE + "\n", IMAGE)
        before, after = plain.replace(IMAGE, self._image_token if images else "").split(QUESTION)
        return before + question + after

    def adds_start_token(self, prompt: str) -> bool:
        """Return whether the tokenizer adds its start token to `prompt`: not if it begins with one."""
        start = self.processor.tokenizer.bos_token
        return not (start and prompt.startswith(start))

    @property
    def _plain(self) -> str:
        return self.facts.raw_prompt if self.prompt is None else self.prompt

    @property
    def _image_token(self) -> str:
        """The image token of a prompt: empty where the processor inserts it."""
        if self.facts.image_by_processor:
            return ""
        return str(getattr(self.processor, "image_token", None) or "")

    def _chat(self, question: str, images: int, scored: bool) -> str:
        content = self._content(question, images)
        try:
            prompt = self._render(content, **switched(self.template, self.reasoning, scored=scored))
            if images > 1 and (token := self._image_token) and (n := prompt.count(token)) != images:
                raise self._template_error(f"it has {n} of {images} images")
            return prompt
        except Fp2Error:
            raise
        except Exception as error:  # a template is a program and can raise anything
            raise self._template_error(str(error)) from error

    def _content(self, question: str, images: int) -> list[dict[str, str]] | str:
        """Return the content of a message as this template takes it: a list of parts, or one string."""
        if not self._takes_parts:
            return (self._image_token + "\n") * images + question
        return [*([{"type": "image"}] * images), {"type": "text", "text": question}]

    @functools.cached_property
    def _takes_parts(self) -> bool:
        """Whether the template takes a list of parts; an older one takes a string, and may not raise otherwise."""
        content = [{"type": "image"}, {"type": "text", "text": _TRIAL}]
        try:
            if self._is_complete(self._render(content)):
                return True
        except Exception as error:
            reason = str(error)
        else:
            reason = "it leaves out the image or the question"
        try:
            if self._is_complete(self._render(f"{self._image_token}\n{_TRIAL}")):
                return False
        except Exception as error:
            reason = str(error)
        raise self._template_error(reason)

    def _is_complete(self, prompt: str) -> bool:
        """Return whether a prompt has the trial question and the image token once, and no list printed as text."""
        token = self._image_token
        return prompt.count(_TRIAL) == 1 and (not token or prompt.count(token) == 1) and "'type'" not in prompt

    def _render(self, content: list[dict[str, str]] | str, **variables: bool) -> str:
        """Render the processor's template, or the tokenizer's if the processor has none."""
        holder = self.processor if getattr(self.processor, "chat_template", None) else self.processor.tokenizer
        message = [{"role": "user", "content": content}]
        template = holder.chat_template
        template = template.get("default") if isinstance(template, dict) else template
        dated = {"chat_template": with_fixed_date(template)} if template and DATE_FUNCTION in template else {}
        return str(
            holder.apply_chat_template(message, tokenize=False, add_generation_prompt=True, **dated, **variables)
        )

    def _template_error(self, reason: str) -> Fp2Error:
        first = next(iter(reason.splitlines()), "no reason given")
        message = f"the chat template of {self.checkpoint.id} cannot be rendered: {first}"
        return Fp2Error(message, where="model.id", fix="Set model.chat=false, or model.prompt to your own format")


def with_fixed_date(template: str) -> str:
    """Return a chat template for which the date is always `TODAY`.

    A macro of the same name hides the function that transformers gives to templates; transformers takes no function
    from the caller (5.23, `utils/chat_template_utils.py`).
    """
    replacements = "".join(f".replace({mark!r}, {value!r})" for mark, value in DATE_PARTS.items())
    # the line break belongs to the tag (`trim_blocks`), so that the template still begins a line
    return f"{{% macro {DATE_FUNCTION}(format) %}}{{{{ format{replacements} }}}}{{% endmacro %}}\n{template}"
