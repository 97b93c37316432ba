"""What method packages and packages of third parties may import of the core: `from fp2.extension import NAME`.

`extension.py` reads the names from this file, and imports the module of a name when it is asked for.
"""

# ruff: isort: skip_file

# Errors and text: what a user did wrong, in one line; text that comes from outside.
from fp2.errors import (
    Fp2Error as Fp2Error,
    check_names as check_names,
    nearest as nearest,
    without_path as without_path,
)
from fp2.text import (
    RUN_ID as RUN_ID,
    normal_id as normal_id,
    csv_text as csv_text,
    first_few as first_few,
    in_number as in_number,
    plural as plural,
    printable as printable,
    quoted as quoted,
    unquoted as unquoted,
)

# Plug-ins and their options: classes by name, typed options from YAML, the config.
from fp2.plugins import (
    DATA as DATA,
    DECLARED_LOOKS as DECLARED_LOOKS,
    FORMS as FORMS,
    PROTOCOLS as PROTOCOLS,
    PURGES as PURGES,
    Strict as Strict,
    WITHDRAWAL as WITHDRAWAL,
    check_members as check_members,
    installed as installed,
    load as load,
    load_path as load_path,
    read_installed as read_installed,
    read_options as read_options,
)
from fp2.protocols.option_types import Flag as Flag, Names as Names, OptionTable as OptionTable, Range as Range
from fp2.config import (
    ASK as ASK,
    Config as Config,
    PathsConfig as PathsConfig,
    VariantConfig as VariantConfig,
    choices as choices,
    conf_folders as conf_folders,
    groups as groups,
    variant_identity as variant_identity,
    variants_of as variants_of,
)
from fp2.compose import (
    build_protocol as build_protocol,
    check_typed as check_typed,
    compose_config as compose_config,
    config_hash as config_hash,
    config_of as config_of,
    from_plain as from_plain,
    hydra_overrides as hydra_overrides,
    identity_of as identity_of,
    is_from_hub as is_from_hub,
    jobs_of as jobs_of,
    load_config as load_config,
    parse_overrides as parse_overrides,
    validate as validate,
)
from fp2.compose.suggestions import NOT_GIVEN as NOT_GIVEN

# Tables between the stages: questions, answers and people, the cuts that group them, files and digests.
from fp2.tables import (
    ATTRIBUTE_PREFIX as ATTRIBUTE_PREFIX,
    Answer as Answer,
    BOX as BOX,
    BY_REGION as BY_REGION,
    CAMERA as CAMERA,
    CONTROLS as CONTROLS,
    ChoiceOrders as ChoiceOrders,
    Decoding as Decoding,
    HIDES_PERSON as HIDES_PERSON,
    IMAGE_B as IMAGE_B,
    IMAGE_DIGEST as IMAGE_DIGEST,
    IN_WORDS as IN_WORDS,
    ITEM_ROW as ITEM_ROW,
    ImageTask as ImageTask,
    MIRRORED as MIRRORED,
    MUST_NOT_LEAVE as MUST_NOT_LEAVE,
    NOT_ASKED as NOT_ASKED,
    NOT_DIGESTED as NOT_DIGESTED,
    NOT_SUPPLIED as NOT_SUPPLIED,
    ORDER as ORDER,
    OPTIONS as OPTIONS,
    ORIGINAL as ORIGINAL,
    PEOPLE as PEOPLE,
    PLACE_AND_TIME as PLACE_AND_TIME,
    Question as Question,
    STILL_REASONING as STILL_REASONING,
    SUBJECT_B as SUBJECT_B,
    TRACE as TRACE,
    TRAIT as TRAIT,
    UNENDED as UNENDED,
    VARIANT_PARAMETERS as VARIANT_PARAMETERS,
    WITHOUT_ATTEMPT as WITHOUT_ATTEMPT,
    YES_NO_NUMBERS as YES_NO_NUMBERS,
    absent_counts as absent_counts,
    attribute_columns as attribute_columns,
    everyone_shown as everyone_shown,
    item_name as item_name,
    question_of as question_of,
    row_model as row_model,
    sample_id as sample_id,
    sample_of as sample_of,
    with_values as with_values,
)
from fp2.cuts import (
    Cut as Cut,
    JOIN as JOIN,
    LABEL_JOIN as LABEL_JOIN,
    check_may_leave as check_may_leave,
    combinations as combinations,
    in_quotes as in_quotes,
    memberships as memberships,
    of_sets as of_sets,
    resolve_cuts as resolve_cuts,
    varying as varying,
    with_merged_values as with_merged_values,
    with_present_values as with_present_values,
)
from fp2.ask.answers import (
    RowAnswers as RowAnswers,
    RunTables as RunTables,
    other_tables as other_tables,
    read_tables as read_tables,
)
from fp2.ask.labels import LABELS as LABELS, with_labels as with_labels
from fp2.artifacts import (
    read_yaml as read_yaml,
    replace_file as replace_file,
    write_parquet as write_parquet,
    write_text as write_text,
)
from fp2 import __version__ as __version__, artifacts as artifacts, plugins as plugins
from fp2.hashing import (
    digest as digest,
    file_stamp as file_stamp,
    sha256_bytes as sha256_bytes,
    sha256_file as sha256_file,
)

