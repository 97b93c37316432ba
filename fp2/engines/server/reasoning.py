"""How a server is told whether its model reasons before it answers.

No endpoint says so: each kind of server has a parameter of its own, and ignores those of the others. They are tried on
a small question, once for a server, and what the reply shows decides.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from fp2.engines.server.chat import PATH, chat_body, post_chat, read_completion
from fp2.engines.server.client import Channel, ServerClient, UnreachableError
from fp2.engines.server.replies import RefusedError
from fp2.engines.server.report import raise_if_fatal
from fp2.errors import Fp2Error
from fp2.tables import Decoding

_TRIAL = "What is 17 times 23? Answer with the number alone."
_TRIAL_TOKENS = 512
PARAMETERS: Mapping[str, Callable[[bool, int], dict[str, object]]] = {
    "nothing": lambda on, budget: {},
    "chat_template_kwargs": lambda on, budget: {"chat_template_kwargs": {"enable_thinking": on}},
    "reasoning_effort": lambda on, budget: {"reasoning_effort": "medium" if on else "none"},
    "reasoning": lambda on, budget: {
        "reasoning": {"enabled": True, "max_tokens": budget} if on else {"enabled": False}
    },
    "thinking": lambda on, budget: {
        "thinking": {"type": "enabled", "budget_tokens": budget} if on else {"type": "disabled"}
    },
    "adaptive thinking": lambda on, budget: {
        "thinking": {"type": "adaptive", "display": "summarized"} if on else {"type": "disabled"}
    },
    "think": lambda on, budget: {"think": on},
}
"""By name: (whether it reasons, most tokens of it) -> fields of the request.

`chat_template_kwargs`: vLLM, SGLang and llama.cpp; `reasoning_effort`: OpenAI and Gemini; `reasoning`: OpenRouter;
`thinking`: Anthropic, Z.ai and Moonshot; `adaptive thinking`: newer models of Anthropic, which take no budget; `think`:
Ollama.
"""


def request_fields(parameter: str, decoding: Decoding) -> dict[str, object]:
    """Return the fields of a request that switch reasoning as `decoding` says, by the parameter of this name."""
    return PARAMETERS[parameter](decoding.reasoning != "off", decoding.reasoning_budget)


async def reasons(channel: Channel, model: str, decoding: Decoding) -> bool:
    """Return whether the model reasons before it answers a small question.

    Raises
    ------
    RefusedError, UnreachableError
    """
    trial = replace(decoding, max_new_tokens=_TRIAL_TOKENS + decoding.reasoning_budget, temperature=0.0)
    completion = read_completion(await post_chat(channel, chat_body(model, _TRIAL, None, trial, 0)), trial)
    return completion.split.reasoning is not None


def find_parameter(client: ServerClient, model: str, decoding: Decoding) -> str:
    """Return the first parameter with which the model does what `decoding.reasoning` says.

    Raises
    ------
    Fp2Error
        If none has that effect, or the server does not answer.
    """
    for parameter in PARAMETERS:
        client.also = request_fields(parameter, decoding)
        try:
            reasoned = client.run(reasons(client.channel(), model, decoding))
        except RefusedError as error:
            raise_if_fatal(error, PATH)
            continue
        except UnreachableError as error:
            problem = f"asking whether the model reasons: {error}"
            raise Fp2Error(problem, where="model.base_url", fix="Try again, or set decoding.reasoning=auto") from error
        finally:
            client.also = {}
        if reasoned == (decoding.reasoning != "off"):
            return parameter
    problem = "cannot be switched off" if decoding.reasoning == "off" else "cannot be switched on"
    tried = ", ".join(list(PARAMETERS)[1:])
    raise Fp2Error(
        f"the reasoning of the model {model} {problem} (tried: {tried})",
        where="decoding.reasoning",
        fix="Set it to auto, and start the server as you want to measure it",
    )
