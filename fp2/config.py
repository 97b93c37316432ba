"""The typed configuration: one set of dataclasses that Hydra fills and pydantic checks, and the digest of its meaning.

Hydra refuses unknown keys and wrong types while it composes; `validate` then checks ranges and what must fit together.
`config_hash` covers what decides a result and nothing else: no path, no device, no batch size.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Annotated, Any

from annotated_types import Ge, Gt, Le, Lt

from fp2.cuts import check_publishable, resolve_cuts
from fp2.data.fhibe.release import FORMS as FHIBE_FORMS
from fp2.engines.hf.prompts import check_prompt
from fp2.errors import Fp2Error, nearest
from fp2.hashing import digest, sha256_file
from fp2.probes.trait_battery import is_trait_battery
from fp2.probes.traits import own_traits, traits_path
from fp2.tables import CONTROLS, DTYPES, IMAGE_BACKENDS, ORIGINAL, QUANTISATIONS, VARIANT_PARAMETERS

CONFIG_SCHEMA = 1
SWEEP_ID = re.compile(r"[\w.\-]{1,200}")
BUILT_IN = (
    "valence", "stereotype", "confidence", "refusal", "economic", "trust_rating", "first_mention", "word_share",
)  # fmt: skip

ASK = "ask"
PROTOCOLS = ("fingerprint", "gras", "fhibe_vqa", "fhibe_clip")
CORRECTIONS = ("holm", "bh", "by", "bonferroni", "none")
FAMILIES = ("scorer", "run")
DATA_KINDS = ("peeps", "peeps_twins", "fhibe", "table", "gras", "fairface", "utkface", "folder", "hf")
ROOTED = {
    "fhibe": "the folder of the release",
    "gras": "the folder with the official lists",
    "fairface": "the folder with the label files",
    "utkface": "the folder of the pictures",
    "folder": "the folder with one sub-folder per group",
    "hf": "the folder of the data set",
}
"""Kinds of data that lie in a folder of the user's, and what it holds."""

Share = Annotated[float, Ge(0), Le(1)]
Level = Annotated[float, Gt(0), Lt(1)]
Positive = Annotated[int, Ge(1)]
NotNegative = Annotated[int, Ge(0)]


@dataclass
class ModelConfig:
    """Who is asked: a checkpoint folder, a hub id, a server's model, or the simulator (`engine=planted`).

    `base_url` is where a server is, `api_key_env` the environment variable that holds its key.
    `prompt` is a format of one's own in place of the chat template, with `{image}` and `{question}`; `image_backend`
    is the library that resizes pictures.
    """

    name: str = "peeps_vlm"
    engine: str = "hf"
    id: str | None = None
    revision: str | None = None
    dtype: str | None = "float32"
    quantisation: str | None = None
    trust_remote_code: bool = False
    chat: bool | None = None
    prompt: str | None = None
    image_backend: str = "pil"
    truth: Any = None
    base_url: str | None = None
    api_key_env: str | None = None


@dataclass
class EngineConfig:
    """How it is asked on this machine; nothing here changes an answer beyond the tolerance of the dtype."""

    name: str = "hf"
    batch_size: Positive | None = None
    max_tokens: Positive | None = None
    sharing: str = "auto"
    device: str = "auto"
    device_map: Any = None
    max_memory: Any = None
    attention: str | None = None
    threads: int | None = None
    scoring: str | None = None
    concurrency: Positive | None = None
    timeout: Annotated[float, Gt(0)] | None = None
    attempts: Positive | None = None
    options: dict[str, Any] | None = None


@dataclass
class ProbeConfig:
    """What is asked: a battery (see `fp2/probes/battery.py`), and which published method reads the answers.

    `templates`, `traits` and `traits_file` make the questions of a battery of traits; `variants` shows every picture in
    several ways in one run; `options` are the protocol's own, which it checks.
    """

    name: str = "fingerprint"
    version: str = "1"
    description: str = ""
    people: int = 1
    decoding: dict[str, Any] = field(default_factory=dict)
    select: list[str] | None = None
    probes: dict[str, Any] = field(default_factory=dict)
    protocol: str = "fingerprint"
    templates: Any = None
    traits: Any = None
    traits_file: str | None = None
    variants: list[dict[str, Any]] | None = None
    options: dict[str, Any] = field(default_factory=dict)


@dataclass
class TaskConfig:
    """What the run is: `ask` puts the battery to the model; any other task works on `files` and asks nobody.

    `options` are the task's own, which it checks; `files` names tables of the user's (an empty name: none).
    """

    name: str = ASK
    options: dict[str, Any] = field(default_factory=dict)
    files: dict[str, str] = field(default_factory=dict)


