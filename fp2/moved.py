"""Import paths of packages that were moved: code, configs and logged runs of 0.3.0 and 0.4.0 may name the old ones."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

MOVED = {
    "fp2.ask.dense_answers": "fp2.methods.dense.answers",
    "fp2.ask.dense": "fp2.methods.dense.storage",
    "fp2.commands.compare": "fp2.methods.several_runs.compare_command",
    "fp2.commands.data_verify": "fp2.methods.maintenance.data_verify",
    "fp2.commands.doctor": "fp2.methods.maintenance.doctor",
    "fp2.commands.forecast": "fp2.methods.planning.forecast",
    "fp2.commands.label": "fp2.methods.labels.command",
    "fp2.commands.leaderboard": "fp2.methods.several_runs.leaderboard_command",
    "fp2.commands.listing": "fp2.methods.maintenance.listing",
    "fp2.commands.new": "fp2.methods.maintenance.new",
    "fp2.commands.pin": "fp2.methods.maintenance.pin",
    "fp2.commands.plan": "fp2.methods.planning.plan",
    "fp2.commands.purge": "fp2.methods.withdrawal.command",
    "fp2.commands.rerun": "fp2.methods.reruns.command",
    "fp2.commands.rescore": "fp2.methods.reruns.rescore_command",
    "fp2.commands.sample_size": "fp2.methods.planning.sample_size",
    "fp2.commands.store": "fp2.methods.maintenance.store",
    "fp2.commands.ui": "fp2.methods.maintenance.ui",
    "fp2.commands.view": "fp2.methods.viewer.command",
    "fp2.commands.watch": "fp2.methods.maintenance.watch",
    "fp2.data.fhibe": "fp2.methods.fhibe_release",
    "fp2.data.peeps": "fp2.methods.peeps.data",
    "fp2.data.readers.boxed": "fp2.methods.public_sets.boxed",
    "fp2.data.readers.detection_sets": "fp2.methods.public_sets.detection_sets",
    "fp2.data.readers.hf": "fp2.methods.public_sets.hf",
    "fp2.data.readers.portraits": "fp2.methods.public_sets.portraits",
    "fp2.data.readers.public": "fp2.methods.public_sets.public",
    "fp2.data.regions": "fp2.methods.image_variants.regions",
    "fp2.data.variants": "fp2.methods.image_variants.images",
    "fp2.engines.dual": "fp2.methods.dual",
    "fp2.engines.hf.custom_code": "fp2.methods.custom_code",
    "fp2.engines.planted": "fp2.methods.peeps.planted",
    "fp2.engines.hf.copied_prefix": "fp2.methods.prefix_sharing.copied_prefix",
    "fp2.engines.hf.decoding": "fp2.methods.prefix_sharing.decoding",
    "fp2.engines.hf.shared_prefix": "fp2.methods.prefix_sharing.shared_prefix",
    "fp2.engines.hf.token_tree": "fp2.methods.prefix_sharing.token_tree",
    "fp2.engines.forms": "fp2.methods.recorded.form",
    "fp2.engines.recorded.forms": "fp2.methods.recorded.form",
    "fp2.engines.recorded": "fp2.methods.recorded",
    "fp2.engines.server.sampled": "fp2.methods.server_scoring.sampled",
    "fp2.engines.vllm": "fp2.methods.vllm",
    "fp2.engines.workers.options": "fp2.engines.worker_options",
    "fp2.engines.workers": "fp2.methods.workers",
    "fp2.probes.published": "fp2.methods.dense.published",
    "fp2.probes.trait_battery": "fp2.methods.dense.trait_battery",
    "fp2.probes.traits": "fp2.methods.dense.traits",
    "fp2.protocols.attention": "fp2.methods.attention",
    "fp2.protocols.diversity": "fp2.methods.dataset_report",
    "fp2.protocols.fhibe": "fp2.methods.fhibe",
    "fp2.protocols.fingerprint.adjusted": "fp2.methods.adjusted.disparities",
    "fp2.protocols.fingerprint.intersections": "fp2.methods.adjusted.intersections",
    "fp2.protocols.fingerprint.looks": "fp2.methods.stopping.declared",
    "fp2.protocols.fingerprint.measurement_error": "fp2.methods.labels.measurement_error",
    "fp2.protocols.fingerprint.missing": "fp2.methods.secondary.missing",
    "fp2.protocols.fingerprint.multiverse": "fp2.methods.curves",
    "fp2.protocols.fingerprint.pairwise": "fp2.methods.secondary.pairwise",
    "fp2.protocols.fingerprint.prompt_sensitivity": "fp2.methods.prompt_variation.prompt_sensitivity",
    "fp2.protocols.fingerprint.published": "fp2.methods.page_rule.published",
    "fp2.protocols.fingerprint.scorer_agreement_section": "fp2.methods.secondary.scorer_agreement_section",
    "fp2.protocols.fingerprint.scorer_agreement": "fp2.methods.secondary.scorer_agreement",
    "fp2.protocols.fingerprint.secondary": "fp2.methods.secondary.family",
    "fp2.protocols.fingerprint.variance": "fp2.methods.prompt_variation.variance",
    "fp2.protocols.gras": "fp2.methods.gras",
    "fp2.protocols.matched": "fp2.methods.matched",
    "fp2.protocols.narrow": "fp2.methods.fhibe.narrow",
    "fp2.report.comparison": "fp2.methods.several_runs.comparison",
    "fp2.report.eval_record": "fp2.methods.exports.eval_record",
    "fp2.report.export": "fp2.methods.exports.formats",
    "fp2.report.gate": "fp2.methods.gate.conditions",
    "fp2.report.readable": "fp2.methods.passport_page.page",
    "fp2.report.sweep": "fp2.methods.several_runs.sweep_page",
    "fp2.report.view": "fp2.methods.viewer.pages",
    "fp2.runs.again": "fp2.methods.reruns.again",
    "fp2.runs.asked_again": "fp2.methods.reruns.asked_again",
    "fp2.runs.compare_many": "fp2.methods.several_runs.compare_many",
    "fp2.runs.compare": "fp2.methods.several_runs.compare",
    "fp2.runs.export_answers": "fp2.methods.exports.answers",
    "fp2.runs.labelling": "fp2.methods.labels.sample",
    "fp2.runs.multiverse": "fp2.methods.curves.afterwards",
    "fp2.runs.panels": "fp2.methods.several_runs.panels",
    "fp2.runs.purge_journal": "fp2.methods.withdrawal.journal",
    "fp2.runs.purge_search": "fp2.methods.withdrawal.search",
    "fp2.runs.purge_selection": "fp2.methods.withdrawal.selection",
    "fp2.runs.purge": "fp2.methods.withdrawal.purge",
    "fp2.runs.ranking": "fp2.methods.several_runs.ranking",
    "fp2.runs.reissue": "fp2.methods.withdrawal.reissue",
    "fp2.runs.rescore": "fp2.methods.reruns.rescoring",
    "fp2.runs.sweep_report": "fp2.methods.several_runs.sweep_report",
    "fp2.runs.sweep": "fp2.methods.several_runs.sweep",
    "fp2.scorers.attention": "fp2.methods.attention.scorers",
    "fp2.scorers.by_model": "fp2.methods.model_scorers.by_model",
    "fp2.scorers.choice": "fp2.methods.benchmarks.choice",
    "fp2.scorers.classifier": "fp2.methods.model_scorers.classifier",
    "fp2.scorers.judge": "fp2.methods.model_scorers.judge",
    "fp2.scorers.published_terms": "fp2.methods.page_code.published_terms",
    "fp2.scorers.rubric": "fp2.methods.model_scorers.rubric",
    "fp2.scorers.sequence_classifier": "fp2.methods.model_scorers.sequence_classifier",
    "fp2.scorers.vqa": "fp2.methods.fhibe.vqa.scorers",
    "fp2.stats.adjusted": "fp2.methods.adjusted.model",
    "fp2.stats.agreement": "fp2.methods.secondary.agreement",
    "fp2.stats.components": "fp2.methods.prompt_variation.components",
    "fp2.stats.distance": "fp2.methods.several_runs.distance",
    "fp2.stats.intersections": "fp2.methods.adjusted.combinations",
    "fp2.stats.matched": "fp2.methods.matched.panel",
    "fp2.stats.measurement": "fp2.methods.labels.correction",
    "fp2.stats.page_rule": "fp2.methods.page_rule.rule",
    "fp2.stats.pairwise": "fp2.methods.secondary.pair_tests",
    "fp2.stats.planning": "fp2.methods.planning.power",
    "fp2.stats.profiles": "fp2.methods.several_runs.profiles",
    "fp2.stats.proportions": "fp2.methods.fhibe.proportions",
    "fp2.stats.random_factors": "fp2.methods.prompt_variation.random_factors",
    "fp2.stats.tallies": "fp2.methods.several_runs.tallies",
    "fp2.stats.sequential": "fp2.methods.stopping.sequential",
    "fp2.stats.templates": "fp2.methods.prompt_variation.templates",
    "fp2.stats.two_samples": "fp2.methods.several_runs.two_samples",
    "fp2.store.dense": "fp2.methods.dense.store",
}
"""The old import path of a package -> the present one; a path below another stands before it."""


_FHIBE, _MODEL, _PROFILES = (
    "fp2.methods.fhibe_release", "fp2.methods.adjusted.model", "fp2.methods.several_runs.profiles",
)  # fmt: skip
_MATCHED, _LABELS = "fp2.methods.matched.panel", "fp2.methods.labels.agreement"
_DENSE = "fp2.methods.dense"
MOVED_NAMES = {
    "vocab": _FHIBE,
    **dict.fromkeys(("AttributeReader", "find_country"), f"{_FHIBE}.attributes"),
    **dict.fromkeys(("Box", "Geometry", "Keypoint", "annotation_path", "read_geometry"), f"{_FHIBE}.geometry"),
    **dict.fromkeys(("load_fhibe", "unused"), f"{_FHIBE}.load"),
    **dict.fromkeys(("mask_array", "region_mask"), f"{_FHIBE}.masks"),
    **dict.fromkeys(("DOWNSAMPLED_HEADER", "FACE_HEADER", "SEGMENT_CLASSES"), f"{_FHIBE}.vocab"),
    **dict.fromkeys(("Design", "Fit", "NOT_SEPARABLE", "difference", "fit_model"), _MODEL),
    **dict.fromkeys(("Proportion", "proportions_by_group"), "fp2.methods.fhibe.proportions"),
    **dict.fromkeys(("DenseStorage", "disk"), f"{_DENSE}.storage"),
    **dict.fromkeys(("DenseAnswers", "QUESTIONS", "SHARDS"), f"{_DENSE}.answers"),
    **dict.fromkeys(("TraitTemplates", "facts", "protocol_options", "traits_of"), f"{_DENSE}.trait_battery"),
    **dict.fromkeys(("Trait", "TraitList", "own_traits", "read_traits"), f"{_DENSE}.traits"),
    "design_of": "fp2.methods.adjusted.disparities",
    **dict.fromkeys(("OPTIONAL", "run_again"), "fp2.methods.reruns.again"),
    "rescore": "fp2.methods.reruns.rescore_command",
    **dict.fromkeys(("FEW", "MatchedTest", "matched_equivalence", "matched_panel", "minimum_detectable"), _MATCHED),
    **dict.fromkeys(("LabellerAgreement", "labeller_agreement"), _LABELS),
    **dict.fromkeys(("Profiles", "RankTable", "profiles", "rank_table", "smaller_profiles"), _PROFILES),
    **dict.fromkeys(("Choice", "ChoiceProbability", "ChoiceScorer"), "fp2.methods.benchmarks.choice"),
    **dict.fromkeys(("Form", "evaluation_id", "form_of", "place"), "fp2.methods.recorded.form"),
    **dict.fromkeys(("Looks", "P_VALUES"), "fp2.methods.stopping.declared"),
    **dict.fromkeys(("nominal_levels", "repeated_p", "spent"), "fp2.methods.stopping.sequential"),
    **dict.fromkeys(("Asked", "ModelScorer", "Reading", "Resources"), "fp2.methods.model_scorers.by_model"),
}
"""Names that `fp2.extension` had in 0.4.0 -> the module of a package where they are."""


class MovedFinder(MetaPathFinder, Loader):
    """Imports the module at the present path where the old one is asked for, with a `DeprecationWarning`."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return a spec for the old name of a module of a moved package; None for all others."""
        return ModuleSpec(fullname, self) if self._present(fullname) else None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """Return the module itself, so that its classes are the same under both names."""
        present = self._present(spec.name)
        assert present is not None
        warnings.warn(f"{spec.name} is now {present}", DeprecationWarning, stacklevel=2)
        module = import_module(present)
        spec.loader_state = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        """Give the module its own spec back: it was executed under its present name."""
        assert module.__spec__ is not None
        module.__spec__ = module.__spec__.loader_state

    @staticmethod
    def _present(name: str) -> str | None:
        for old, new in MOVED.items():
            if name == old or name.startswith(f"{old}."):
                return new + name.removeprefix(old)
        return None


def first_path(target: str) -> str:
    """Return the import path that an object had before its package was moved: config hashes are made of it."""
    module = target.partition(":")[0]
    news = [new for new in MOVED.values() if module == new or module.startswith(f"{new}.")]
    if not news:
        return target
    new = max(news, key=len)
    return next(old for old, present in MOVED.items() if present == new) + target.removeprefix(new)


def install() -> None:
    """Let the old import paths be imported; called once, by `import fp2`."""
    sys.meta_path.insert(0, MovedFinder())  # before the finder that would execute a submodule a second time
