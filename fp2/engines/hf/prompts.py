"""From a question to the prompt that a model gets: its chat template, its family's plain format, or the user's own."""

from __future__ import annotations

import functools
from dataclasses import dataclass, replace
from typing import Any, Literal

from fp2.engines.checkpoint import ASKS_DATE, Checkpoint
from fp2.engines.hf.families import IMAGE, QUESTION, FamilyFacts
from fp2.errors import Fp2Error

Form = Literal["chat", "raw", "own", "code"]
_TRIAL = "What is this?"
TODAY = "2024-07-26 12:00"
"""What a chat template that asks for the date is told, whatever the day: a prompt must not change overnight.

It is the day that the templates of Llama 3.2 name themselves where they cannot ask.
"""
DATE_PARTS = {  # by the directives of strftime, in English whatever the locale
    **{"%Y": "2024", "%y": "24", "%G": "2024", "%m": "07", "%-m": "7", "%d": "26", "%-d": "26", "%e": "26"},
    **{"%B": "July", "%b": "Jul", "%h": "Jul", "%A": "Friday", "%a": "Fri", "%w": "5", "%u": "5", "%j": "208"},
    **{"%-j": "208", "%U": "29", "%W": "30", "%V": "30", "%H": "12", "%-H": "12", "%I": "12", "%-I": "12"},
    **{"%M": "00", "%-M": "0", "%S": "00", "%-S": "0", "%f": "000000", "%p": "PM", "%Z": "", "%z": ""},
    **{"%F": "2024-07-26", "%D": "07/26/24", "%x": "07/26/24", "%T": "12:00:00", "%X": "12:00:00", "%R": "12:00"},
    **{"%c": "Fri Jul 26 12:00:00 2024", "%%": "%"},
}


def check_prompt(prompt: str | None, chat: bool | None = None) -> None:
    """Check a user's own prompt format: `{image}` and `{question}` once each, and no chat template beside it.

    Raises
    ------
    Fp2Error
        Saying what is wrong with it.
    """
    if prompt is None:
        return
    for mark in (IMAGE, QUESTION):
        if prompt.count(mark) != 1:
            raise Fp2Error(
                f"the prompt format {prompt!r} holds {mark} {prompt.count(mark)} times",
                where="model.prompt",
                fix='Write it once, for instance "{image}Question: {question} Answer:"',
            )
    if chat:
        raise Fp2Error(
            "a prompt format of one's own and the chat template exclude each other",
            where="model.prompt",
            fix="Set model.chat to null or false",
        )