@dataclass
class CutConfig:
    """How people are grouped: `by` is one intersection, `each` is several cuts in one run."""

    name: str | None = None
    by: list[str] | None = None
    each: list[str] | None = None
    groups: Any = None


@dataclass
class DataConfig:
    """Who is in the pictures."""

    name: str = "peeps"
    kind: str = "peeps"
    root: str | None = None
    path: str | None = None
    image_root: str | None = None
    columns: Any = None
    seed: NotNegative = 20260101
    n_subjects: Positive = 400
    images_per_subject: Positive = 3
    n_pairs: NotNegative = 60
    n_sets: Positive = 40
    limit: int | None = None
    offset: NotNegative = 0
    stratify: list[str] | None = None
    ids: Any = None
    attribute: str = "group"
    split: str | None = None
    form: str = "auto"
    expand_regions: bool = False
    accept_terms: bool = False


@dataclass
class VariantConfig:
    """What is shown of a picture (see `fp2/data/stimuli.py`); each kind takes its own parameters and no others.

    `size` is the side of the grey square in pixels, `seed` draws whose picture is shown, `radius` is the blur's in
    pixels, `margin` is what is left round a crop, as a share of the box's sides.
    """

    name: str = ORIGINAL
    kind: str = ORIGINAL
    size: int | None = None
    seed: int | None = None
    radius: float | None = None
    margin: float | None = None


@dataclass
class AnalysisConfig:
    """How groups are compared. `permutations: null` takes what the family's correction needs (at least 10,000)."""

    alpha: Level = 0.05
    correction: str = "holm"
    family: str = "scorer"
    primary: str = "valence"
    min_subjects: Annotated[int, Ge(2)] = 10
    permutations: int | None = None
    bootstrap: NotNegative = 2000
    severity: dict[str, float] = field(default_factory=lambda: {"low": 0.02, "moderate": 0.10, "high": 0.25})


@dataclass
class ReportConfig:
    """What is drawn and written."""

    figures: bool = True
    dashboard: bool = True
    examples_per_probe: NotNegative = 5
    suppress_below: Annotated[int, Ge(1)] = 10


@dataclass
class TrackingConfig:
    """Where runs are logged. `uri: null` is the SQLite store under `paths.mlruns`."""

    enabled: bool = True
    uri: str | None = None
    experiment: str = "fingerprint"
    sweep_id: str | None = None


@dataclass
class PathsConfig:
    """Folders, all below the project's root unless told otherwise."""

    root: str = "."
    state: str = "${paths.root}/.fp2"
    store: str = "${paths.state}/responses.sqlite"
    data: str = "${paths.state}/data"
    keys: str = "${paths.state}/keys"
    mlruns: str = "${paths.root}/mlruns"
    outputs: str = "${paths.root}/outputs"


@dataclass
class AnswersConfig:
    """When an answer fails: how often it is tried, and how many failures end the run (a share, or a count above 1)."""

    attempts: Positive = 2
    error_budget: Annotated[float, Ge(0)] = 0.05


@dataclass
class Config:
    """Everything a run is made from."""

    task: TaskConfig = field(default_factory=TaskConfig)
    engine: EngineConfig = field(default_factory=EngineConfig)
    model: ModelConfig = field(default_factory=ModelConfig)
    probe: ProbeConfig = field(default_factory=ProbeConfig)
    cut: CutConfig = field(default_factory=CutConfig)
    scorer: Any = field(default_factory=dict)
    data: DataConfig = field(default_factory=DataConfig)
    variant: VariantConfig = field(default_factory=VariantConfig)
    analysis: AnalysisConfig = field(default_factory=AnalysisConfig)
    report: ReportConfig = field(default_factory=ReportConfig)
    tracking: TrackingConfig = field(default_factory=TrackingConfig)
    paths: PathsConfig = field(default_factory=PathsConfig)
    answers: AnswersConfig = field(default_factory=AnswersConfig)
    seed: NotNegative = 20260101
    verify_inputs: bool = False
    experiment: str | None = None


for _section in (
    Config, EngineConfig, ModelConfig, ProbeConfig, CutConfig, DataConfig, VariantConfig, AnalysisConfig, ReportConfig,
    TrackingConfig, PathsConfig, AnswersConfig, TaskConfig,
):  # fmt: skip
    setattr(_section, "__pydantic_config__", {"extra": "forbid"})  # noqa: B010  (pydantic's own name for it)


