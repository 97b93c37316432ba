"""The interface of a data set: its options, how it is loaded, and its people table; the data set that a config names.

A data set is a class with `Options`, a dataclass that derives from `DataOptions`, and `load`. It is found by the name
of an entry point of the group `fp2.data`, or by its import path. Markers on the fields of `Options` say what a field
is:

    @dataclass(frozen=True, kw_only=True)
    class FacesOptions(DataOptions):
        root: Annotated[Path, Local(), Required("the folder of the images")]
        crop: bool = False

    class Faces(DataSource[FacesOptions]):
        Options = FacesOptions

        def load(self, context): ...

A field without a marker decides the results, so that it enters the config hash.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Generic, Literal, TypeVar, get_type_hints
from urllib.parse import urlsplit

from annotated_types import Ge

from fp2.data.minors import is_minor, may_be_minor, states_age, states_birth, states_picture_year
from fp2.errors import Fp2Error
from fp2.hashing import sha256_file
from fp2.plugins import DATA, as_user_error, check_members, load, own_options, read_installed, read_options
from fp2.tables import ATTRIBUTE_PREFIX, PEOPLE, PRIVATE_PREFIX, row_model
from fp2.text import in_number, normal_id

if TYPE_CHECKING:
    import pandas as pd

    from fp2.config import Config
    from fp2.progress import Progress

MEMBERS = ("Options", "load", "has_withdrawals", "lists_everyone", "recognises")
ATTRIBUTE_NAME = re.compile(r"[^\W\d_]\w*")
"""Letters of any language, digits and _."""
_DTYPES = {"string": "str", "bool": "bool", "int64": "int64", "float64": "float64"}


@dataclass(frozen=True)
class Local:
    """Marks what holds for this machine or this user only, such as a folder: it is never hashed."""


@dataclass(frozen=True)
class Content:
    """Marks a file that is hashed by its content, where the value is a path (text); other values are hashed as given.

    `digest` returns the digest (hex) of what is read from the path; by default it is that of the file's bytes.
    """

    digest: Callable[[str], str] | None = None

    def of(self, path: str, where: str) -> str:
        """Return `sha256:` and the digest, which stands for the path in a hash."""
        return f"sha256:{self.digest(path)}" if self.digest else file_digest(path, where)


@dataclass(frozen=True)
class OmitDefault:
    """Marks an option that is hashed only where it is given, so that configs from before it existed keep their hash."""


@dataclass(frozen=True)
class Required:
    """Marks what has to be given; `what` names it, and `example` is a value as it is written on the command line."""

    what: str
    example: str = "PATH"

    @property
    def is_folder(self) -> bool:
        """Whether it is a folder of the user's."""
        return self.example == "PATH"


@dataclass(frozen=True, kw_only=True)
class DataOptions:
    """The options that every data set has.

    Attributes
    ----------
    name : str
        In tables and reports.
    kind, target : str, optional
        The entry point of the group `fp2.data`, or the import path `package.module:Name` of the class.
    seed : int
        Draws the sample.
    limit, offset : int
        At most `limit` images, after the first `offset` of the sample's order.
    sample : str
        What is drawn: whole `subjects`, or `images`, a simple random sample of them.
    stratify : list of str, optional
        Attributes whose groups get equal shares of the sample.
    ids : list or str, optional
        Exactly these images: their ids, or the path of a text file with one id per line.
    """

    name: str
    kind: str | None = None
    target: Annotated[str | None, OmitDefault()] = None
    seed: Annotated[int, Ge(0)] = 20260101
    limit: Annotated[int, Ge(1)] | None = None
    offset: Annotated[int, Ge(0)] = 0
    sample: Annotated[Literal["subjects", "images"], OmitDefault()] = "subjects"
    stratify: list[str] | None = None
    ids: Annotated[Any, Content(), OmitDefault()] = None

    __pydantic_config__: ClassVar[Mapping[str, str]] = {"extra": "forbid"}

    def __post_init__(self) -> None:
        """Raise Fp2Error unless `ids` is a list of ids or a path, and a random sample of images is only that."""
        if self.sample == "images" and (self.stratify or self.offset):
            fix = "Leave out data.stratify and data.offset, or set data.sample=subjects"
            raise Fp2Error("a simple random sample has no strata and no offset", where="data.sample", fix=fix)
        is_list = isinstance(self.ids, list | tuple) and all(isinstance(name, str | int) for name in self.ids)
        if self.ids is not None and not isinstance(self.ids, str) and not is_list:
            fix = "Give data.ids=[ID,...] or a path"
            raise Fp2Error("ids is neither a list nor the path of a file", where="data.ids", fix=fix)

    @property
    def source(self) -> str:
        """The name that the origins of stored answers are recorded under: the import path, or else the kind."""
        return source_name({"target": self.target, "kind": self.kind})


