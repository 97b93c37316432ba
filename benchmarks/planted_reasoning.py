"""The planted truth of the bundled model once more, as one that reasons: its reasoning has a planted difference too.

Before each answer stands, as its reasoning, the bundled model's own answer about the person's occupation: the answers
have the twelve planted differences, and the reasoning those of the probe `occupation`, whatever is asked. A mock server
of each vendor's form gives the 7,200 stored answers of `make run` (tests/default_answers.csv.xz), and `transformers
serve` those of the model itself, which code of its checkpoint makes reason.

Reported are the cells that are called different, of the answers and of the reasoning, in the first form, and whether
the others give the same tables.

    python -m benchmarks.planted_reasoning            # --images 60 tries everything out
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pandas as pd

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tests" / "engines")]
TABLE = ROOT / "tests" / "default_answers.csv.xz"
PROBE = "occupation"
"""The probe whose answer is the reasoning."""
CHAT, MODELS = "/v1/chat/completions", "/v1/models"
FORMS: Mapping[str, Callable[[str, str], dict[str, Any]]] = {
    "vllm": lambda thought, said: {"content": said, "reasoning_content": thought},
    "openrouter": lambda thought, said: {"content": said, "reasoning": thought},
    "anthropic": lambda thought, said: {
        "content": [{"type": "thinking", "thinking": thought}, {"type": "text", "text": said}]
    },
    "marks": lambda thought, said: {"content": f"<think>\n{thought}\n</think>\n\n{said}"},
    "opened": lambda thought, said: {"content": f"{thought}\n</think>\n\n{said}"},
}
"""The message of an answer by form: vLLM and SGLang, OpenRouter, Anthropic, marks in the text, and only the second."""


def stored() -> tuple[pd.DataFrame, dict[str, str]]:
    """Return the stored answers (a row an image, a column a probe), and the probe of each question text."""
    from dataclasses import asdict

    from fp2.compose import load_config
    from fp2.probes.battery import load_battery

    battery = load_battery(asdict(load_config([]).probe))
    return pd.read_csv(TABLE, index_col="image", keep_default_na=False), {q.text: q.probe for q in battery.questions}


@contextmanager
def mock(form: str, images: Mapping[str, str]) -> Iterator[str]:
    """Yield the address of a server of the stored answers in a vendor's form; `images`: digest of the pixels -> id."""
    from fake_server import Reply, Seen, completion, picture_of, serving, text_of

    from fp2.data.pixels import pixel_sha256

    answers, probes = stored()

    def answer(seen: Seen, before: int) -> Reply:
        image = picture_of(seen.body)
        name = None if image is None else images.get(pixel_sha256(image.convert("RGB")))
        probe = probes.get(text_of(seen.body))
        if name is None or probe is None:  # a question of the engine's own
            return Reply(completion("Yes.", prompt=9 if image is None else 99))
        body = completion("")
        body["choices"][0]["message"].update(FORMS[form](answers.loc[name, PROBE], answers.loc[name, probe]))
        return Reply(body)

    with serving({CHAT: answer, MODELS: lambda seen, before: Reply({"data": [{"id": "peeps"}]})}) as server:
        yield server.url


@contextmanager
def served(folder: Path) -> Iterator[tuple[str, str]]:
    """Yield the address of `transformers serve`, and the name of the model there."""
    from own_code import save_reasoning_peeps
    from real_server import transformers_serve

    question = next(text for text, probe in stored()[1].items() if probe == PROBE)
    model = save_reasoning_peeps(folder / "peeps", question)
    with transformers_serve(model, folder / "log", "--trust-remote-code") as url:
        yield url, str(model)


def ask(folder: Path, url: str, name: str, images: int | None, *more: str) -> Any:
    """Run the default battery on a server, with a store of its own; return the outcome."""
    from bench import execute

    limit = [] if images is None else [f"data.limit={images}"]
    return execute(
        [
            "model=openai_compat",
            f"model.id={name}",
            f"model.base_url={url}",
            "report=none",
            "tracking=none",
            f"paths.root={folder}",
            f"paths.state={folder.parent}",
            f"paths.store={folder / 'store.sqlite'}",
            *limit,
            *more,
        ],
        folder / f"run_{time.monotonic_ns()}",
    )


def cells(outcome: Any, scorer: str) -> list[list[str]]:
    """Return probe and cut of what is called different by a scorer, sorted."""
    rows = [row for row in outcome.results["disparities"] if row["scorer"] == scorer]
    return sorted([row["probe"], row["cut"]] for row in rows if row["verdict"] == "biased")


def texts(outcome: Any) -> list[list[str]]:
    """Return answer and reasoning of every image and question."""
    frame = pd.read_parquet(outcome.folder / "responses.parquet")
    frame = frame.sort_values(["image_id", "question_id"])
    return [[row.text, row.reasoning] for row in frame.itertuples()]


def main(words: Sequence[str] | None = None) -> dict[str, Any]:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--images", type=int, default=None, help="images of the first form; all by default")
    parser.add_argument("--compared", type=int, default=60, help="images of the other forms")
    parser.add_argument("--json", action="store_true", help="print one JSON line (always)")
    args = parser.parse_args(words)
    from fp2.data.pixels import digest_image
    from fp2.methods.peeps.data.source import load_peeps
    from fp2.methods.peeps.data.spec import PeepsSpec

    result: dict[str, Any] = {"benchmark": "planted_reasoning"}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        people = load_peeps(folder / "data", PeepsSpec()).people
        images = {
            str(digest_image(Path(path)).sha256): image
            for image, path in zip(people["image_id"], people["image_path"], strict=True)
        }
        some: dict[str, Any] = {}
        for form in FORMS:
            with mock(form, images) as url:
                if not some:
                    said = ask(folder / "all", url, "peeps", args.images)
                    thought = ask(folder / "all", url, "peeps", args.images, "scorer=reasoning")
                    result |= {
                        "answers": said.results["answers"]["answered"],
                        "answers_different": cells(said, "valence_context"),
                        "reasoning_different": cells(thought, "valence_of_reasoning"),
                        "answers_different_beside_it": cells(thought, "valence"),
                    }
                some[form] = texts(ask(folder / form, url, "peeps", args.compared))
        with served(folder) as (url, model):
            asked = ask(folder / "served", url, model, args.compared, "probe.decoding.reasoning=on")
            some["transformers serve"] = texts(asked)
        first = some["vllm"]
        result["same_texts"] = {
            form: sum(one == other for one, other in zip(found, first, strict=True)) / len(first)
            for form, found in some.items()
        }
    print(json.dumps(result))
    return result


if __name__ == "__main__":
    main()