def register_schema() -> None:
    """Tell Hydra the types (its config `fp2_schema`)."""
    from hydra.core.config_store import ConfigStore

    ConfigStore.instance().store(name="fp2_schema", node=Config)


def validate(cfg: Any) -> Config:
    """Turn a composed Hydra config into a checked `Config`.

    Raises
    ------
    Fp2Error
        Naming the first key whose value is out of range or does not fit the others.
    """
    from omegaconf import OmegaConf
    from omegaconf.errors import OmegaConfBaseException

    try:
        plain = OmegaConf.to_container(cfg, resolve=True, throw_on_missing=True, enum_to_str=True)
    except OmegaConfBaseException as error:
        raise Fp2Error(str(error).splitlines()[0], where="config") from error
    return from_plain(plain)


def from_plain(plain: Any) -> Config:
    """Check plain nested data (a logged `config.yaml`, say); see `validate`."""
    import pydantic

    try:
        config = pydantic.TypeAdapter(Config).validate_python(plain)
    except pydantic.ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise Fp2Error(_pydantic_line(first), where=where, fix="Mend it in the config or override") from error
    _cross_check(config)
    return config


def _pydantic_line(found: Any) -> str:
    if found["type"] in ("extra_forbidden", "unexpected_keyword_argument"):
        return "unknown key"
    given = repr(found["input"])
    return f"{found['msg']}, not {given if len(given) <= 80 else given[:77] + '...'}"


def _one_of(value: str, known: tuple[str, ...], key: str) -> None:
    if value not in known:
        raise Fp2Error(f"unknown value {value!r}", where=key, fix=nearest(value, known))


def _cross_check(c: Config) -> None:
    """Check what depends on more than one key, and choices."""
    _one_of(c.analysis.correction, CORRECTIONS, "analysis.correction")
    _one_of(c.analysis.family, FAMILIES, "analysis.family")
    _one_of(c.data.kind, DATA_KINDS, "data.kind")
    _one_of(c.probe.protocol, PROTOCOLS, "probe.protocol")
    if c.model.dtype is not None:
        _one_of(c.model.dtype, DTYPES, "model.dtype")
    if c.model.quantisation is not None:
        _one_of(c.model.quantisation, QUANTISATIONS, "model.quantisation")
    _one_of(c.model.image_backend, IMAGE_BACKENDS, "model.image_backend")
    check_prompt(c.model.prompt, c.model.chat)
    _check_severity(c.analysis.severity)
    if c.analysis.permutations is not None and c.analysis.permutations < 99:
        raise Fp2Error(
            f"{c.analysis.permutations} permutations are too few",
            where="analysis.permutations",
            fix="At least 99, or null",
        )
    if c.data.kind in ROOTED and not c.data.root:
        what = f"data={c.data.kind} needs {ROOTED[c.data.kind]}"
        raise Fp2Error(what, where="data.root", fix="Add data.root=PATH")
    _check_choice(c.data)
    _one_of(c.data.form, FHIBE_FORMS, "data.form")
    if c.data.kind == "table" and not c.data.path:
        raise Fp2Error("data=table needs the table of your pictures", where="data.path", fix="Add data.path=FILE")
    if c.data.limit is not None and c.data.limit < 1:
        raise Fp2Error(f"limit is {c.data.limit}", where="data.limit", fix="At least 1, or null for all pictures")
    if c.answers.error_budget > 1 and c.answers.error_budget != int(c.answers.error_budget):
        raise Fp2Error(
            "a budget above 1 is a count", where="answers.error_budget", fix="Give a whole number, or a share up to 1"
        )
    if c.tracking.sweep_id is not None and not SWEEP_ID.fullmatch(c.tracking.sweep_id):
        fix = "Use letters, digits, dots, dashes and underscores"
        raise Fp2Error(f"unusable sweep id {c.tracking.sweep_id!r}", where="tracking.sweep_id", fix=fix)
    check_publishable(resolve_cuts(asdict(c.cut)))
    _check_variant(c.variant)
    if variants_of(c.probe) and c.probe.protocol != "fhibe_clip":
        fix = "Leave it out, and sweep over variant="
        raise Fp2Error("only probe=fhibe_clip shows pictures in several ways at once", where="probe.variants", fix=fix)
    if variants_of(c.probe) and c.variant.kind != ORIGINAL:
        raise Fp2Error("the battery shows every picture in ways of its own", where="variant", fix="Leave it out")
    _check_probes(c)


