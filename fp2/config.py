"""The typed configuration: dataclasses that Hydra fills and pydantic checks, and the folders of its YAML files.

`fp2.compose` composes, validates and hashes it. Data sets, engines and protocols declare their own options.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any

from annotated_types import Ge, Gt, Le, Lt

from fp2.errors import Fp2Error, check_names
from fp2.plugins import CONF, as_user_error, checker, installed, read_installed
from fp2.tables import BOX, CONTROLS, ORIGINAL, TAKES_REGION, VARIANT_PARAMETERS

SWEEP_ID = re.compile(r"[\w.\-]{1,200}")
ASK = "ask"
CONFIG_NAME = "config"
DEFAULT_PROTOCOL = "fingerprint"

Share = Annotated[float, Ge(0), Le(1)]
Level = Annotated[float, Gt(0), Lt(1)]
Positive = Annotated[int, Ge(1)]
NotNegative = Annotated[int, Ge(0)]


@dataclass
class ModelConfig:
    """The model: a checkpoint folder, a hub id, a server's model, or the simulator (`engine=planted`).

    Attributes
    ----------
    engine : str
        The engine that runs it; others may serve it too.
    id, revision : str, optional
        A folder, or an id on the hub and its commit; without one, the pinned commit (`fp2 pin`), else `main`.
    dtype : str, optional
        `float32`, `bfloat16` or `float16`.
    quantisation : str, optional
        `int8` or `nf4`.
    trust_remote_code : bool
        Whether code that comes with the checkpoint may run.
    pickled_weights : bool
        Whether pickled weights (`*.bin`) may be read where the checkpoint has no safetensors.
    chat : bool, optional
        Whether the chat template is used; None uses it where there is one.
    prompt : str, optional
        A format in place of the chat template, with `{image}` and `{question}`.
    image_backend : str
        The library that resizes images: `pil` or `torchvision`.
    image_size : int or mapping, optional
        The side in pixels to which images are resized before the model gets them: of all, or by subset of the data set.
    resample : str, optional
        The filter of `image_size`: `bilinear`, `bicubic` or `lanczos`; None is bicubic.
    adapter : str, optional
        A LoRA adapter that is merged into the weights: a folder of the checkpoint, or a path.
    yes_no : list of str, optional
        The two words whose first token is the answer of a yes/no question; None is `[Yes, No]`.
    softmax_dtype : str, optional
        The dtype of the softmax that the probability of those tokens is read from; None is float32.
    truth : str or mapping, optional
        The effects of the simulator.
    base_url : str or list of str, optional
        Address of a server, or of several that serve the same model.
    api_key_env : str, optional
        The environment variable that holds the key of the servers.
    api : str, optional
        What servers speak: `messages` is Anthropic's Messages API; None is chat completions.
    options : dict
        Settings of the model that only its engine knows (`takes`).
    """

    name: str = "peeps_vlm"
    engine: str = "hf"
    id: str | None = None
    revision: str | None = None
    dtype: str | None = "float32"
    quantisation: str | None = None
    trust_remote_code: bool = False
    pickled_weights: bool = False
    chat: bool | None = None
    prompt: str | None = None
    image_backend: str = "pil"
    image_size: Any = None
    resample: str | None = None
    adapter: str | None = None
    yes_no: list[str] | None = None
    softmax_dtype: str | None = None
    truth: Any = None
    base_url: Any = None
    api_key_env: str | None = None
    api: str | None = None
    options: dict[str, Any] = field(default_factory=dict)


@dataclass
class ProbeConfig:
    """What is asked: a battery (see `fp2/probes/battery.py`), and the protocol that analyses the answers.

    `templates`, `traits`, `traits_file` and `published` make the questions of a battery of traits; `variants` shows
    every image in several variants in one run; `options` are those of the protocol; `fields` are filled in for each
    item.
    """

    name: str = "fingerprint"
    version: str = "1"
    description: str = ""
    people: int = 1
    decoding: dict[str, Any] = field(default_factory=dict)
    select: list[str] | None = None
    probes: dict[str, Any] = field(default_factory=dict)
    protocol: str = DEFAULT_PROTOCOL
    templates: Any = None
    traits: Any = None
    traits_file: str | None = None
    published: str | None = None
    variants: list[dict[str, Any]] | None = None
    options: dict[str, Any] = field(default_factory=dict)
    fields: list[str] | None = None


@dataclass
class TaskConfig:
    """What the run does: `ask` puts the battery to the model; any other task analyses `files` and asks no model.

    `options` are those of the task; `files` names files of the user's, of some keys several (an empty name: none).
    """

    name: str = ASK
    options: dict[str, Any] = field(default_factory=dict)
    files: dict[str, Any] = field(default_factory=dict)


@dataclass
class CutConfig:
    """How subjects are grouped: `by` is one intersection, `each` is several cuts in one run."""

    name: str | None = None
    by: list[str] | None = None
    each: list[str] | None = None
    groups: Any = None


@dataclass
class VariantConfig:
    """How images are changed before they are shown (`fp2/data/stimuli.py`); each kind has its own parameters.

    `size` is the side of the grey square in pixels, `seed` draws whose image is shown, `radius` is the blur's in
    pixels, `margin` is the margin of a crop, as a share of the box's sides. `region: box` takes the person's box where
    the data also have a more exact region (None: polygons, else a mask, else the box).
    """

    name: str = ORIGINAL
    kind: str = ORIGINAL
    size: int | None = None
    seed: int | None = None
    radius: float | None = None
    margin: float | None = None
    region: str | None = None


@dataclass
class AnalysisConfig:
    """How groups are compared.

    `permutations: null` is as many as the family's correction needs (at least 10,000). `adjust` names attributes and
    image facts that are held constant in the block `adjusted`; `looks` declares the looks of a sequential design;
    `multiverse` adds the specification curve, `published` the numbers by the rule of the Fingerprint² page, `labels` (a
    CSV file of labelled answers) the measurement error of the scorers.
    """

    alpha: Level = 0.05
    correction: str = "holm"
    family: str = "scorer"
    primary: str = "valence_context"
    min_subjects: Annotated[int, Ge(2)] = 10
    permutations: int | None = None
    bootstrap: NotNegative = 2000
    adjust: list[str] = field(default_factory=list)
    looks: Any = None
    multiverse: bool = False
    published: bool = False
    labels: str | None = None
    severity: dict[str, float] = field(default_factory=lambda: {"low": 0.02, "moderate": 0.10, "high": 0.25})


FIRST_PRIMARY = "valence"
"""The default of `analysis.primary` up to 0.3.0."""


def primary_among(scorers: Sequence[str], primary: str) -> str:
    """Return the scorer of the composites: `analysis.primary`; where the run lacks it `valence`, else the first."""
    return next((name for name in (primary, FIRST_PRIMARY, *scorers) if name in scorers), primary)


ANALYSIS_OPTIONS = ("adjust", "looks", "multiverse", "labels", "published")
"""Options of `AnalysisConfig` that a protocol has to name to take them (`Requirements.takes_analysis`)."""


@dataclass
class ReportConfig:
    """What is drawn and written."""

    figures: bool = True
    dashboard: bool = True
    examples_per_probe: NotNegative = 5
    sample_per_group: NotNegative = 5
    suppress_below: Annotated[int, Ge(1)] = 10


@dataclass
class TrackingConfig:
    """Where runs are logged. `uri: null` is the SQLite store under `paths.mlruns`.

    `artifacts` is where a new experiment in a database keeps its files (null: below `paths.mlruns`); a server decides
    that by itself.
    """

    enabled: bool = True
    uri: str | None = None
    artifacts: str | None = None
    experiment: str = "fingerprint"
    sweep_id: str | None = None


@dataclass
class PathsConfig:
    """Folders, all below the project's root by default.

    `pins` is the file of pinned models (`fp2 pin`); `seed_stores` are further response stores to look in.
    """

    root: str = "."
    pins: str = "${paths.root}/pins.yaml"
    state: str = "${paths.root}/.fp2"
    store: str = "${paths.state}/responses.sqlite"
    data: str = "${paths.state}/data"
    keys: str = "${paths.state}/keys"
    mlruns: str = "${paths.root}/mlruns"
    outputs: str = "${paths.root}/outputs"
    seed_stores: list[str] = field(default_factory=list)


@dataclass
class AnswersConfig:
    """Attempts per answer in one run, and the failures that end it (a share up to 1, a count above).

    `max_cost` is the most that the run may cost by estimate, in the currency of the engine's prices; `stop` names the
    rule by which it asks no further (an entry point of the group `fp2.stopping`), and `against` the finished runs that
    the rule compares with.
    """

    attempts: Positive = 2
    error_budget: Annotated[float, Ge(0)] = 0.05
    max_cost: Annotated[float, Ge(0)] | None = None
    stop: str | None = None
    against: list[str] | None = None


@dataclass
class Config:
    """The config of a run.

    `data` and `engine` are mappings while Hydra composes; validation makes them instances of the options that the
    chosen data set and engine have (`fp2.data.base.DataOptions`, `fp2.engines.base.EngineOptions`).
    `preregistration` is the file of a registration (`fp2 preregister`), which the passport compares the run with.
    """

    task: TaskConfig = field(default_factory=TaskConfig)
    engine: Any = field(default_factory=dict)
    model: ModelConfig = field(default_factory=ModelConfig)
    probe: ProbeConfig = field(default_factory=ProbeConfig)
    cut: CutConfig = field(default_factory=CutConfig)
    scorer: Any = field(default_factory=dict)
    data: Any = field(default_factory=dict)
    variant: VariantConfig = field(default_factory=VariantConfig)
    analysis: AnalysisConfig = field(default_factory=AnalysisConfig)
    report: ReportConfig = field(default_factory=ReportConfig)
    tracking: TrackingConfig = field(default_factory=TrackingConfig)
    paths: PathsConfig = field(default_factory=PathsConfig)
    answers: AnswersConfig = field(default_factory=AnswersConfig)
    seed: NotNegative = 20260101
    verify_inputs: bool = False
    shard: str | None = None
    preregistration: str | None = None
    experiment: str | None = None

    @property
    def primary_scorer(self) -> str:
        """The scorer of the composites."""
        return primary_among(list(self.scorer), self.analysis.primary)


for _section in (
    Config, ModelConfig, ProbeConfig, CutConfig, VariantConfig, AnalysisConfig, ReportConfig,
    TrackingConfig, PathsConfig, AnswersConfig, TaskConfig,
):  # fmt: skip
    setattr(_section, "__pydantic_config__", {"extra": "forbid"})  # noqa: B010  (pydantic's own name for it)


def conf_dir() -> Path:
    """Return the folder of the config groups: beside the package in a checkout, inside it in a wheel."""
    package = Path(__file__).resolve().parent
    own_conf = package.parent / "conf"
    return own_conf if (own_conf / f"{CONFIG_NAME}.yaml").is_file() else package / "conf"


def conf_packages(*, shipped: bool) -> dict[str, str]:
    """Return the packages with config groups (entry points `fp2.conf`) by the plug-in's name: ours, or all others.

    One that cannot be imported is skipped with a warning.
    """
    return {name: package for name, (package, _) in _plugin_folders(shipped).items()}


@cache
def _plugin_folders(shipped: bool) -> dict[str, tuple[str, Path]]:
    def read(name: str) -> tuple[str, Path]:
        package = installed(CONF)[name].value
        return package, Path(str(files(package)))

    folders = read_installed(CONF, read)
    return {name: value for name, value in folders.items() if value[0].startswith("fp2.") == shipped}


_searched: list[Path] = []


def set_search_path(entries: Iterable[str]) -> None:
    """Set the folders of the user's own config groups, as `hydra.searchpath` names them (`file://...`, `pkg://...`)."""
    _searched.clear()
    for entry in entries:
        scheme, separator, rest = entry.partition("://")
        if scheme == "pkg":
            with suppress(ImportError):  # Hydra reports it
                _searched.append(Path(str(files(rest))))
        else:
            _searched.append(Path(rest if separator else entry))


