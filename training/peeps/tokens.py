"""The tokenizer: byte-level BPE trained on every question and every planted answer, and the chat form around them."""

from __future__ import annotations

import itertools
from typing import Any

from training.peeps.planted import Planted

PAD, BOS, EOS, IMAGE, USER, ASSISTANT = "<pad>", "<s>", "</s>", "<image>", "<|user|>", "<|assistant|>"
SPECIAL = (PAD, BOS, EOS, IMAGE, USER, ASSISTANT)
VOCABULARY = 1200

CHAT_TEMPLATE = (
    "{{ '<s>' }}{% for message in messages %}"
    "{% if message['role'] == 'assistant' %}{{ '<|assistant|>' }}{% endif %}"
    "{% if message['content'] is string %}"
    "{% if message['role'] == 'user' %}{{ '<|user|>' }}{% endif %}{{ message['content'] }}"
    "{% else %}"
    "{% for part in message['content'] if part['type'] == 'image' %}{{ '<image>' }}{% endfor %}"
    "{% if message['role'] == 'user' %}{{ '<|user|>' }}{% endif %}"
    "{% for part in message['content'] if part['type'] == 'text' %}{{ part['text'] }}{% endfor %}"
    "{% endif %}"
    "{% if message['role'] == 'assistant' %}{{ '</s>' }}{% endif %}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|assistant|>' }}{% endif %}"
)


def questions(planted: Planted) -> list[str]:
    """Return every question that the model is taught."""
    asked = [text for probe in planted.probes.values() for text in probe.questions]
    asked += planted.pair.questions
    return asked + [planted.question(t, f) for t, f in itertools.product(planted.traits, planted.templates)]


def answers(planted: Planted) -> list[str]:
    """Return every sentence that the model is taught (two-person answers as their parts)."""
    said = ["Yes", "No"]
    for name, probe in planted.probes.items():
        said += [
            planted.say(name, level, phrase)
            for level, phrase in itertools.product(range(len(probe.sentences)), range(len(planted.phrases)))
        ]
        if probe.refusal:
            said.append(probe.refusal.says)
    for side, colour in itertools.product(("left", "right"), planted.cues["clothing"]):
        for form in (planted.pair.first, planted.pair.second, planted.pair.second_short):
            said.append(f"{form.format(side=side, colour=colour)} {form.format(side=side, colour=colour)}")
    return said


def build_tokenizer(planted: Planted) -> Any:
    """Return the tokenizer, trained from the planted truth alone (the same truth gives the same tokenizer)."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=False), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=list(SPECIAL),
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator(questions(planted) + answers(planted) * 3, trainer)
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        bos_token=BOS,
        eos_token=EOS,
        pad_token=PAD,
        additional_special_tokens=[IMAGE, USER, ASSISTANT],
        extra_special_tokens={"image_token": IMAGE},
        padding_side="left",
        model_max_length=256,
        clean_up_tokenization_spaces=False,
    )