def _check_choice(data: DataConfig) -> None:
    """Check that chosen ids are a list or a file, and that a folder's attribute can be one."""
    is_list = isinstance(data.ids, (list, tuple)) and all(isinstance(name, (str, int)) for name in data.ids)
    if data.ids is not None and not isinstance(data.ids, str) and not is_list:
        raise Fp2Error("ids is neither a list nor a file", where="data.ids", fix="Give data.ids=[ID,...] or a path")
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", data.attribute):
        fix = "Use letters, digits and _"
        raise Fp2Error(f"{data.attribute!r} cannot be an attribute's name", where="data.attribute", fix=fix)


def _check_variant(variant: VariantConfig) -> None:
    """Check that a kind of image variant has the parameters that it takes, in range, and no others."""
    _one_of(variant.kind, tuple(VARIANT_PARAMETERS), "variant.kind")
    takes = VARIANT_PARAMETERS[variant.kind]
    for name, least in (("size", 1), ("seed", 0), ("radius", None), ("margin", 0)):
        value = getattr(variant, name)
        if name not in takes and value is not None:
            fix = f"It takes {', '.join(takes)}" if takes else "It takes no parameter"
            raise Fp2Error(f"the variant '{variant.kind}' has no {name}", where=f"variant.{name}", fix=fix)
        if name in takes and value is None:
            raise Fp2Error(f"the variant '{variant.kind}' needs a {name}", where=f"variant.{name}")
        if value is not None and not (value > 0 if least is None else value >= least):
            bound = "above 0" if least is None else f"at least {least}"
            raise Fp2Error(f"{name} is {value}", where=f"variant.{name}", fix=f"It must be {bound}")


def variants_of(probe: ProbeConfig) -> tuple[VariantConfig, ...]:
    """Return the ways in which a battery shows every picture.

    Raises
    ------
    Fp2Error
        If one is not known, lacks a parameter, comes twice, or shows something else than the picture.
    """
    import pydantic

    found = []
    for spec in probe.variants or []:
        try:
            variant = pydantic.TypeAdapter(VariantConfig).validate_python({"name": spec.get("kind"), **spec})
        except pydantic.ValidationError as error:
            raise Fp2Error(_pydantic_line(error.errors()[0]), where="probe.variants") from error
        _check_variant(variant)
        found.append(variant)
    kinds = [variant.kind for variant in found]
    if len(set(kinds)) < len(kinds):
        raise Fp2Error("a variant is listed twice", where="probe.variants")
    shows_other = sorted({*kinds} & CONTROLS)
    if shows_other:
        fix = f"Run variant={shows_other[0]} by itself"
        raise Fp2Error(f"'{shows_other[0]}' does not show the person's picture", where="probe.variants", fix=fix)
    return tuple(found)


def variant_identity(variant: VariantConfig) -> dict[str, Any]:
    """Return the kind of image variant with the parameters that it takes."""
    return {"kind": variant.kind, **{name: getattr(variant, name) for name in VARIANT_PARAMETERS[variant.kind]}}


def _check_severity(bounds: Mapping[str, float]) -> None:
    if set(bounds) != {"low", "moderate", "high"} or not 0 <= bounds["low"] < bounds["moderate"] < bounds["high"]:
        raise Fp2Error(
            f"severity bounds must be 0 <= low < moderate < high, not {dict(bounds)}", where="analysis.severity"
        )


def _check_probes(c: Config) -> None:
    known_probes = c.probe.templates or c.probe.probes  # templates make a probe each, in place of the file's
    for probe in c.probe.select or []:
        if probe not in known_probes:
            raise Fp2Error(f"unknown probe {probe!r}", where="probe.select", fix=nearest(probe, known_probes))
    if not isinstance(c.scorer, Mapping):
        raise Fp2Error("scorer should be a table of names and their options", where="scorer")
    for name, spec in c.scorer.items():
        if not isinstance(spec, Mapping):
            raise Fp2Error(f"scorer {name!r} is not a mapping with a target", where="scorer")
    known = {*c.scorer, *BUILT_IN}
    if c.analysis.primary not in known:
        raise Fp2Error(
            f"unknown scorer {c.analysis.primary!r}", where="analysis.primary", fix=nearest(c.analysis.primary, known)
        )