# Data sets: the interface, images and their pixels, readers of tables.
from fp2.data.base import (
    Content as Content,
    DataOptions as DataOptions,
    DataSource as DataSource,
    Dataset as Dataset,
    ImageFile as ImageFile,
    LoadContext as LoadContext,
    Local as Local,
    OmitDefault as OmitDefault,
    Required as Required,
    configured_source as configured_source,
    file_digest as file_digest,
    folder_option as folder_option,
    load_configured as load_configured,
    local_options as local_options,
    people_table as people_table,
    required as required,
    source_class as source_class,
    source_name as source_name,
    with_releases as with_releases,
)
from fp2.data.pixels import (
    PixelDigest as PixelDigest,
    PixelIndex as PixelIndex,
    image_file as image_file,
    open_rgb as open_rgb,
    pixel_sha256 as pixel_sha256,
)
from fp2.data.sampling import (
    LEFT as LEFT,
    SETS_ALSO_VARY as SETS_ALSO_VARY,
    one_row_each as one_row_each,
    units as units,
    whole_sets as whole_sets,
)
from fp2.data.stimuli import (
    Change as Change,
    Stimulus as Stimulus,
    VARIANT_VERSION as VARIANT_VERSION,
    mirrored as mirrored,
    original_image_id as original_image_id,
    with_variant_id as with_variant_id,
)
from fp2.data.readers.table import (
    age_group as age_group,
    attribute_names as attribute_names,
    dialect as dialect,
    frame_people as frame_people,
    needing as needing,
    number_column as number_column,
    read_json as read_json,
    read_rows as read_rows,
    read_table as read_table,
)
from fp2.data.readers.labelled import (
    EACH_ITS_OWN as EACH_ITS_OWN,
    LabelledImages as LabelledImages,
    fairface_labels as fairface_labels,
    find_files as find_files,
    image_folder as image_folder,
    images_below as images_below,
    label_rows as label_rows,
    labelled_people as labelled_people,
)
from fp2.data.readers.source import COLUMNS as COLUMNS, Columns as Columns

# Questions: batteries.
from fp2.probes.battery import Battery as Battery, is_trait_battery as is_trait_battery, load_battery as load_battery
from fp2.probes.items import Items as Items

