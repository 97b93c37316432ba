"""The interfaces of a protocol: a method that turns answers of a model, or the user's files, into results.

    Analyses    every protocol: what it checks, and tables -> results
    Asks        a protocol that asks a model: its questions, what is shown, whose scores they are
    Collects    a task, which asks no model and brings tables of its own

A third party derives from `Asks` or `Collects`, and names the class by an entry point of the group `fp2.protocols` or
by `package.module:Name` in `probe.protocol` or `task.name` (`docs/extending.md`). The pipeline (`fp2.run`) knows these
interfaces and no protocol; a protocol imports nothing of the pipeline.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal, Self, TypeAlias, TypeVar

from fp2.errors import Fp2Error
from fp2.plugins import STOPPING, load, read_options
from fp2.progress import Progress

if TYPE_CHECKING:
    from pathlib import Path

    import pandas as pd

    from fp2.ask.answers import RunTables
    from fp2.config import Config, VariantConfig
    from fp2.cuts import Cut
    from fp2.data.base import Dataset
    from fp2.data.pixels import PixelDigest
    from fp2.data.stimuli import Stimulus
    from fp2.engines.base import Engine
    from fp2.probes.battery import Battery
    from fp2.results import Analysis, Block, Method, Probe, ScorerFacts
    from fp2.scorers.base import Scorer
    from fp2.store.rows import ResponseStore

OptionsT = TypeVar("OptionsT")
Show = Callable[["pd.DataFrame", "VariantConfig"], "list[Stimulus]"]
"""Returns what is shown for each row of a people table in one image variant."""


@dataclass(frozen=True)
class Job:
    """What a run is about, as far as its analysis needs it.

    Attributes
    ----------
    config : Config
    cuts : tuple of Cut
    battery : Battery or None
        None of a task, and of a logged run whose answers are not scored.
    scorers : mapping
    facts : mapping
        What `analyse` needs besides the tables: of `Collected` on a first run, of `Analyses.recall` on a later one.
    progress : Progress
        Where `analyse` shows its steps.
    """

    config: Config
    cuts: tuple[Cut, ...]
    battery: Battery | None = None
    scorers: Mapping[str, Scorer] = field(default_factory=dict)
    facts: Block = field(default_factory=dict)
    progress: Progress = field(default_factory=lambda: Progress(quiet=True))


@dataclass(frozen=True, kw_only=True)
class Inputs(Job):
    """What is known before anything is asked.

    Attributes
    ----------
    dataset : Dataset
        The sampled data set.
    store : ResponseStore
        Open; protocols may keep what they compute from images in its database, in tables with a column `path` (the
        absolute path of the image file), whose rows `fp2 purge` deletes.
    dataset_digest : str
    pixels : mapping
        The digest of every image that is opened, by path.
    engine : Engine or None
        None of a task.
    notes : sequence of str
        What a reader has to know before anything is asked.
    """

    dataset: Dataset
    store: ResponseStore
    dataset_digest: str
    pixels: Mapping[Path, PixelDigest] = field(default_factory=dict)
    engine: Engine | None = None
    notes: Sequence[str] = ()

    @property
    def people(self) -> pd.DataFrame:
        """The people table."""
        return self.dataset.people


@dataclass(frozen=True)
class Collected:
    """The tables of a task, which asks no model, and their provenance.

    Attributes
    ----------
    tables : RunTables
        People (with the columns that the analysis adds), no answers, scores.
    model : mapping
        The model whose outputs were scored: at least `name`; `embedded` where effects were planted.
    probes, scorers : sequence of mappings
        Outcomes and metrics, in the place of probes and scorers in reports.
    attributes : collection of str
        Attributes of the people that the tables keep, besides those of the cuts.
    facts : mapping
        What `analyse` needs besides the tables.
    notes : sequence of str
        Limitations for the reader.
    response_set : str, optional
        The digest of what was analysed; None where that is a table of scores, whose digest is taken.
    """

    tables: RunTables
    model: Block
    probes: Sequence[Probe] = ()
    scorers: Sequence[ScorerFacts] = ()
    attributes: Collection[str] = ()
    facts: Block = field(default_factory=dict)
    notes: Sequence[str] = ()
    response_set: str | None = None


FIRST_STEP = ("bonferroni", "holm", "bh", "by", "step-down max-T")
"""Corrections whose smallest p-value is compared with alpha / family, or a little more."""


@dataclass(frozen=True)
class PlannedFamily:
    """How the tests of a run that is planned are corrected, for `fp2 plan --power`.

    Attributes
    ----------
    alpha : float
    size : int
        The number of tests of the primary scorer's share of alpha, as if alpha were divided evenly.
    correction : str
    smallest_effect : float
        The smallest effect of interest of the primary scorer.
    scorer : str
        The primary scorer.
    least : int
        The fewest subjects of a group that is compared.
    width : float
        Of the range of the primary scorer's values.
    """

    alpha: float
    size: int
    correction: str
    smallest_effect: float
    scorer: str
    least: int
    width: float = 1.0

    @property
    def level(self) -> float:
        """Level of the smallest p-value of the family."""
        return self.alpha / self.size if self.correction in FIRST_STEP else self.alpha


@dataclass(frozen=True)
class Requirements:
    """What a protocol needs and takes; checked by `fp2.protocols.requirements`.

    Attributes
    ----------
    scoring : {"required", "optional", "none"}
        Whether answers are scored by the config group `scorer`.
    dense : bool
        Whether answers are stored as arrays (yes/no questions about traits), instead of a row per answer.
    opens_images : bool
        Whether images are opened; otherwise they need not be there.
    n_people : int
        The number of people that an image of its battery shows.
    within_sets : bool
        Whether counterfactual sets are compared within the set, instead of groups of a population.
    special_case_of : str
        The name of the protocol in whose place it is used where `n_people` or `within_sets` fit the battery or the
        people, and that protocol's do not; empty where it is used by its own name only.
    several_variants : bool
        Whether the battery may show every image in several variants.
    copies : int
        How often it shows every image, where the battery has no variants.
    takes_analysis : collection of str
        The options of the config group `analysis` that it takes, of those that not every protocol does
        (`fp2.config.ANALYSIS_OPTIONS`).
    takes_samples : bool
        Whether several answers to one question are averaged (`probe.decoding.samples`).
    takes_stop : bool
        Whether it takes the installed rules by which a run asks no further (`answers.stop`).
    stops : mapping
        Such rules that are its own: name -> import path of the class.
    tables : mapping
        Tables of the response store that it keeps what it computes from images in -> what their rows are, as
        `fp2 purge` reports them; each has a column `path` (`Inputs.store`).
    """

    scoring: Literal["required", "optional", "none"] = "required"
    dense: bool = False
    opens_images: bool = True
    n_people: int = 1
    within_sets: bool = False
    special_case_of: str = ""
    several_variants: bool = False
    copies: int = 1
    takes_analysis: Collection[str] = ()
    takes_samples: bool = False
    takes_stop: bool = False
    stops: Mapping[str, str] = field(default_factory=dict)
    tables: Mapping[str, str] = field(default_factory=dict)

    def stopping_rule(self, name: str) -> Any:
        """Return the class of a rule by which a run asks no further (`answers.stop`); raise if it takes none such."""
        if not self.takes_stop and name not in self.stops:
            fix = "Omit it, or use probe=fingerprint"
            raise Fp2Error(f"the protocol does not take {name}", where="answers.stop", fix=fix)
        return load(STOPPING, self.stops.get(name, name), "answers.stop")


@dataclass(frozen=True)
class Statements:
    """What results, reports and the signed passport say of every run of a protocol.

    Attributes
    ----------
    title : str
        What the report is called, before "of MODEL"; empty where a section says so.
    sections : tuple of str
        Import paths of its report sections (`fp2.report.section.Section`).
    methods : tuple of Method
        Methods whose numbers can differ between versions of fp2, with the places of results that each owns.
    tests : mapping
        Number -> how it is computed (`statistics.tests`); empty where nothing is tested.
    limitations : tuple of str
        What a reader of every run has to know.
    """

    title: str = ""
    sections: tuple[str, ...] = ()
    methods: tuple[Method, ...] = ()
    tests: Mapping[str, str] = field(default_factory=dict)
    limitations: tuple[str, ...] = ()


class Analyses(Generic[OptionsT]):
    """What every protocol has: data about it, its checks, and the way from tables to results.

    Attributes
    ----------
    name : str
        Its name in the config.
    Options : type
        A dataclass or pydantic model of its options: `probe.options`, or `task.options` of a task.
    requires : Requirements
    states : Statements
    """

    name: ClassVar[str]
    Options: ClassVar[type[Any]]
    requires: ClassVar[Requirements] = Requirements()
    states: ClassVar[Statements] = Statements()
    _section = "probe"

    def __init__(self, options: OptionsT) -> None:
        self.options = options

    @classmethod
    def from_config(cls, config: Config) -> Self:
        """Return the protocol with its options read from the config.

        Raises
        ------
        Fp2Error
            For an option that is unknown or out of range.
        """
        return cls(read_options(cls.Options, getattr(config, cls._section).options, f"{cls._section}.options"))

    def check(self, inputs: Inputs) -> Sequence[str]:
        """Return what a reader has to know before anything is asked or computed.

        Parameters
        ----------
        inputs : Inputs
            Those of a run that is planned before its data are made have no engine.

        Returns
        -------
        sequence of str
            A line each.

        Raises
        ------
        Fp2Error
            For every mistake that can be found by then.
        """
        return ()

    def analyse(self, tables: RunTables, job: Job) -> Analysis:
        """Return the analysis of the tables, on a first run and of logged tables alike.

        Parameters
        ----------
        tables : RunTables
            People, answers and scores; ids may be salted keys.
        job : Job
            Config, cuts, battery, scorers, facts, and where steps are shown.

        Returns
        -------
        Analysis
            Blocks of `results.json`, disparities, limitations.

        Notes
        -----
        The order of ids decides which subjects a permutation moves: p-values of the same tables under other ids differ
        within their Monte-Carlo error, effect sizes do not.
        """
        raise NotImplementedError

    def recall(self, results: Block) -> Block:
        """Return the `facts` of a logged run.

        Parameters
        ----------
        results : mapping
            The content of `results.json`.

        Returns
        -------
        mapping
        """
        return {}

    def section_targets(self, results: Block | None = None) -> tuple[str, ...]:
        """Return the import paths of the report sections; with `results`, of those that may have something to show."""
        return self.states.sections

    def all_methods(self) -> tuple[Method, ...]:
        """Return the methods behind the numbers of this run; a later run compares the versions."""
        return self.states.methods


class Asks(Analyses[OptionsT]):
    """A protocol that asks a model the questions of a battery."""

    _section = "probe"

    def check_battery(self, battery: Battery, config: Config) -> None:
        """Raise for a battery, or settings, that do not fit, before any data are loaded; also of a logged run.

        Parameters
        ----------
        battery : Battery
        config : Config

        Raises
        ------
        Fp2Error
            For the first mistake, of those that do not follow from `requires`.
        """

    def attributes(self, config: Config) -> set[str]:
        """Return the attributes of the people, besides those of the cuts and covariates, that the run's tables keep."""
        return set()

    def stimuli(self, inputs: Inputs, show: Show) -> Iterator[tuple[pd.DataFrame, str, list[Stimulus]]]:
        """Yield what is shown, for every variant in which images are shown.

        Parameters
        ----------
        inputs : Inputs
        show : callable
            Returns what is shown for each row of a people table in one image variant.

        Yields
        ------
        people : DataFrame
        variant : str
        shown : list of Stimulus
            One for each row.
        """
        variant = inputs.config.variant
        yield inputs.people, variant.kind, show(inputs.people, variant)

    def assign_scores(self, scores: pd.DataFrame, people: pd.DataFrame, scorers: Mapping[str, Scorer]) -> pd.DataFrame:
        """Return the table of scores of answers as scores of people: unchanged where an answer is about one person.

        Parameters
        ----------
        scores, people : DataFrame
        scorers : mapping
            Key in the config -> scorer.

        Returns
        -------
        DataFrame
        """
        return scores

    def n_resamples(self, job: Job) -> tuple[int | None, int | None]:
        """Return the numbers of permutations and bootstrap resamples of the analysis; None where unknown."""
        return None, None

    def planned_family(self, job: Job) -> PlannedFamily | None:
        """Return the family of a run that is planned; None where no scores of groups are compared.

        Raises
        ------
        Fp2Error
            If the run lacks the primary scorer.
        """
        return None

    def later_block(self, name: str, tables: RunTables, job: Job, disparities: Sequence[Block]) -> Block | None:
        """Return a further block of a logged run, whose rows are `disparities`; None where it does not apply.

        Raises
        ------
        Fp2Error
            If the tables lack what it needs.
        """
        return None


class Collects(Analyses[OptionsT]):
    """A task: it asks no model, and collects tables of its own."""

    requires = Requirements(scoring="none")
    _section = "task"

    def sweep(self, config: Config) -> tuple[str, Sequence[str]] | None:
        """Return a setting and its values where one command makes a run for each of them; by default it makes one run.

        Called on the command line only, before anything is loaded.
        """
        return None

    def collect(self, inputs: Inputs) -> Collected:
        """Return the tables of the task.

        Parameters
        ----------
        inputs : Inputs

        Returns
        -------
        Collected
        """
        raise NotImplementedError


Protocol: TypeAlias = Asks[Any] | Collects[Any]