def identity_of(config: Config) -> dict[str, Any]:
    """Return the allow-listed part of the config that decides a result, without paths and devices.

    A file of the user's own (a truth, a lexicon) is represented by the digest of its bytes. A model folder is
    represented by its name: its weights are in the response set.
    """
    model = asdict(config.model)
    for name in ("base_url", "api_key_env"):
        model.pop(name)
    if model["id"] and _is_path(model["id"]):
        model["id"] = Path(model["id"]).name
    if isinstance(model["truth"], str):
        model["truth"] = _file_digest(model["truth"], "model.truth")
    elif isinstance(model["truth"], Mapping):
        model["truth"] = _truth_identity(model["truth"])
    for name, usual in (("prompt", None), ("image_backend", "pil")):
        if model[name] == usual:
            del model[name]  # so that the hash is the one from before there was this choice
    data = asdict(config.data)
    for name in ("root", "path", "image_root", "accept_terms"):
        data.pop(name)
    if config.data.kind != "fhibe":
        for name in ("form", "expand_regions"):
            data.pop(name)
    probe = _probe_identity(config.probe)
    for name, kind in (("attribute", "folder"), ("split", "hf")):
        if config.data.kind != kind:
            data.pop(name)
    if config.data.ids is None:
        data.pop("ids")
    elif isinstance(config.data.ids, str):
        data["ids"] = _file_digest(config.data.ids, "data.ids")
    if config.data.kind not in ("peeps", "peeps_twins"):
        for name in ("n_subjects", "images_per_subject", "n_pairs", "n_sets"):
            data.pop(name)
    cuts = resolve_cuts(asdict(config.cut))
    # A run on the pictures as they are has the hash that it had before there were variants.
    changed = {} if config.variant.kind == ORIGINAL else {"variant": variant_identity(config.variant)}
    return {
        "model": model,
        "probe": probe,
        **_task_identity(config.task),
        "cut": [[list(cut.by), [[name, list(kept)] for name, kept in cut.groups]] for cut in cuts],
        "scorer": {name: _scorer_identity(name, spec) for name, spec in config.scorer.items()},
        "data": data,
        **changed,
        "analysis": asdict(config.analysis),
        "seed": config.seed,
    }


def _truth_identity(truth: Mapping[str, Any]) -> dict[str, Any]:
    """Return a truth that is written out, with the digest of the list of words in place of its path."""
    yes_no = truth.get("yes_no")
    listed = yes_no.get("valences") if isinstance(yes_no, Mapping) else None
    if not isinstance(yes_no, Mapping) or not isinstance(listed, str):
        return dict(truth)
    return {**truth, "yes_no": {**yes_no, "valences": _file_digest(listed, "model.truth.yes_no.valences")}}


def _probe_identity(probe: ProbeConfig) -> dict[str, Any]:
    """Return the battery; what came after the first batteries stays out at its default, so that hashes stay."""
    own, usual = asdict(probe), asdict(ProbeConfig())
    for name in ("people", "protocol", "templates", "traits", "traits_file", "variants", "options"):
        if own[name] == usual[name]:
            del own[name]
    if "traits_file" in own:
        own["traits_file"] = _file_digest(str(traits_path(own["traits_file"])), "probe.traits_file")
    elif is_trait_battery(own) and "traits" not in own:
        own["traits"] = f"sha256:{own_traits().sha256}"
    return own


def _task_identity(task: TaskConfig) -> dict[str, Any]:
    if task.name == ASK:
        return {}
    files = {name: _file_digest(path, f"task.files.{name}") for name, path in task.files.items() if path}
    return {"task": {"name": task.name, "options": task.options, "files": files}}


def _scorer_identity(name: str, spec: Mapping[str, Any]) -> dict[str, Any]:
    own = {str(key): value for key, value in spec.items()}
    for key in own:
        if isinstance(own[key], str) and own[key].endswith((".yaml", ".yml")):
            own[key] = _file_digest(own[key], f"scorer.{name}.{key}")
    return own


def _file_digest(path: str, where: str) -> str:
    try:
        return f"sha256:{sha256_file(Path(path).expanduser())}"
    except OSError as error:
        raise Fp2Error(f"{path} cannot be read: {error.strerror}", where=where) from error


def _is_path(model_id: str) -> bool:
    if model_id.startswith("pkg://"):
        return False
    return model_id.startswith((".", "/", "~")) or Path(model_id).expanduser().exists()


def config_hash(config: Config) -> str:
    """Return the hex SHA-256 of the config's identity: the same on another machine, folder, device or key order."""
    return digest({"schema": CONFIG_SCHEMA, "config": _one_number(identity_of(config))})


def _one_number(value: Any) -> Any:
    """Write whole floats as integers all the way down: YAML's `1` and `1.0` are one number."""
    if isinstance(value, Mapping):
        return {str(key): _one_number(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_one_number(item) for item in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value