# Engines: the interface, checkpoints and their files, supplied answers, models in several processes.
from fp2.engines.base import (
    AsksServers as AsksServers,
    BaseEngine as BaseEngine,
    ESTIMATED as ESTIMATED,
    Engine as Engine,
    EngineOptions as EngineOptions,
    FORBID_EXTRA as FORBID_EXTRA,
    ModelProfile as ModelProfile,
    NEVER as NEVER,
    Positive as Positive,
    Price as Price,
    SOMETIMES as SOMETIMES,
    STANDARD_ERROR as STANDARD_ERROR,
    SuppliesAnswers as SuppliesAnswers,
    TEMPLATE_TOKENS as TEMPLATE_TOKENS,
    TOKENS_A_WORD as TOKENS_A_WORD,
    failed as failed,
    open_image as open_image,
    open_images as open_images,
    open_original as open_original,
    prefetched as prefetched,
    version_family as version_family,
    versions as versions,
    option_orders as option_orders,
    standard_error as standard_error,
    yes_no_numbers as yes_no_numbers,
)
from fp2.engines.build import create as create, engine_class as engine_class
from fp2.engines.checkpoint import (
    CODE_CLASSES as CODE_CLASSES,
    Checkpoint as Checkpoint,
    CheckpointMissingError as CheckpointMissingError,
    FileDigests as FileDigests,
    is_repository as is_repository,
    resolve_checkpoint as resolve_checkpoint,
    with_weights as with_weights,
)
from fp2.engines.worker_options import (
    RayOptions as RayOptions,
    WorkerOptions as WorkerOptions,
    device_of as device_of,
    worker_devices as worker_devices,
)
from fp2.engines.pins import cached_checkpoint as cached_checkpoint, read_pins as read_pins, write_pins as write_pins

# Parts of our engines: transformers, servers.
from fp2.engines.hf.encoding import (
    Continuation as Continuation,
    EncodedPrompts as EncodedPrompts,
    common_prefix_length as common_prefix_length,
    prefix_inputs as prefix_inputs,
    suffix_inputs as suffix_inputs,
)
from fp2.engines.hf.engine import HfEngine as HfEngine, HfOptions as HfOptions
from fp2.engines.hf.families import facts_for as facts_for
from fp2.engines.hf.generation import (
    BatchLimits as BatchLimits,
    Logits as Logits,
    Pair as Pair,
    Pick as Pick,
)
from fp2.engines.hf.likelihoods import Tokens as Tokens
from fp2.engines.hf.inputs import GREY as GREY, ImageQuestions as ImageQuestions
from fp2.engines.hf.loading import (
    CodeInterface as CodeInterface,
    check_pinned as check_pinned,
    load_processor_of as load_processor_of,
    load_weights as load_weights,
    loading_error as loading_error,
    model_class as model_class,
    silence_loaders as silence_loaders,
)
from fp2.engines.hf.model import (
    HfSpec as HfSpec,
    LoadedModel as LoadedModel,
    NEEDS_ID as NEEDS_ID,
    PICKLED as PICKLED,
    cached_model as cached_model,
    free_memory as free_memory,
    is_out_of_memory as is_out_of_memory,
)
from fp2.engines.hf.placement import (
    GPU_BATCH as GPU_BATCH,
    LocalOptions as LocalOptions,
    Placement as Placement,
    default_threads as default_threads,
    input_device as input_device,
    resolve_device as resolve_device,
)
from fp2.engines.hf.prefix_policy import candidates as candidates
from fp2.engines.hf.processors import (
    LastImageProcessor as LastImageProcessor,
    RAW_PIXELS as RAW_PIXELS,
    check_backend as check_backend,
    image_of as image_of,
    raw_pixels as raw_pixels,
)
from fp2.engines.hf.prompts import PromptForm as PromptForm, PromptFormat as PromptFormat
from fp2.engines.hf.scoring import Strategy as Strategy, score as score
from fp2.engines.hf.session import Session as Session
from fp2.engines.server.replies import RefusedError as RefusedError, token_count as token_count
from fp2.engines.server.scoring import (
    Probabilities as Probabilities,
    TopLogprobs as TopLogprobs,
    lettered as lettered,
    mean_over_orders as mean_over_orders,
)
from fp2.engines.server.client import (
    Channel as Channel,
    ServerClient as ServerClient,
    UnreachableError as UnreachableError,
    without_folder as without_folder,
)
from fp2.engines.server.engine import OpenAICompatEngine as OpenAICompatEngine
from fp2.engines.server.options import (
    OF_THE_RUN as OF_THE_RUN,
    SAMPLING as SAMPLING,
    ServerOptions as ServerOptions,
    ServerSpec as ServerSpec,
)
from fp2.engines.server.chat import (
    DATA_URL as DATA_URL,
    PATH as PATH,
    Shown as Shown,
    messages as messages,
    png as png,
    post_chat as post_chat,
    read_completion as read_completion,
    read_text as read_text,
    shown as shown,
)
from fp2.engines.server.anthropic_messages import as_chat as as_chat, messages_body as messages_body
from fp2.engines.server.report import raise_if_fatal as raise_if_fatal

