"""The interface of a protocol: a method that turns answers of a model, or the user's files, into results.

The pipeline (`fp2.run`) knows this interface and no protocol. It loads what the protocol needs, asks the model or lets
the protocol collect its own tables, and passes the tables to `analyse`: on a first run, and whenever they are read from
a logged run (purge, rescoring). A protocol imports nothing of the pipeline.

A third party derives from `EvaluationProtocol`, and names the class by an entry point of the group `fp2.protocols` or
by `package.module:Name` in `probe.protocol` or `task.name` (`docs/extending.md`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal, TypeVar

from fp2.config import ANALYSIS_OPTIONS
from fp2.errors import Fp2Error
from fp2.notes import Stage, as_notes
from fp2.plugins import PROTOCOLS, SCORERS, load, names_with, read_options
from fp2.tables import ORIGINAL

if TYPE_CHECKING:
    import pandas as pd

    from fp2.ask.answers import Answers, RunTables
    from fp2.ask.loop import Storage
    from fp2.ask.plan import Plan
    from fp2.config import Config, VariantConfig
    from fp2.cuts import Cut
    from fp2.data.base import Dataset
    from fp2.data.stimuli import Stimulus
    from fp2.engines.base import Engine
    from fp2.probes.battery import Battery
    from fp2.progress import Progress
    from fp2.results import Analysis, Method
    from fp2.scorers.base import Scorer
    from fp2.store.rows import ResponseStore

Given = TypeVar("Given")
Show = Callable[["pd.DataFrame", "VariantConfig"], "list[Stimulus]"]
"""Returns what is shown for each row of a people table in one image variant."""


@dataclass(frozen=True)
class Inputs:
    """What is known before anything is asked.

    Attributes
    ----------
    config : Config
    dataset : Dataset
        The sampled data set.
    cuts : tuple of Cut
    store : ResponseStore
        Open; protocols may keep what they compute from images in its database, in tables with a column `path` (the
        absolute path of the image file), whose rows `fp2 purge` deletes.
    progress : Progress
    dataset_digest : str
    battery, scorers, engine
        Of a protocol that asks a model; None, {} and None of a task.
    """

    config: Config
    dataset: Dataset
    cuts: tuple[Cut, ...]
    store: ResponseStore
    progress: Progress
    dataset_digest: str
    battery: Battery | None = None
    scorers: Mapping[str, Scorer] = field(default_factory=dict)
    engine: Engine | None = None

    @property
    def people(self) -> pd.DataFrame:
        """The people table."""
        return self.dataset.people


@dataclass(frozen=True)
class Job:
    """How the tables of a run are analysed.

    Attributes
    ----------
    config : Config
    cuts : tuple of Cut
    battery : Battery or None
        None of a task, and of a logged run whose answers are not scored: what `analyse` needs of it is in `facts`.
    scorers : mapping
    facts : mapping
        What `analyse` needs besides the tables: of `EvaluationProtocol.facts` or `Collected` on a first run, of
        `EvaluationProtocol.recall` on a later one.
    tick : callable
        Called after each step of the analysis.
    """

    config: Config
    cuts: tuple[Cut, ...]
    battery: Battery | None = None
    scorers: Mapping[str, Scorer] = field(default_factory=dict)
    facts: Mapping[str, Any] = field(default_factory=dict)
    tick: Callable[[], None] = lambda: None


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
    model: Mapping[str, Any]
    probes: Sequence[Mapping[str, Any]] = ()
    scorers: Sequence[Mapping[str, Any]] = ()
    attributes: Sequence[str] = ()
    facts: Mapping[str, Any] = field(default_factory=dict)
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
    """

    alpha: float
    size: int
    correction: str
    smallest_effect: float
    scorer: str
    least: int

    @property
    def level(self) -> float:
        """Level of the smallest p-value of the family."""
        return self.alpha / self.size if self.correction in FIRST_STEP else self.alpha


