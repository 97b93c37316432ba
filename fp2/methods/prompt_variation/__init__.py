"""Whether results depend on the wording of a question and on the sample of an answer.

`prompt_sensitivity` compares the questions of one probe, `variance` says which factors the answers vary by.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fp2.extension import SupplementEntry

if TYPE_CHECKING:
    from fp2.extension import Job, RunTables


def _several_questions(job: Job, tables: RunTables) -> bool:
    return job.battery is None or len(job.battery.questions) > len(job.battery.probes)


def _several_answers(job: Job, tables: RunTables) -> bool:
    return _several_questions(job, tables) or (job.battery is not None and job.battery.decoding.samples > 1)


TEMPLATES = SupplementEntry(
    "templates",
    f"{__name__}.prompt_sensitivity:PromptSensitivity",
    f"{__name__}.prompt_sensitivity:PromptSensitivitySection",
    (
        (
            "prompt_sensitivity",
            3,
            ("templates.*wordings*", "templates.*scope*", "templates.*interaction*p", "disparities.*.wordings_*"),
        ),
    ),
    _several_questions,
)
VARIANCE = SupplementEntry(
    "variance",
    f"{__name__}.variance:Variance",
    f"{__name__}.variance:VarianceSection",
    (("variance_components", 2, ("variance", "variance.*", "disparities.*.samples_*")),),
    _several_answers,
)