# Plans and stored answers.
from fp2.ask.plan import Plan as Plan, show as show
from fp2.ask.cost import (
    check_cost as check_cost,
    check_scoring_cost as check_scoring_cost,
    expected_cost as expected_cost,
    expected_scorings as expected_scorings,
    n_samples as n_samples,
    reasoning_budget as reasoning_budget,
)
from fp2.ask.loop import ask as ask
from fp2.ask.storage import (
    Answers as Answers,
    Forecast as Forecast,
    Storage as Storage,
    Waves as Waves,
    Writing as Writing,
    dense_storage as dense_storage,
    of_nobody as of_nobody,
)
from fp2.ask.rows import BYTES_PER_ANSWER as BYTES_PER_ANSWER
from fp2.store.database import (
    CHECKSUMS as CHECKSUMS,
    CachedTable as CachedTable,
    add_table as add_table,
    as_user_error as as_user_error,
    checksum as checksum,
    delete_checksums as delete_checksums,
    file_of as file_of,
    has_table as has_table,
    intact as intact,
    put_checksums as put_checksums,
    put_runtime as put_runtime,
    transaction as transaction,
)
from fp2.store.leases import Leases as Leases
from fp2.store.salted_keys import (
    image_commitment as image_commitment,
    local_salt as local_salt,
    open_commitment as open_commitment,
    salted as salted,
    shareable as shareable,
)
from fp2.store.origins import (
    RecordedImage as RecordedImage,
    add_derived as add_derived,
    register_origins as register_origins,
)
from fp2.store.withdrawn import (
    NOBODY as NOBODY,
    Withdrawn as Withdrawn,
    WithdrawnImages as WithdrawnImages,
    halted as halted,
    read_withdrawn as read_withdrawn,
    withdraw as withdraw,
    writing as writing,
)
from fp2.store.leases import parts as parts
from fp2.store.rows import (
    ResponseStore as ResponseStore,
    SCORED_BY as SCORED_BY,
    answered_keys as answered_keys,
)

# Scorers: the interface, what a value means, outcomes of answers.
from fp2.scorers.base import (
    AsksModel as AsksModel,
    BaseScorer as BaseScorer,
    Number as Number,
    ReadsAnswers as ReadsAnswers,
    Scored as Scored,
    Scorer as Scorer,
    check_lengths as check_lengths,
    cut_long as cut_long,
    equal_bins as equal_bins,
    fold as fold,
    is_blank as is_blank,
    normalise as normalise,
)
from fp2.scorers.labels import LabelScale as LabelScale
from fp2.scorers.outcomes import (
    REFUSAL as REFUSAL,
    entries_of as entries_of,
    members as members,
    outcome_columns as outcome_columns,
    outcomes_in as outcomes_in,
    yes_no_columns as yes_no_columns,
)
from fp2.scorers.lexicon import (
    Lexicon as Lexicon,
    TermList as TermList,
    clean_form as clean_form,
    load_lexicon as load_lexicon,
    load_negation as load_negation,
    matcher as matcher,
)
from fp2.scorers.registry import (
    SCORE_KEYS as SCORE_KEYS,
    build_scorers as build_scorers,
    dimensions as dimensions,
    equip as equip,
    limitations_of as limitations_of,
)