class EvaluationProtocol(Generic[Given]):
    """A protocol. Class attributes say what it needs; methods are called by the pipeline in the order given here.

    Attributes
    ----------
    name : str
        Its name in the config.
    Options : type
        A dataclass or pydantic model of the protocol's options: `probe.options`, or `task.options` of a task.
    asks : bool
        Whether a model is asked; otherwise it is a task, which overrides `collect`.
    opens_images : bool
        Whether images are opened; otherwise they need not be there.
    scoring : {"required", "optional", "none"}
        Whether answers are scored by the config group `scorer`.
    n_people : int
        The number of people that an image of its battery shows.
    within_sets : bool
        Whether counterfactual sets are compared within the set, instead of groups of a population.
    special_case_of : str
        The name of the protocol in whose place it is used where `n_people` or `within_sets` fit the battery or the
        people, and that protocol's do not; empty where it is used by its own name only.
    several_variants : bool
        Whether the battery may show every image in several variants.
    takes_analysis : collection of str
        The options of the config group `analysis` that it takes, of those that not every protocol does
        (`fp2.config.ANALYSIS_OPTIONS`).
    takes_samples : bool
        Whether several answers to one question are averaged (`probe.decoding.samples`).
    tables : mapping
        Tables of the response store that it keeps what it computes from images in -> what their rows are, as
        `fp2 purge` reports them; each has a column `path` (`Inputs.store`).
    sections : tuple of str
        Import paths of its report sections (`fp2.report.section.Section`).
    methods : tuple of Method
        Methods whose numbers can differ between versions of fp2, with the places of results that each owns.
    tests : mapping
        Number -> how it is computed, for the signed passport (`statistics.tests`); empty where nothing is tested.
    limitations : tuple of str
        What a reader of every run has to know.
    """

    name: ClassVar[str]
    Options: ClassVar[type[Any]]
    asks: ClassVar[bool] = True
    opens_images: ClassVar[bool] = True
    scoring: ClassVar[Literal["required", "optional", "none"]] = "required"
    n_people: ClassVar[int] = 1
    within_sets: ClassVar[bool] = False
    special_case_of: ClassVar[str] = ""
    several_variants: ClassVar[bool] = False
    takes_analysis: ClassVar[Collection[str]] = ()
    takes_samples: ClassVar[bool] = False
    tables: ClassVar[Mapping[str, str]] = {}
    sections: ClassVar[tuple[str, ...]] = ()
    methods: ClassVar[tuple[Method, ...]] = ()

    tests: ClassVar[Mapping[str, str]] = {}
    limitations: ClassVar[tuple[str, ...]] = ()

    def __init__(self, options: Given) -> None:
        self.options = options

    @classmethod
    def from_config(cls, config: Config) -> EvaluationProtocol[Any]:
        """Return the protocol with its options read from the config.

        Raises
        ------
        Fp2Error
            For an option that is unknown or out of range.
        """
        given, where = (config.probe.options, "probe.options") if cls.asks else (config.task.options, "task.options")
        return cls(read_options(cls.Options, given, where))

    # -- before anything is asked

    def for_battery(self, battery: Battery) -> EvaluationProtocol[Any]:
        """Return the protocol that fits the battery: this one, or the special case for its number of people."""
        return self if battery.people == self.n_people else self._special_case("n_people", battery.people)

    def for_people(self, people: pd.DataFrame) -> EvaluationProtocol[Any]:
        """Return the protocol that fits the people table: this one, or the special case for counterfactual sets."""
        from fp2.cuts import of_sets

        return self._special_case("within_sets", True) if of_sets(people) and not self.within_sets else self

    def _special_case(self, trait: str, value: Any) -> EvaluationProtocol[Any]:
        """Return the installed special case of this protocol that has this value of an attribute; else this one."""
        names = set(names_with(PROTOCOLS, "special_case_of", self.name)) & set(names_with(PROTOCOLS, trait, value))
        return load(PROTOCOLS, min(names), "probe.protocol")(self.options) if names else self

    def title(self, inputs: Inputs) -> str | None:
        """Return the title that the results record, before "of MODEL"; None for that of the report sections."""
        return None

    def run_name(self, inputs: Inputs) -> str:
        """Return the name of the run in the MLflow UI: model, cuts and image variant; task and data of a task."""
        if not self.asks:
            return f"{inputs.config.task.name} · {inputs.config.data.name}"
        variant = inputs.config.variant
        parts = [inputs.config.model.name, "+".join(cut.name for cut in inputs.cuts)]
        return " · ".join([*parts, *([] if variant.kind == ORIGINAL else [variant.name])])

    def section_targets(self, results: Mapping[str, Any] | None = None) -> tuple[str, ...]:
        """Return the import paths of the report sections; with `results`, of those that may have something to show."""
        return self.sections

    def check_battery(self, battery: Battery, config: Config) -> None:
        """Raise for a battery that does not fit, or settings that do not fit it, before any data are loaded.

        Raises
        ------
        Fp2Error
            For the first mistake.
        """
        if battery.people != self.n_people:
            kind = "one person" if self.n_people == 1 else "two people"
            fitting = [n for n in names_with(PROTOCOLS, "n_people", battery.people) if load(PROTOCOLS, n, "").asks]
            what, fix = f"protocol {self.name!r} is for images of {kind}", f"Choose from: {', '.join(fitting)}"
            raise Fp2Error(what, where=f"battery '{battery.name}'", fix=fix)
        if battery.variants and not self.several_variants:
            what = f"protocol {self.name!r} shows every image in one variant"
            raise Fp2Error(what, where="probe.variants", fix="Omit it, and sweep over variant=")
        if battery.variants and config.variant.kind != ORIGINAL:
            raise Fp2Error("the battery has image variants of its own", where="variant", fix="Omit it")
        if battery.decoding.samples > 1 and not self.takes_samples:
            what = f"protocol {self.name!r} analyses one answer to each question"
            raise Fp2Error(what, where="probe.decoding.samples", fix="Set it to 1")

    def check_scorers(self, battery: Battery, scorers: Mapping[str, Scorer]) -> None:
        """Raise for scorers that cannot score the battery's answers.

        Raises
        ------
        Fp2Error
            Naming the scorer.
        """
        for name, scorer in scorers.items():
            if scorer.n_people != battery.people:
                kind = "one person" if battery.people == 2 else "two people"
                fix = f"Choose from: {', '.join(names_with(SCORERS, 'n_people', battery.people))}"
                raise Fp2Error(f"the scorer '{name}' is for images of {kind}", where=f"probe={battery.name}", fix=fix)

    def check_analysis(self, config: Config) -> None:
        """Raise for settings of the analysis that the protocol does not take, also of a logged run.

        Raises
        ------
        Fp2Error
            For the first one.
        """
        for name in ANALYSIS_OPTIONS:
            if getattr(config.analysis, name) and name not in self.takes_analysis:
                what = f"protocol {self.name!r} does not take it"
                raise Fp2Error(what, where=f"analysis.{name}", fix="Omit it, or use probe=fingerprint")

    def small_groups(self, inputs: Inputs) -> Sequence[str]:
        """Return a line for each cut whose groups are too small to be compared; by default none.

        Raises
        ------
        Fp2Error
            For a cut in which no subject is in a group.
        """
        return []

    def check(self, inputs: Inputs) -> None:
        """Raise for every mistake that can be found before anything is asked or computed.

        Raises
        ------
        Fp2Error
            For the first mistake.
        """

    def attributes(self, config: Config) -> set[str]:
        """Return the attributes of the people, besides those of the cuts, that the run's tables keep."""
        return set(config.analysis.adjust)

    # -- asking

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

    def n_variants(self, battery: Battery) -> int:
        """Return the number of variants in which every image is shown."""
        return max(1, len(battery.variants))

    def storage(self, plan: Plan, inputs: Inputs) -> Storage:
        """Return the storage of the answers: a row per answer by default.

        Parameters
        ----------
        plan : Plan
            Every stimulus once, and the row of the people table that each answer is filed under.
        inputs : Inputs

        Returns
        -------
        Storage
        """
        from fp2.ask.rows import RowStorage

        assert inputs.engine is not None
        assert inputs.battery is not None
        return RowStorage(plan, inputs.engine, inputs.battery.decoding, inputs.store)

    def disk(self, answers: int, new: int) -> str:
        """Return the disk space that the answers will take, as text; `new` of `answers` are not in the store yet."""
        from fp2.ask.rows import BYTES_PER_ANSWER

        return f"about {new * BYTES_PER_ANSWER / 1e6:.1f} MB"

    def describe_questions(self, battery: Battery) -> list[dict[str, Any]]:
        """Return the probes as reports show them: `id, label, text` (and `choices`)."""
        blocks: list[dict[str, Any]] = []
        for probe in battery.probes:
            asked = [question for question in battery.questions if question.probe == probe.id]
            block = {"id": probe.id, "label": probe.label, "text": " | ".join(question.text for question in asked)}
            choices = [list(question.choices) for question in asked if question.choices]
            blocks.append(block | ({"choices": choices} if choices else {}))
        return blocks

    def facts(self, inputs: Inputs) -> Mapping[str, Any]:
        """Return what `analyse` needs besides the tables (JSON values)."""
        return {}

    def notes(self, inputs: Inputs) -> Sequence[str]:
        """Return limitations of the questions that were asked."""
        return ()

    # -- tasks

    def sweep(self, config: Config) -> tuple[str, Sequence[str]] | None:
        """Return a setting and its values where one command makes a run for each of them; by default it makes one run.

        Called on the command line only, before anything is loaded.
        """
        return None

    def collect(self, inputs: Inputs) -> Collected:
        """Return the tables of a task, which overrides this.

        Parameters
        ----------
        inputs : Inputs
            What is known before anything is computed.

        Returns
        -------
        Collected
        """
        raise NotImplementedError(f"{type(self).__name__} is not a task")

    # -- from tables to results

    def all_methods(self) -> tuple[Method, ...]:
        """Return the methods behind the numbers of this run; a later run compares the versions."""
        return self.methods

    def analysed(self, tables: RunTables, job: Job) -> Analysis:
        """Return `analyse` with the tests, the versions of the methods, what scorers say; called by the pipeline."""
        from fp2.scorers.registry import notes_of

        found = self.analyse(tables, job)
        versions = {name: version for name, version, _ in self.all_methods()}
        notes = [*as_notes(found.notes, Stage.ANALYSIS), *notes_of(job.scorers, tables.scores)]
        settings = {**found.settings, "tests": dict(self.tests)}
        return replace(found, settings=settings, methods={**versions, **found.methods}, notes=notes)

    def score(
        self, answers: Answers, people: pd.DataFrame, scorers: Mapping[str, Scorer]
    ) -> tuple[Answers, pd.DataFrame | None]:
        """Return the answers with their refusal flag, and the scores table.

        Parameters
        ----------
        answers : Answers
            As the storage keeps them.
        people : DataFrame
            The people table.
        scorers : mapping
            Key in the config -> scorer.

        Returns
        -------
        answers : Answers
        scores : DataFrame or None
            None where answers are not scored.
        """
        from fp2.ask.answers import RowAnswers
        from fp2.scorers.registry import flag_refusals, score_answers

        assert isinstance(answers, RowAnswers)
        flagged = flag_refusals(answers.frame, scorers)
        return RowAnswers(flagged), score_answers(flagged, scorers)

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

    def n_steps(self, job: Job, tables: RunTables) -> int:
        """Return how often `analyse` calls `job.tick`."""
        return len(job.cuts)

    def analyse(self, tables: RunTables, job: Job) -> Analysis:
        """Return the analysis of the tables, on a first run and of logged tables alike.

        Parameters
        ----------
        tables : RunTables
            People, answers and scores; ids may be salted keys.
        job : Job
            Config, cuts, battery, scorers and facts.

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

    def later_block(
        self, name: str, tables: RunTables, job: Job, disparities: Sequence[Mapping[str, Any]]
    ) -> dict[str, Any] | None:
        """Return a further block of a logged run, whose rows are `disparities`; None where it does not apply.

        Raises
        ------
        Fp2Error
            If the tables lack what it needs.
        """
        return None

    def recall(self, results: Mapping[str, Any]) -> Mapping[str, Any]:
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


def counterfactual_error(config: Config) -> Fp2Error:
    """Return the error for counterfactual sets in a protocol that compares populations."""
    found = names_with(PROTOCOLS, "within_sets", True)
    fitting = sorted({*found, *(load(PROTOCOLS, name, "").special_case_of or name for name in found)})
    what = f"probe={config.probe.name}" if config.task.name == "ask" else f"task={config.task.name}"
    return Fp2Error(
        f"counterfactual sets are compared within the set, which {what} cannot do",
        where=f"data={config.data.name}",
        fix=f"Use a battery with probe.protocol={' or '.join(fitting)}, or leave set_id out of data.columns",
    )
