"""The benchmark of a server's prefix cache: what a server reports reaches it, and what it could have reported."""

from __future__ import annotations

import pytest
from bench import QUICK_DATA, Bench
from fake_server import Reply, Seen, serving, words

from benchmarks.prefix_cache import measure


@pytest.mark.thorough
def test_the_share_that_a_server_reports_and_the_most_it_could(bench: Bench) -> None:
    known: set[str] = set()

    def caching(seen: Seen, before: int) -> Reply:
        reply, content = words(seen, before), seen.body["messages"][0]["content"][0]
        if content["type"] == "image_url":
            url = content["image_url"]["url"]
            cached = 60 if url in known else 0
            known.add(url)
            reply.body["usage"] |= {"prompt_tokens": 80, "prompt_tokens_details": {"cached_tokens": cached}}
        return reply

    models = {"/v1/models": lambda seen, before: Reply({"data": [{"id": "m"}]})}
    with serving({**models, "/v1/chat/completions": caching}) as server:
        few = ("probe.select=[trust,lifestyle]", "analysis.min_subjects=2", "cut.by=[gender]", "scorer=valence")
        found = measure(server.url, "m", 6, [*QUICK_DATA, f"data.path={bench.table}", *few, "engine.concurrency=1"])
    assert (found["answers"], found["failed"], found["limit"]) == (12, 0, 0.5)
    assert found["prompt_tokens"] == 12 * 80
    assert 0 < found["cached_tokens"] <= 6 * 60
    assert found["cached_share"] == found["cached_tokens"] / found["prompt_tokens"]