@dataclass(frozen=True)
class PromptFormat:
    """How a model's questions are written.

    Parameters
    ----------
    checkpoint : Checkpoint
        Says whether there is a chat template.
    facts : FamilyFacts
        The family's plain format.
    chat : bool, optional
        Use the chat template; when not given, if the checkpoint has one.
    prompt : str, optional
        The user's own format, with `{image}` and `{question}`.
    processor : ProcessorMixin, optional
        The loaded processor; `text` and `adds_start` need it (see `with_processor`).
    """

    checkpoint: Checkpoint
    facts: FamilyFacts
    chat: bool | None = None
    prompt: str | None = None
    processor: Any = None

    def __post_init__(self) -> None:
        check_prompt(self.prompt, self.chat)

    def with_processor(self, processor: Any) -> PromptFormat:
        """Return the same format, able to write."""
        return replace(self, processor=processor)

    @property
    def form(self) -> Form:
        """Whose format it is.

        Raises
        ------
        Fp2Error
            If the chat template is asked for and the checkpoint has none.
        """
        if self.prompt is not None:
            return "own"
        has = self.checkpoint.chat_template_digest is not None
        if self.chat and not has:
            what = f"the model {self.checkpoint.id} has no chat template"
            raise Fp2Error(what, where="model.chat", fix="Set it to null")
        return "chat" if (has if self.chat is None else self.chat) else "raw"

    def identity(self) -> dict[str, str]:
        """Return what of the format can change an answer; the chat template is in the checkpoint's identity."""
        form = self.form
        if form == "chat":
            return {"form": form, "today": TODAY} if self.checkpoint.asks_date else {"form": form}
        return {"form": form, "format": self._plain}

    def text(self, question: str, picture: bool = True) -> str:
        """Return the prompt for `question`, with the mark that stands for the picture unless there is none.

        Raises
        ------
        Fp2Error
            If the chat template cannot be filled in, or leaves out the picture or the question.
        """
        if self.form == "chat":
            return self._chat(question, picture)
        plain = self._plain if picture else self._plain.replace(IMAGE + "\n", IMAGE)
        before, after = plain.replace(IMAGE, self._mark if picture else "").split(QUESTION)
        return before + question + after

    def adds_start(self, prompt: str) -> bool:
        """Return whether the tokenizer shall put its start token before `prompt`: not where it stands there already."""
        start = self.processor.tokenizer.bos_token
        return not (start and prompt.startswith(start))

    @property
    def _plain(self) -> str:
        return self.facts.raw_prompt if self.prompt is None else self.prompt

    @property
    def _mark(self) -> str:
        """What stands for the picture in a prompt: nothing, where the processor puts the picture there itself."""
        if self.facts.picture_by_processor:
            return ""
        return str(getattr(self.processor, "image_token", None) or "")

    def _chat(self, question: str, picture: bool) -> str:
        content = self._content(question, picture)
        try:
            return self._render(content)
        except Fp2Error:
            raise
        except Exception as error:  # templates are programs: they can raise anything
            raise self._unfit(str(error)) from error

    def _content(self, question: str, picture: bool) -> list[dict[str, str]] | str:
        """Return a message as this template wants it: a list of parts, or one string."""
        if not self._takes_parts:
            return (self._mark + "\n" if picture else "") + question
        shown = [{"type": "image"}] if picture else []
        return [*shown, {"type": "text", "text": question}]

    @functools.cached_property
    def _takes_parts(self) -> bool:
        """Whether the template takes a message in parts; an older one takes a string, and may not say so."""
        parts = [{"type": "image"}, {"type": "text", "text": _TRIAL}]
        try:
            if self._holds_all(self._render(parts)):
                return True
        except Exception as error:
            reason = str(error)
        else:
            reason = "it leaves out the picture or the question"
        try:
            if self._holds_all(self._render(f"{self._mark}\n{_TRIAL}")):
                return False
        except Exception as error:
            reason = str(error)
        raise self._unfit(reason)

    def _holds_all(self, prompt: str) -> bool:
        """Return whether a prompt for the trial question holds question and picture once, and no list written out."""
        mark = self._mark
        return prompt.count(_TRIAL) == 1 and (not mark or prompt.count(mark) == 1) and "'type'" not in prompt

    def _render(self, content: list[dict[str, str]] | str) -> str:
        """Fill in the processor's template, or the tokenizer's where the processor has none."""
        holder = self.processor if getattr(self.processor, "chat_template", None) else self.processor.tokenizer
        message = [{"role": "user", "content": content}]
        template = holder.chat_template
        template = template.get("default") if isinstance(template, dict) else template
        dated = {"chat_template": with_fixed_date(template)} if template and ASKS_DATE in template else {}
        return str(holder.apply_chat_template(message, tokenize=False, add_generation_prompt=True, **dated))

    def _unfit(self, reason: str) -> Fp2Error:
        first = next(iter(reason.splitlines()), "it says nothing more")
        what = f"the chat template of {self.checkpoint.id} cannot be filled in: {first}"
        return Fp2Error(what, where="model.id", fix="Set model.chat=false, or model.prompt to a format of your own")


def with_fixed_date(template: str) -> str:
    """Return a chat template for which it is always `TODAY`.

    A macro of the name stands in front, and hides the function that transformers gives to templates; transformers takes
    no function from the caller (5.23, `utils/chat_template_utils.py`).
    """
    parts = "".join(f".replace({mark!r}, {value!r})" for mark, value in DATE_PARTS.items())
    # the line's end behind it belongs to the tag (`trim_blocks`), so that the template still begins a line
    return f"{{% macro {ASKS_DATE}(format) %}}{{{{ format{parts} }}}}{{% endmacro %}}\n{template}"