@dataclass(frozen=True)
class LoadContext:
    """What loading a data set needs besides its options.

    Attributes
    ----------
    state : Path
        Folder of this machine's records, such as which terms of use were accepted.
    cache : Path
        Folder for files that the data set writes.
    progress : Progress
        Bars and notes on standard error.
    remote : str, optional
        Address of the server on another machine that images will be sent to.
    images_needed : bool
        False where the answers exist already, so that the image files may be missing.
    """

    state: Path
    cache: Path
    progress: Progress
    remote: str | None = None
    images_needed: bool = True


@dataclass(frozen=True)
class ImageFile:
    """One image file: its annotation, and its (width, height) in pixels where the data set states it."""

    image_id: str
    path: Path
    annotation: Path | None = None
    size: tuple[int, int] | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "image_id", normal_id(self.image_id))


@dataclass(frozen=True)
class Dataset:
    """A data set that was loaded.

    Attributes
    ----------
    name : str
        In results and reports.
    release : str, optional
        The data set's own version.
    people : DataFrame
        `fp2.tables.PEOPLE` with one `attr_<name>` column per attribute, each cell a list of labels (empty where there
        is no value). Columns `private_<name>` (`fp2.tables.PRIVATE_PREFIX`) never leave the data folder.
    notes : tuple of str
        One line each: what was unusual, left out or assumed. They are limitations of the results.
    settings : mapping
        How the data were read, where that can be chosen: JSON values, no paths. They are part of the results.
    schema_lines : tuple of str
        Those of the notes that say how the files differ from their known format; reported when the data are loaded.
    files : tuple of ImageFile
        Every image file, where the data set states more of it than the people table does.
    terms : str, optional
        The licence or terms of use, in one line.
    caution : str, optional
        What has to be known before any number is read: it stands at the top of reports.
    scales : mapping
        Attribute -> the name of the scale of its values (`skin_tone`: `Fitzpatrick`).
    """

    name: str
    release: str | None
    people: pd.DataFrame
    notes: tuple[str, ...] = ()
    settings: Mapping[str, object] = field(default_factory=dict)
    schema_lines: tuple[str, ...] = ()
    files: tuple[ImageFile, ...] = ()
    terms: str | None = None
    caution: str | None = None
    scales: Mapping[str, str] = field(default_factory=dict)

    def image_files(self) -> tuple[ImageFile, ...]:
        """Return `files`, or else those of the people table, without annotations and sizes."""
        first = self.people.drop_duplicates("image_id")
        return self.files or tuple(
            ImageFile(image_id, Path(path))
            for image_id, path in zip(first["image_id"], first["image_path"], strict=True)
        )


OptionsT = TypeVar("OptionsT", bound=DataOptions)
Marker = TypeVar("Marker")


class DataSource(ABC, Generic[OptionsT]):
    """A data set that can be loaded; see the module's text.

    Attributes
    ----------
    Options : type
        The class of its options.
    has_withdrawals : bool
        Whether subjects can be withdrawn from later releases, so that what was derived from them has to be deleted
        (`fp2 purge --absent`).
    may_be_shown : bool
        Whether pages may show its images: of drawings, never of people.
    """

    Options: ClassVar[type[DataOptions]] = DataOptions
    has_withdrawals: ClassVar[bool] = False
    may_be_shown: ClassVar[bool] = False

    def __init__(self, options: OptionsT) -> None:
        self.options = options

    @classmethod
    def recognises(cls, dataset: Mapping[str, object]) -> bool:
        """Return whether results are of this data set under another name, where their run's config cannot be read.

        Parameters
        ----------
        dataset : mapping
            The block `dataset` of `results.json`.
        """
        return False

    @classmethod
    def check_installation(cls) -> tuple[bool, str] | None:
        """Return whether what the data set needs here works, and a line that says so; None where it needs nothing."""
        return None

    @property
    def lists_everyone(self) -> bool:
        """Whether every subject and image of the release is in the people table that these options give."""
        return True

    def attributes(self) -> Collection[str] | None:
        """Return the attributes that people have values of, as far as that is known before loading; None otherwise.

        Suggestions for a misspelt cut name these only.
        """
        return None

    def preview(self, cache: Path) -> Dataset | None:
        """Return what `load` will return, except for the images, where it has to make them first; None otherwise.

        A run is checked on it before the images are made, and `fp2 plan` counts it. Paths may be empty, and boxes
        approximate.

        Parameters
        ----------
        cache : Path
            The folder for files that the data set writes.

        Returns
        -------
        Dataset or None
        """
        return None

    @abstractmethod
    def load(self, context: LoadContext) -> Dataset:
        """Return the whole data set, before anything is left out or sampled.

        Parameters
        ----------
        context : LoadContext
            Folders for records and for files that are written, and progress.

        Returns
        -------
        Dataset
            Its people table has a row for each person in an image (`people_table`).

        Raises
        ------
        Fp2Error
            If the data cannot be read.
        """