# Protocols: the interface, results, verdicts, and what tasks share.
from fp2.protocols.base import (
    Analyses as Analyses,
    Asks as Asks,
    Collected as Collected,
    Collects as Collects,
    Inputs as Inputs,
    Job as Job,
    PlannedFamily as PlannedFamily,
    Protocol as Protocol,
    Requirements as Requirements,
    Show as Show,
    Statements as Statements,
)
from fp2.notes import (
    Note as Note,
    NoteKind as NoteKind,
    Stage as Stage,
    as_notes as as_notes,
    logged as logged,
    read_notes as read_notes,
)
from fp2.results import (
    FrequentAnswer as FrequentAnswer,
    Analysis as Analysis,
    Block as Block,
    ComparedRow as ComparedRow,
    ENGLISH as ENGLISH,
    LOOKED_AT as LOOKED_AT,
    NESTED as NESTED,
    NO_MODEL as NO_MODEL,
    NULL_MEAN as NULL_MEAN,
    about_run as about_run,
    changed_methods as changed_methods,
    differences as differences,
    equal as equal,
    flat_rows as flat_rows,
    looked_notes as looked_notes,
    owned as owned,
    with_scorers as with_scorers,
)
from fp2.verdicts import Verdict as Verdict, mark_of as mark_of
from fp2.protocols.row_methods import (
    ROW_METHODS as ROW_METHODS,
    SCORE_TESTS as SCORE_TESTS,
    SEVERAL_QUESTIONS as SEVERAL_QUESTIONS,
)
from fp2.protocols.task_tables import (
    LONG as LONG,
    ScoreComparison as ScoreComparison,
    describe_metric as describe_metric,
    given_files as given_files,
    no_scores as no_scores,
    score_settings as score_settings,
    score_tables as score_tables,
)
from fp2.protocols import task_tables as task_tables

# Comparisons of groups: the protocol to derive from, its settings and its supplements.
from fp2.protocols.fingerprint.comparison import (
    ComparisonOptions as ComparisonOptions,
    GroupComparison as GroupComparison,
)
from fp2.protocols.fingerprint.disparities import Disparities as Disparities, fingerprint as fingerprint
from fp2.protocols.fingerprint.family import shares as shares
from fp2.data.derived import FIRST_REGION as FIRST_REGION, REGION as REGION, first_listed as first_listed
from fp2.data.group_sizes import cut_notes as cut_notes, group_sizes as group_sizes
from fp2.protocols.fingerprint.settings import (
    ComparedRun as ComparedRun,
    ComparisonSettings as ComparisonSettings,
    LOOKS as LOOKS,
    RowKey as RowKey,
    STEP_DOWN as STEP_DOWN,
    Supplement as Supplement,
    comparison_of as comparison_of,
)
from fp2.protocols.fingerprint.supplements import SupplementEntry as SupplementEntry
from fp2.protocols.fingerprint.protocol import PAGE_PROBES as PAGE_PROBES, VALENCE as VALENCE
from fp2.protocols.requirements import check_settings as check_settings, for_battery as for_battery