def conf_folders() -> dict[str, Path]:
    """Return the folders of config groups, in the order in which a choice is looked for.

    Ours (`fp2` and the method packages), those of `set_search_path`, those of other plug-ins.
    """
    searched = {str(folder): folder for folder in _searched if folder.is_dir()}
    shipped, plugin_folders = (
        {name: folder for name, (_, folder) in _plugin_folders(is_shipped).items()} for is_shipped in (True, False)
    )
    return {"fp2": conf_dir(), **shipped, **searched, **plugin_folders}


def groups() -> list[str]:
    """Return the config groups that can be chosen from, in the order of their names."""
    folders = [path for folder in conf_folders().values() for path in folder.iterdir() if path.is_dir()]
    return sorted({path.name for path in folders if not path.name.startswith("_")})


def choices(group: str) -> dict[str, Path]:
    """Return the YAML files of a config group by name; of two with one name, that of the first folder."""
    path_of: dict[str, Path] = {}
    for folder in conf_folders().values():
        for path in sorted((folder / group).glob("*.yaml")):
            path_of.setdefault(path.stem, path)
    return dict(sorted(path_of.items()))


def register_schema() -> None:
    """Register the types with Hydra (as `fp2_schema`)."""
    from hydra.core.config_store import ConfigStore

    schemas = ConfigStore.instance()
    if "fp2_schema.yaml" not in schemas.repo:
        schemas.store(name="fp2_schema", node=Config)