def source_name(group: Mapping[str, object]) -> str:
    """Return the import path or else the kind that the config group `data` names its class by; empty without one."""
    return str(group.get("target") or group.get("kind") or "")


def source_class(group: Mapping[str, object]) -> type[DataSource[DataOptions]]:
    """Return the class that `target` or else `kind` of the config group `data` names."""
    key = "target" if group.get("target") else "kind"
    source: type[DataSource[DataOptions]] = load(DATA, source_name(group), f"data.{key}")
    if not isinstance(source, type):
        raise Fp2Error(f"{source_name(group)} is not a data set", where=f"data.{key}", fix="Derive it from DataSource")
    check_members(source, MEMBERS, "a data set", f"data.{key}")
    if abstract := getattr(source, "__abstractmethods__", ()):
        raise Fp2Error(f"{source!r} is not a data set: it lacks {', '.join(abstract)}", where=f"data.{key}")
    return source


def data_source(group: Mapping[str, object]) -> DataSource[DataOptions]:
    """Return the data set that `group` (the config group `data`) describes, with its options checked."""
    source = source_class(group)
    for name, marker in required(group).items():
        if group.get(name) is None:
            message = f"data={group.get('name', group.get('kind'))} needs {marker.what}"
            raise Fp2Error(message, where=f"data.{name}", fix=f"Add data.{name}={marker.example}")
    return source(read_options(source.Options, own_options(source.Options, group, _installed_options), "data"))


def _installed_options() -> list[type[DataOptions]]:
    return list(read_installed(DATA, lambda kind: source_class({"kind": kind}).Options).values())


def required(group: Mapping[str, object]) -> dict[str, Required]:
    """Return the options that have to be given to the data set that `group` names, each with what it is."""
    return dict(marked(source_class(group).Options, Required))


def local_options(group: Mapping[str, object]) -> list[str]:
    """Return the options of the data set that `group` names that hold for one machine only (`Local`)."""
    return [name for name, _ in marked(source_class(group).Options, Local)]


def folder_option(options: type[DataOptions]) -> str | None:
    """Return the option that names the folder of a release (the first `Required` folder); None where there is none."""
    return next((name for name, marker in marked(options, Required) if marker.is_folder), None)


def with_releases() -> list[str]:
    """Return the installed kinds of data sets that have releases which people are withdrawn from."""
    having = read_installed(DATA, lambda kind: source_class({"kind": kind}).has_withdrawals)
    return sorted(kind for kind in having if having[kind])


def identity(options: DataOptions) -> dict[str, Any]:
    """Return what of a data set's options enters the config hash: what decides a result, without paths."""
    skipped = {name for name, _ in marked(type(options), Local)}
    usual = {option.name: option.default for option in fields(options)}
    skipped |= {name for name, _ in marked(type(options), OmitDefault) if getattr(options, name) == usual[name]}
    hashed = {"columns": None, **{name: value for name, value in asdict(options).items() if name not in skipped}}
    for name, marker in marked(type(options), Content):
        if isinstance(hashed.get(name), str):
            hashed[name] = marker.of(hashed[name], f"data.{name}")
    return hashed


def marked(options: type[Any], marker: type[Marker]) -> Iterator[tuple[str, Marker]]:
    """Yield the fields of a dataclass that carry a marker, each with it."""
    hints = get_type_hints(options, include_extras=True)
    for option in fields(options):
        for metadata in getattr(hints[option.name], "__metadata__", ()):
            if isinstance(metadata, marker):
                yield option.name, metadata


def file_digest(path: str, where: str) -> str:
    """Return `sha256:` and the digest of a file's bytes, which stands for its path in a hash."""
    try:
        return f"sha256:{sha256_file(Path(path).expanduser())}"
    except OSError as error:
        raise Fp2Error(f"{path} cannot be read: {error.strerror}", where=where) from error