# Statistics: tests and intervals for groups of subjects, corrections, arrays.
from fp2.stats.adjustment import (
    adjust as adjust,
    adjust_p_values as adjust_p_values,
    decide as decide,
    default_permutations as default_permutations,
    step_down as step_down,
    step_down_max_t as step_down_max_t,
    verdict_of as verdict_of,
)
from fp2.stats.core.numeric import (
    BoolArray as BoolArray,
    CHUNK_BYTES as CHUNK_BYTES,
    FloatArray as FloatArray,
    IntArray as IntArray,
    finite as finite,
    nested as nested,
    rounded as rounded,
    stream as stream,
)
from fp2.stats.core.resampling import (
    V0_PERMUTATION as V0_PERMUTATION,
    permuted_moments as permuted_moments,
    resample_counts as resample_counts,
    resampled_moments as resampled_moments,
    studentised_moments as studentised_moments,
    v0_permutation as v0_permutation,
    with_agreement as with_agreement,
)
from fp2.stats.core.units import (
    Labels as Labels,
    Permuter as Permuter,
    Prepared as Prepared,
    TIE as TIE,
    Units as Units,
    permutation_p as permutation_p,
    prepare as prepare,
    unit_classes as unit_classes,
)
from fp2.stats.core.entries import (
    Cells as Cells,
    Entries as Entries,
    cell_means as cell_means,
    count_and_sum as count_and_sum,
    read_entries as read_entries,
    subject_means_by_group as subject_means_by_group,
)
from fp2.stats.core.moments import (
    GroupMoments as GroupMoments,
    MEAN_TIE as MEAN_TIE,
    NO_GAP as NO_GAP,
    YesNo as YesNo,
    contrast_weight as contrast_weight,
    max_t_squared as max_t_squared,
    moments as moments,
    pair_error as pair_error,
    pair_table as pair_table,
    pairs as pairs,
    range_of_means as range_of_means,
)
from fp2.stats.core.sums import Cross as Cross, Sums as Sums, group_sums as group_sums, weighted_sums as weighted_sums
from fp2.stats.composite import composite_test as composite_test
from fp2.stats.disparities import disparity as disparity, disparity_panel as disparity_panel
from fp2.stats.effects import (
    cohens_d as cohens_d,
    hedges_g as hedges_g,
    join_ties as join_ties,
    kruskal_wallis as kruskal_wallis,
    rank_biserial as rank_biserial,
    shrunken_range as shrunken_range,
)
from fp2.stats.rows import (
    DisparityRow as DisparityRow,
    OK as OK,
    Outcome as Outcome,
    Panel as Panel,
    PanelSettings as PanelSettings,
    RERUN as RERUN,
    TOO_FEW as TOO_FEW,
    UNINFORMATIVE as UNINFORMATIVE,
    columns_read_by as columns_read_by,
    json_ready as json_ready,
)
from fp2.stats.interval import GapTest as GapTest, gap_tests as gap_tests, wilson as wilson

# Reports: sections, findings, figures, and how numbers and names are written.
from fp2.report.templating import environment as environment, stylesheet as stylesheet
from fp2.report.reading import (
    DASH as DASH,
    EFFECTS as EFFECTS,
    FEWEST_SPOKES as FEWEST_SPOKES,
    MIN_CELL as MIN_CELL,
    calibration_of as calibration_of,
    calibration_words as calibration_words,
    correction_label as correction_label,
    cut_label as cut_label,
    effect_words as effect_words,
    extreme_groups as extreme_groups,
    first_of as first_of,
    leaves as leaves,
    model_name as model_name,
    model_was_used as model_was_used,
    number as number,
    plain as plain,
    primary_scorer as primary_scorer,
    probability as probability,
    probe_labels as probe_labels,
    rows_of as rows_of,
    scorer_identity as scorer_identity,
    scorer_label as scorer_label,
    scorer_names as scorer_names,
    scorer_version as scorer_version,
    sentence as sentence,
    severity_legend as severity_legend,
    severity_words as severity_words,
    shorten as shorten,
    suppress_small_cells as suppress_small_cells,
    variant_name as variant_name,
    verdict_meanings as verdict_meanings,
    row_name as row_name,
    verdict_words as verdict_words,
    were_supplied as were_supplied,
)
from fp2.report.page import (
    PageSection as PageSection,
    render_document as render_document,
    render_page as render_page,
    write_page as write_page,
)
from fp2.report.samples import (
    MOST_RUNS as MOST_RUNS,
    groups_of as groups_of,
    sample_side_by_side as sample_side_by_side,
    values_of as values_of,
)
from fp2.report.values import (
    Axis as Axis,
    Cell as Cell,
    Chart as Chart,
    ChartKind as ChartKind,
    Code as Code,
    Column as Column,
    Estimate as Estimate,
    Finding as Finding,
    Kind as Kind,
    Link as Link,
    Name as Name,
    Part as Part,
    Point as Point,
    Reference as Reference,
    Row as Row,
    Scalar as Scalar,
    Sentence as Sentence,
    Series as Series,
    Strong as Strong,
    Table as Table,
    Value as Value,
    Weight as Weight,
    as_cell as as_cell,
    charts as charts,
    suppressed as suppressed,
)
from fp2.report.section import (
    BIAS_FINGERPRINT as BIAS_FINGERPRINT,
    DISPARITIES as DISPARITIES,
    Results as Results,
    Section as Section,
    findings_of as findings_of,
    heading as heading,
    load_sections as load_sections,
    plain_cell as plain_cell,
    row_finding as row_finding,
    tables_of as tables_of,
    worst_and_best as worst_and_best,
)
from fp2.report import reading as reading
from fp2.report.drawing import (
    Heading as Heading,
    draw_panels as draw_panels,
    run_heading as run_heading,
    write_charts as write_charts,
)
from fp2.report.terminal import print_results as print_results, terminal as terminal
from fp2.report.dashboard import write_dashboard as write_dashboard
from fp2.report.reproduce import how_to_repeat as how_to_repeat
from fp2.report.answers import (
    blinded as blinded,
    row_words as row_words,
    striking_first as striking_first,
)
from fp2.report.cells import cell_text as cell_text
from fp2.report.disparities import (
    Scale as Scale,
    mean_cell as mean_cell,
    significant_of as significant_of,
    verdict_detail as verdict_detail,
)
from fp2.report.disparity_charts import MOST_GROUPS as MOST_GROUPS, radar as radar, radars as radars
from fp2.report.leaderboard import (
    LeaderboardRow as LeaderboardRow,
    boards as boards,
    rank as rank,
    rank_cell as rank_cell,
    rank_interval as rank_interval,
    summarise as summarise,
)
from fp2.report.plots import axis_end as axis_end, run_style as run_style
from fp2.report.run_sections import (
    FACTS as FACTS,
    NOTHING_ABOUT_PEOPLE as NOTHING_ABOUT_PEOPLE,
    PLANTED as PLANTED,
    limitation_values as limitation_values,
    question_values as question_values,
    repeat_rows as repeat_rows,
)
from fp2.report.summary import summary as summary
from fp2.report.text import escape_markdown as escape_markdown, markdown as markdown