def check_variant(variant: VariantConfig) -> None:
    """Raise unless a kind of image variant has exactly the parameters that it takes, in range."""
    check_names([variant.kind], VARIANT_PARAMETERS, "unknown value", "variant.kind")
    takes = VARIANT_PARAMETERS[variant.kind]
    for name, minimum in (("size", 1), ("seed", 0), ("radius", None), ("margin", 0)):
        value = getattr(variant, name)
        if name not in takes and value is not None:
            fix = f"It takes {', '.join(takes)}" if takes else "It takes no parameter"
            raise Fp2Error(f"the variant '{variant.kind}' has no {name}", where=f"variant.{name}", fix=fix)
        if name in takes and value is None:
            raise Fp2Error(f"the variant '{variant.kind}' needs a {name}", where=f"variant.{name}")
        if value is not None and not (value > 0 if minimum is None else value >= minimum):
            bound = "above 0" if minimum is None else f"at least {minimum}"
            raise Fp2Error(f"{name} is {value}", where=f"variant.{name}", fix=f"It must be {bound}")
    if variant.region is None:
        return
    if variant.kind not in TAKES_REGION:
        fix = f"These have one: {', '.join(sorted(TAKES_REGION))}"
        raise Fp2Error(f"the variant '{variant.kind}' has no region", where="variant.region", fix=fix)
    if variant.region != BOX:
        raise Fp2Error(f"unknown value {variant.region!r}", where="variant.region", fix=f"Choose {BOX}, or null")


def variants_of(probe: ProbeConfig) -> tuple[VariantConfig, ...]:
    """Return the variants in which a battery shows every image."""
    import pydantic

    variants = []
    for spec in probe.variants or []:
        try:
            variant = checker(VariantConfig).validate_python({"name": spec.get("kind"), **spec})
        except pydantic.ValidationError as error:
            raise as_user_error(error, "probe.variants") from error
        check_variant(variant)
        variants.append(variant)
    kinds = [variant.kind for variant in variants]
    if len(set(kinds)) < len(kinds):
        raise Fp2Error("a variant is listed twice", where="probe.variants")
    shows_other = sorted({*kinds} & CONTROLS)
    if shows_other:
        fix = f"Run variant={shows_other[0]} by itself"
        raise Fp2Error(f"'{shows_other[0]}' does not show the subject's image", where="probe.variants", fix=fix)
    return tuple(variants)


def variant_identity(variant: VariantConfig) -> dict[str, Any]:
    """Return the kind of image variant with the parameters that it takes; the region only where one is given."""
    numbers = {name: getattr(variant, name) for name in VARIANT_PARAMETERS[variant.kind]}
    return {"kind": variant.kind, **numbers, **({"region": variant.region} if variant.region else {})}
