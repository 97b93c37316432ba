"""How a checkpoint reasons: what its chat template declares, and where the reasoning ends among generated tokens.

Nothing is recognised by a model's name. The template is rendered with each of its own variables on and off, and with an
answer that has reasoning; a variable that opens, closes or announces reasoning is the switch, and what stands around
the reasoning are its marks. A template that shows neither may still have marks among its tokenizer's added tokens.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NoReturn

from fp2.engines.reasoning import Marks, Split, split_reasoning

if TYPE_CHECKING:
    import jinja2
    import torch
    from jinja2.nodes import Node
    from jinja2.parser import Parser
    from transformers import PreTrainedTokenizerBase

    from fp2.engines.hf.generation import Pair, Pick

_ABOUT = re.compile("think|reason", re.IGNORECASE)
_ASKED, _REASONED, _ANSWERED = "\u2460asked\u2460", "\u2461reasoned\u2461", "\u2462answered\u2462"
_CONTENTS: tuple[Callable[[str], object], ...] = (lambda text: [{"type": "text", "text": text}], lambda text: text)
"""The content of a message as newer and as older templates take it."""
_LOOK_BACK = 16
"""Tokens at the end of a prompt, or at the beginning of an answer, among which the opening mark may stand."""


@dataclass(frozen=True)
class TemplateReasoning:
    """What a chat template says of reasoning.

    Attributes
    ----------
    marks : Marks, optional
        Around the reasoning; None where no template shows them.
    switch : str, optional
        The template's variable that switches reasoning.
    off : bool
        The value of the variable that switches it off.
    by_default : bool
        Whether the model reasons where nothing is said: the prompt opens reasoning, or is not that of `off`.
    """

    marks: Marks | None = None
    switch: str | None = None
    off: bool = False
    by_default: bool = False

    @property
    def possible(self) -> bool:
        """Whether the template knows reasoning: it has a switch, opens it, or writes that of earlier answers."""
        return self.switch is not None or self.by_default or self.marks is not None

    @property
    def always(self) -> bool:
        """Whether the template always opens reasoning."""
        return self.by_default and self.switch is None


@functools.lru_cache(maxsize=32)
def read_template(template: str | None) -> TemplateReasoning:
    """Return what a chat template says of reasoning; nothing of one that cannot be rendered here."""
    if not template:
        return TemplateReasoning()
    for content in _CONTENTS:
        try:
            return _read(template, content)
        except Exception:  # a template is a program and can raise anything; asking the model reports it
            continue
    return TemplateReasoning()


def _read(template: str, content: Callable[[str], object]) -> TemplateReasoning:
    from jinja2 import meta

    environment = _environment()
    compiled = environment.from_string(template)

    def rendered(**variables: object) -> str:
        message = {"role": "user", "content": content(_ASKED)}
        options = {"add_generation_prompt": True, "bos_token": "", "eos_token": ""}
        return str(compiled.render(messages=[message], **options, **variables))

    usual = rendered()
    if _ASKED not in usual or "'type'" in usual:
        raise ValueError("the template does not take such a message")
    marks = _shown_marks(compiled, content)
    for name in sorted(meta.find_undeclared_variables(environment.parse(template))):
        values = {value: _try(rendered, name, value) for value in (False, True)}
        no, yes = values[False], values[True]
        if no is None or yes is None or no == yes or no.count("False") > yes.count("False"):
            continue
        if yes.count("True") > no.count("True"):  # the value is written out: the variable is no switch
            continue
        changed = " ".join({*no.split()} ^ {*yes.split()})
        if not _ABOUT.search(name) and not (marks and any(mark in changed for mark in marks)):
            continue
        off = bool(marks and (_is_open(no, marks) or (marks.closing in yes and marks.closing not in no)))
        return TemplateReasoning(marks or _written_marks(changed), name, off, usual != values[off])
    return TemplateReasoning(marks, by_default=bool(marks and _is_open(usual, marks)))


def _try(rendered: Callable[..., str], name: str, value: bool) -> str | None:
    try:
        return rendered(**{name: value})
    except Exception:  # the variable is no switch
        return None


def _is_open(prompt: str, marks: Marks) -> bool:
    """Whether a prompt ends inside reasoning."""
    return prompt.rstrip().endswith(marks.opening)


def _shown_marks(compiled: jinja2.Template, content: Callable[[str], object]) -> Marks | None:
    """Return what a template writes around the reasoning of an answer that has some; None if it leaves it out."""
    message = {"role": "user", "content": content(_ASKED)}
    plain = {"role": "assistant", "content": content(_ANSWERED)}
    options = {"add_generation_prompt": False, "bos_token": "", "eos_token": ""}
    for name in ("reasoning_content", "reasoning", "thinking"):
        text = compiled.render(messages=[message, {**plain, name: _REASONED}], **options)
        before, reasoned, after = text.partition(_REASONED)
        closing, answered, _ = after.partition(_ANSWERED)
        if reasoned and answered and closing.strip() and before.split():
            opening = re.search(r"[<\[\u25c1][^\s<\[\u25c1]+$", before.rstrip())
            marks = Marks(opening.group() if opening else before.split()[-1], closing.strip())
            return None if marks.opening in compiled.render(messages=[message], **options) else marks
    usual = compiled.render(messages=[message], **options | {"add_generation_prompt": True})
    opened = re.search(r"[<\[\u25c1][^\s<>\[\]\u25c1\u25b7]+[>\]\u25b7]\s*$", usual)
    if opened and _ABOUT.search(opened.group()):  # the answer begins inside the reasoning
        mark = opened.group().strip()
        return Marks(mark, f"{mark[0]}/{mark[1:]}")
    return _written_marks(usual[usual.find(_ASKED) :])


def _written_marks(text: str) -> Marks | None:
    """Return the marks of reasoning among words, where one of them closes what another opens."""
    marks = set(re.findall(r"[<\[\u25c1][^\s<>\[\]\u25c1\u25b7]+[>\]\u25b7]", text))
    for closing in sorted(marks):
        opening = closing.replace("/", "", 1)
        if "/" in closing and _ABOUT.search(closing):
            return Marks(opening, closing)
    return None


def added_marks(tokenizer: PreTrainedTokenizerBase) -> Marks | None:
    """Return the marks of reasoning among the added tokens of a loaded tokenizer, if a pair is there."""
    tokens = [str(token) for token in getattr(tokenizer, "added_tokens_decoder", {}).values()]
    marks = _written_marks(" ".join(tokens))
    return marks if marks and {*marks} <= set(tokens) else None


def _environment() -> jinja2.Environment:
    """Return the environment in which chat templates are rendered (transformers, `utils/chat_template_utils.py`)."""
    import jinja2.ext
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    class Generation(jinja2.ext.Extension):
        """The tag `generation`, which marks the tokens of an answer for training: its content is rendered."""

        tags = {"generation"}  # noqa: RUF012

        def parse(self, parser: Parser) -> list[Node]:
            """Return the content of the block."""
            next(parser.stream)
            return parser.parse_statements(("name:endgeneration",), drop_needle=True)

    def fail(message: str) -> NoReturn:
        raise jinja2.TemplateError(message)

    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, jinja2.ext.loopcontrols]
    )
    environment.filters["tojson"] = lambda value, **options: json.dumps(value, ensure_ascii=False)
    environment.globals |= {"raise_exception": fail, "strftime_now": lambda form: form}
    return environment


@dataclass
class _Progress:
    """The tokens of one text so far, and how many there were when its reasoning ended."""

    begun: bool
    tokens: list[int] = field(default_factory=list)
    closed: int | None = None


class ReasoningTokens:
    """The marks of reasoning in tokens, and the limits of reasoning and answer.

    Parameters
    ----------
    tokenizer : PreTrainedTokenizerBase
    marks : Marks
    budget : int
        Most tokens of the reasoning, its marks included; 0 for a model that is told not to reason.
    longest : int
        Most tokens of the answer.
    """

    def __init__(self, tokenizer: PreTrainedTokenizerBase, marks: Marks, *, budget: int, longest: int) -> None:
        self._tokenizer, self.marks, self.budget, self.longest = tokenizer, marks, budget, longest
        self._opening, self._closing = (
            tuple(tokenizer.encode(mark, add_special_tokens=False)) for mark in (marks.opening, marks.closing)
        )

    @property
    def opening(self) -> int:
        """The first token of the opening mark."""
        return int(self._opening[0])

    def begun(self, prompt: Sequence[int]) -> bool:
        """Return whether a prompt (token ids) ends inside reasoning."""
        opened = _last(prompt[-_LOOK_BACK:], self._opening)
        return opened is not None and _last(prompt[-_LOOK_BACK:][opened:], self._closing) is None

    def limited(self, pick: Pick, begun: Callable[[Pair], bool], end_token: int) -> Pick:
        """Return a choice of tokens that ends a text at the limit of the part that it is in."""
        texts: dict[Pair, _Progress] = {}

        def choose(pairs: Sequence[Pair], logits: torch.Tensor) -> list[int]:
            chosen = pick(pairs, logits)
            for index, pair in enumerate(pairs):
                if pair not in texts:
                    texts[pair] = _Progress(begun(pair))
                text = texts[pair]
                if self._is_full(text):
                    chosen[index] = end_token
                self._append(text, chosen[index])
            return chosen

        return choose

    def until_answer(
        self,
        pick: Pick,
        begun: Callable[[Pair], bool],
        end_tokens: set[int],
        read: Callable[[Sequence[Pair], torch.Tensor], None],
    ) -> Pick:
        """Return a choice of tokens that ends a text where its answer would begin, or at the limit of the reasoning.

        The answer begins with the first token that is not blank after the reasoning, or at once where there is none.

        Parameters
        ----------
        read : callable
            Gets the pairs whose answer begins, once each, and the logits [pairs, vocabulary] of its first token.
        """
        texts: dict[Pair, _Progress] = {}

        def choose(pairs: Sequence[Pair], logits: torch.Tensor) -> list[int]:
            chosen, rows = pick(pairs, logits), []
            for index, pair in enumerate(pairs):
                if pair not in texts:
                    texts[pair] = _Progress(begun(pair))
                text = texts[pair]
                if end_tokens & set(text.tokens[-1:]):  # some strategies go on with texts that have ended
                    chosen[index] = text.tokens[-1]
                elif self._begins_answer(text, chosen[index]):
                    rows.append(index)
                    chosen[index] = min(end_tokens)
                elif text.closed is None and len(text.tokens) >= self.budget:
                    chosen[index] = min(end_tokens)
                self._append(text, chosen[index])
            if rows:
                read([pairs[index] for index in rows], logits[rows])
            return chosen

        return choose

    @property
    def longest_to_answer(self) -> int:
        """Most tokens that `until_answer` needs: the reasoning, blanks, and the end."""
        return self.budget + _LOOK_BACK

    def _begins_answer(self, text: _Progress, token: int) -> bool:
        """Return whether a token that is chosen after those of `text` is the first of the answer."""
        if text.closed is None and (text.begun or len(text.tokens) >= _LOOK_BACK):
            return False
        after = [*text.tokens[text.closed or 0 :], token]
        words = str(self._tokenizer.decode(after, skip_special_tokens=False)).lstrip()
        if text.closed is not None:
            return bool(words)
        opening = self.marks.opening
        return not (opening.startswith(words) or words.startswith(opening))

    def _append(self, text: _Progress, token: int) -> None:
        text.tokens.append(token)
        if text.closed is None and tuple(text.tokens[-len(self._closing) :]) == self._closing:
            text.closed = len(text.tokens)

    def _is_full(self, text: _Progress) -> bool:
        if text.closed is not None:
            return len(text.tokens) - text.closed >= self.longest
        reasoning = text.begun or _last(text.tokens[:_LOOK_BACK], self._opening) is not None
        return len(text.tokens) >= (self.budget if reasoning else self.longest)

    def split(self, tokens: Sequence[int], *, begun: bool) -> tuple[Split, int]:
        """Return the parts of generated tokens as text, and the number of tokens of the reasoning."""
        position = _first(tokens, self._closing)
        if position is not None:
            end = position + len(self._closing)
            reasoning = self._decode(tokens[:position]).removeprefix(self.marks.opening).strip()
            if end > self.budget > 0:  # an engine that limits both parts together: too little was left for the answer
                return Split(reasoning, None), len(tokens)
            return Split(reasoning or None, self._decode(tokens[end : end + self.longest])), end
        raw = str(self._tokenizer.decode(list(tokens), skip_special_tokens=False))
        split = split_reasoning(raw, self.marks, begun=begun)
        if split.reasoning is None:
            return Split(None, self._decode(tokens[: self.longest])), 0
        return split, len(tokens)

    def _decode(self, tokens: Sequence[int]) -> str:
        return str(self._tokenizer.decode(list(tokens), skip_special_tokens=True)).strip()


def _first(tokens: Sequence[int], wanted: Sequence[int]) -> int | None:
    """Return the first place of a sequence of tokens, or None."""
    starts = range(len(tokens) - len(wanted) + 1)
    return next((start for start in starts if tuple(tokens[start : start + len(wanted)]) == tuple(wanted)), None)


def _last(tokens: Sequence[int], wanted: Sequence[int]) -> int | None:
    """Return the place after the last occurrence of a sequence of tokens, or None."""
    position = _first(tuple(reversed(tokens)), tuple(reversed(wanted)))
    return None if position is None else len(tokens) - position


def switched(template: TemplateReasoning, mode: str | int, *, scored: bool) -> Mapping[str, bool]:
    """Return the variable of a template by which reasoning is switched as `mode` says, with its value.

    Where probabilities are read (`scored`), `auto` switches it off.
    """
    if template.switch is None or (mode == "auto" and not scored):
        return {}
    return {template.switch: template.off if mode in ("off", "auto") else not template.off}