# Passports: statements, keys, signatures.
from fp2.report.keys import (
    KEY_NAME as KEY_NAME,
    check_key as check_key,
    load_key as load_key,
    load_or_create_key as load_or_create_key,
    load_public_key as load_public_key,
    public_path_of as public_path_of,
)
from fp2.report.passport import (
    AUDIT_TYPE as AUDIT_TYPE,
    BUNDLE_SUBJECT as BUNDLE_SUBJECT,
    DATASET_SUBJECT as DATASET_SUBJECT,
    DELETION_TYPE as DELETION_TYPE,
    MODEL_SUBJECT as MODEL_SUBJECT,
    REGISTRATION_TYPE as REGISTRATION_TYPE,
    STATEMENT_TYPE as STATEMENT_TYPE,
    build_statement as build_statement,
    generator as generator,
    sign as sign,
    Statement as Statement,
    write_atomically as write_atomically,
)
from fp2.report.verify import (
    Verification as Verification,
    payload_digest as payload_digest,
    read_unverified as read_unverified,
    signed_statement as signed_statement,
    verify_passport as verify_passport,
)

# Commands and runs that exist: arguments, local servers, reading and rescoring a run.
from fp2.commands.arguments import (
    CommandEntry as CommandEntry,
    EVALUATE as EVALUATE,
    Json as Json,
    JsonFile as JsonFile,
    MAINTAIN as MAINTAIN,
    PUBLISH as PUBLISH,
    READ_AND_COMPARE as READ_AND_COMPARE,
    RUN_HELP as RUN_HELP,
    RunWord as RunWord,
    run_names as run_names,
    words_and_settings as words_and_settings,
)
from fp2.commands.loopback import (
    CSS as CSS,
    HTML as HTML,
    LoopbackServer as LoopbackServer,
    Reply as Reply,
    SCRIPT as SCRIPT,
)
from fp2.commands.output import Output as Output, print_json as print_json
from fp2.runs.describe import describe_questions as describe_questions, describe_scorers as describe_scorers
from fp2.runs.stages import (
    Evaluation as Evaluation,
    analyse as analyse,
    digest_without as digest_without,
    results_from as results_from,
    scored as scored,
)
from fp2.runs.logged import (
    load_run_sections as load_run_sections,
    logged_config as logged_config,
    logged_cuts as logged_cuts,
    logged_protocol as logged_protocol,
    logged_settings as logged_settings,
    passport_part as passport_part,
    passport_statement as passport_statement,
    run_sections as run_sections,
)
from fp2.run import finish_purges as finish_purges, run as run
from fp2.runs.origin import (
    EVERY as EVERY,
    is_own as is_own,
    logged_overrides as logged_overrides,
    named_outside as named_outside,
    read_plain as read_plain,
    state_again as state_again,
    states_again as states_again,
)
from fp2.tracking.client import (
    check_store as check_store,
    database_file as database_file,
    experiment_id as experiment_id,
    find_run as find_run,
    newest_sweep as newest_sweep,
    place_of as place_of,
    refuse_foreign_artifacts as refuse_foreign_artifacts,
    runs_of_sweep as runs_of_sweep,
    shown_uri as shown_uri,
    start_run as start_run,
    summaries as summaries,
    tracking_uri as tracking_uri,
)
from fp2.runs.reader import (
    KEYS as KEYS,
    LoggedRun as LoggedRun,
    Missing as Missing,
    distinct_names as distinct_names,
    lost_people as lost_people,
    read_results as read_results,
    read_run as read_run,
    run_folder as run_folder,
    runs_named as runs_named,
    writing_about as writing_about,
)
from fp2.runs.inputs import (
    CallerObjects as CallerObjects,
    check_machine as check_machine,
    check_run_cost as check_run_cost,
    check_surroundings as check_surroundings,
    load_asking as load_asking,
    load_inputs as load_inputs,
    open_storage as open_storage,
    plan_answers as plan_answers,
    with_cuts as with_cuts,
)
from fp2.progress import Progress as Progress, Terminal as Terminal
from fp2.runs.folders import (
    folders_of_original as folders_of_original,
    forget_folder as forget_folder,
    forget_written as forget_written,
    recorded_folders as recorded_folders,
    recorded_written as recorded_written,
    recording as recording,
)
from fp2.runs.outputs import (
    RunOutcome as RunOutcome,
    code_tags as code_tags,
    fresh_folder as fresh_folder,
    result_tags as result_tags,
    tracked as tracked,
    write_run as write_run,
)
from fp2.store import origins as origins
from fp2.tracking.files import (
    Logged as Logged,
    files_of as files_of,
    free_texts as free_texts,
    has_store as has_store,
    logged_runs as logged_runs,
    remove as remove,
    replace as replace,
)
from fp2.tracking.ui import (
    UI_FILE as UI_FILE,
    UI_HOST as UI_HOST,
    UI_TRAINING as UI_TRAINING,
    compare_url as compare_url,
    open_url as open_url,
    running_port as running_port,
    ui_answers as ui_answers,
)
from fp2.runs.live import line_of as line_of
from fp2.store.integrity import count_checked as count_checked, damaged_rows as damaged_rows, problem_of as problem_of
from fp2.store.merge import (
    batches as batches,
    copy_runtimes as copy_runtimes,
    count_rows as count_rows,
    merge_stores as merge_stores,
    take_answers as take_answers,
)
from fp2.runs.local_paths import (
    BATTERY_PATHS as BATTERY_PATHS,
    FILES as FILES,
    PLACE_KEYS as PLACE_KEYS,
    missing_places as missing_places,
    recall as recall,
    remember as remember,
    with_places as with_places,
    write_config as write_config,
)
from fp2.commands.runs import EXIT_FAILED as EXIT_FAILED, run_files as run_files
from fp2.runs.pictures import paths_by_key as paths_by_key, thumbnail as thumbnail
from fp2.app import places_of as places_of
from fp2.runs.checks import checked as checked