def people_table(columns: dict[str, list[object]]) -> pd.DataFrame:
    """Return `columns` as a people table: the schema's columns first, in its order and types, then the attributes.

    Columns of the schema that may be absent (`set_id`, the box) are filled with missing values. Ids are in the form of
    `normal_id`, whatever reader they are from.

    Raises
    ------
    Fp2Error
        If two images have one id, or a value is not of its column's type.
    """
    import pandas as pd

    n_rows, missing = len(columns["image_id"]), float("nan")
    optional: dict[str, object] = {"set_id": None, **dict.fromkeys(("box_x", "box_y", "box_w", "box_h"), missing)}
    filled = {**{name: [value] * n_rows for name, value in optional.items()}, **columns}
    attributes = [name for name in filled if name not in PEOPLE.names]
    frame = PEOPLE.check(pd.DataFrame({name: pd.Series(values, dtype="object") for name, values in filled.items()}))
    for name in ("image_id", "subject_id", "set_id"):
        frame[name] = frame[name].map(normal_id, na_action="ignore")
    try:
        frame = frame.astype({column.name: _DTYPES[column.type] for column in PEOPLE.columns})
    except (TypeError, ValueError) as error:
        raise _wrong_value(frame, str(error)) from error
    images = frame[["image_id", "image_path"]].drop_duplicates()
    if (is_repeated := images["image_id"].duplicated()).any():
        problem = f"two images have one id, {images.loc[is_repeated, 'image_id'].iloc[0]!a}"
        raise Fp2Error(problem, where="data", fix="Rename one: spellings of one name (Unicode NFC and NFD) are one id")
    return frame[[*PEOPLE.names, *attributes]]


def _wrong_value(people: pd.DataFrame, otherwise: str) -> Fp2Error:
    """Return the error of the first value that the Pydantic model of a row refuses."""
    import pydantic

    try:
        rows: Any = list[row_model(PEOPLE)]  # type: ignore[misc]  # made at run time
        pydantic.TypeAdapter(rows).validate_python(people.to_dict("records"))
    except pydantic.ValidationError as error:
        return as_user_error(error, "people")
    return Fp2Error(otherwise, where="people")


def load_configured(config: Config, progress: Progress, *, images_needed: bool = True) -> Dataset:
    """Return the data set of `config.data` without minors, before anything else is left out or sampled."""
    urls = config.model.base_url or []
    remote = next((url for url in ([urls] if isinstance(urls, str) else urls) if not _is_local(str(url))), None)
    context = LoadContext(Path(config.paths.state), Path(config.paths.data), progress, remote, images_needed)
    loaded = configured_source(config).load(context)
    dataset = without_minors(loaded)
    for note in dataset.notes[len(loaded.notes) :]:
        progress.note(note)
    for schema_line in dataset.schema_lines:
        progress.note(f"{dataset.release or 'release'}: {schema_line}")
    return dataset


def without_minors(dataset: Dataset) -> Dataset:
    """Return the data set without the images that show a minor, and a note of how many these are.

    Raises
    ------
    Fp2Error
        If no image is left.
    """
    people = dataset.people
    columns = [name for name in people.columns if name.startswith((ATTRIBUTE_PREFIX, PRIVATE_PREFIX))]
    ages, births = ([name for name in columns if states(name)] for states in (states_age, states_birth))
    picture_years = people[[name for name in columns if states_picture_year(name)]].to_numpy().tolist()
    minors = {
        image
        for name in (*ages, *births)
        for image, labels, years in zip(people["image_id"], people[name], picture_years, strict=True)
        if (any(map(is_minor, labels)) if name in ages else may_be_minor(labels, chain.from_iterable(years)))
    }
    if not minors:
        return dataset
    adults = people[~people["image_id"].isin(minors)].reset_index(drop=True)
    if adults.empty:
        problem = f"all {len(minors)} images show people who are, or may be, below 18"
        fix = "These comparisons are about adults; if the numbers are codes, replace them by ages"
        raise Fp2Error(problem, where=f"data, {', '.join((*ages, *births))}", fix=fix)
    note = in_number(
        len(minors), f"{len(minors)} [image|images] of people who are, or may be, below 18 [was|were] left out"
    )
    files = tuple(file for file in dataset.files if file.image_id not in minors)
    return replace(dataset, people=adults, files=files, notes=(*dataset.notes, note))


def configured_source(config: Config) -> DataSource[DataOptions]:
    """Return the data set of `config.data`, whose options are checked."""
    return source_class(asdict(config.data))(config.data)


def _is_local(base_url: str) -> bool:
    host = urlsplit(base_url).hostname or ""
    return host in ("localhost", "::1") or host.startswith("127.")
