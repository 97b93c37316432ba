"""The `fp2` command: declares commands and options; the work is in `fp2.commands`."""

from __future__ import annotations

import difflib
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer
from typer._click.exceptions import ClickException, MissingParameter, NoArgsIsHelpError, NoSuchOption, UsageError
from typer.core import CompletionItem, TyperArgument, TyperCommand  # type: ignore[attr-defined]

from fp2.commands.arguments import (
    EVALUATE,
    MAINTAIN,
    PUBLISH,
    READ_AND_COMPARE,
    RUN_HELP,
    Json,
    JsonFile,
    RunWord,
    run_names,
)
from fp2.errors import EXIT_INTERRUPTED, Fp2Error, terminable
from fp2.plugins import COMMANDS, load, read_installed
from fp2.text import printable

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode="markdown",  # in which brackets are text
    help="Fingerprint² Bench: which groups a vision-language model describes differently, by how much, and with what "
    "uncertainty.",
    epilog="Start with: fp2 run (the bundled model), then fp2 ui. Most commands take settings as key=value: fp2 plan "
    "model=NAME data=NAME",
)
data_app = typer.Typer(no_args_is_help=True, help="Validate a data set.")
app.add_typer(data_app, name="data", rich_help_panel="Maintain")
store_app = typer.Typer(no_args_is_help=True, help="Merge and check response stores.")
app.add_typer(store_app, name="store", rich_help_panel="Maintain")
_F = TypeVar("_F", bound=Callable[..., None])


class _WithSettings(TyperCommand):
    """A command that takes overrides: the shell completes `group=choice`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the words; an override is no argument, and a word with a dash that is left is no option.

        --config-dir is a setting of Hydra, as for `fp2 run`.
        """
        from fp2.app import FOLDER, with_values

        words = args if not {word.partition("=")[0] for word in args} & {*FOLDER} else with_values(args)
        super().parse_args(ctx, words)
        if ctx.resilient_parsing:
            return list(ctx.args)
        for param in self.params:
            value = ctx.params.get(param.name)
            if isinstance(param, TyperArgument) and isinstance(value, str | Path) and "=" in str(value):
                if param.required:
                    raise MissingParameter(ctx=ctx, param=param)
                ctx.args.insert(0, str(value))
                ctx.params[param.name] = None
        options = [name for param in self.params for name in param.opts if name.startswith("--")]
        for word in ctx.args:
            if word.startswith("-") and word not in ("-m", "--multirun"):
                name = word.partition("=")[0]
                raise NoSuchOption(name, possibilities=difflib.get_close_matches(name, options), ctx=ctx)
        return list(ctx.args)

    def shell_complete(self, ctx: Any, incomplete: str) -> list[CompletionItem]:
        from fp2.commands.completion import settings

        return [*map(CompletionItem, settings(ctx.args, incomplete)), *super().shell_complete(ctx, incomplete)]


class _RunSettings(_WithSettings):
    """The command whose flags are Hydra's, which reads them itself."""

    parse_args = TyperCommand.parse_args


def command(
    panel: str, *examples: str, name: str | None = None, to: typer.Typer = app, settings: bool = True,
    own_help: bool = False,
) -> Callable[[_F], _F]:  # fmt: skip
    """Register a function as a command.

    Parameters
    ----------
    panel : str
        The heading under which the help lists it.
    examples : str
        Command lines for its help.
    settings : bool
        Whether it takes overrides: KEY=VALUE.
    own_help : bool
        Whether it prints its help itself.
    """
    context: dict[str, object] = {"allow_extra_args": True, "ignore_unknown_options": True} if settings else {}
    if own_help:
        context["help_option_names"] = []
    return to.command(
        name,
        cls=_RunSettings if own_help else _WithSettings if settings else None,
        context_settings=context,
        options_metavar="[OPTIONS] [KEY=VALUE]..." if settings else "[OPTIONS]",
        rich_help_panel=panel,
        epilog="\n".join(("**Examples**\n", *(f"- `{example}`" for example in examples))),
    )


def _words(first: str | None, more: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the words of a command that are no settings, and its settings."""
    words = [*([first] if first else []), *more]
    return [word for word in words if "=" not in word], [word for word in words if "=" in word]


def main() -> None:
    """Run the command line; a user error is one line and a non-zero exit status."""
    try:
        with terminable():
            sys.exit(app(prog_name="fp2", standalone_mode=False))
    except Fp2Error as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(error.exit_status)
    except NoArgsIsHelpError as error:
        from typer.rich_utils import rich_format_error

        rich_format_error(error)
        sys.exit(error.exit_code)
    except ClickException as error:
        called = error.ctx.command_path if isinstance(error, UsageError) and error.ctx else "fp2"
        said = error.format_message()
        stop = "" if said.endswith((".", "?")) else "."
        print(f"error: {printable(f'{said[:1].lower()}{said[1:]}{stop} See {called} --help')}", file=sys.stderr)
        sys.exit(error.exit_code)
    except typer.Abort:
        print("aborted", file=sys.stderr)
        sys.exit(1)
    except KeyboardInterrupt:
        sys.exit(EXIT_INTERRUPTED)


@command(
    EVALUATE,
    "fp2 run experiment=smoke",
    "fp2 run -m model=peeps_vlm,planted cut.each=[region,pronoun]",
    own_help=True,
)
def run(ctx: typer.Context, json: Json = False) -> None:
    """Run one evaluation, or with -m a sweep: fp2 run model=NAME data=NAME cut=NAME ..."""
    from fp2.app import main as launch

    raise typer.Exit(launch(ctx.args, "fp2 run", as_json=json))


@command(EVALUATE, "fp2 pin qwen2_5_vl_3b", "fp2 pin experiment=page")
def pin(
    ctx: typer.Context,
    model: Annotated[
        str | None,
        typer.Argument(metavar="[MODEL]...", help="Models, or a run's settings."),
    ] = None,
    json: Json = False,
) -> None:
    """Write down the commit of each hub model in the local cache, for all later runs: fp2 pin experiment=page"""
    from fp2.commands.pin import pin as write

    raise typer.Exit(write(*_words(model, ctx.args), json))


@command(EVALUATE, "fp2 list models", "fp2 list scorers hydra.searchpath=[file:///my/conf]", name="list")
def list_choices(
    ctx: typer.Context,
    what: Annotated[
        str | None,
        typer.Argument(help="models, data, scorers, cuts, probes, protocols, engines, forms, ... (default: all)"),
    ] = None,
    json: Json = False,
) -> None:
    """List what can be chosen, and which package or folder (hydra.searchpath=[file://...]) it comes from."""
    from fp2.commands.listing import list_choices as show

    show(*_words(what, ctx.args), json)


@command(EVALUATE, "fp2 rerun RUN", "fp2 rerun RUN --fresh 0.05")
def rerun(
    ctx: typer.Context,
    run_id: RunWord,
    fresh: Annotated[
        float | None,
        typer.Option(min=0, max=1, help="Ask this random share of the run's stored answers again, and compare them."),
    ] = None,
    json: Json = False,
) -> None:
    """Repeat a logged run from its config, and compare the numbers row by row. Stored answers are not asked again."""
    from fp2.commands.rerun import rerun as again

    raise typer.Exit(again(run_id, ctx.args, json, fresh))


@command(
    EVALUATE,
    "fp2 rescore RUN scorer=stereotype analysis.primary=stereotype",
    "fp2 rescore RUN cut=region analysis.alpha=0.01",
)
def rescore(
    ctx: typer.Context,
    run_id: RunWord,
    json: Json = False,
) -> None:
    """Score a logged run's answers again: fp2 rescore RUN_ID scorer=NAME cut=NAME analysis.alpha=0.01 ..."""
    from fp2.commands.rerun import rescore as again

    raise typer.Exit(again(run_id, ctx.args, json))


@command(READ_AND_COMPARE, "fp2 multiverse RUN")
def multiverse(ctx: typer.Context, run: RunWord, json: Json = False) -> None:
    """Test a run's claims under other choices of the analysis: specification curves, joint tests."""
    from fp2.commands.runs import show_multiverse

    show_multiverse(run, ctx.args, json)


@command(EVALUATE, "fp2 watch", "fp2 watch RUN --json")
def watch(
    ctx: typer.Context,
    run: Annotated[
        str | None,
        typer.Argument(metavar="[RUN]", help=f"{RUN_HELP} By default the one last active.", autocompletion=run_names),
    ] = None,
    json: Json = False,
) -> None:
    """Show what a run in another terminal is doing: stage, rates, refusals, failures, time left, last answer."""
    from fp2.commands.watch import watch as follow

    runs, settings = _words(run, ctx.args)
    follow(runs[0] if runs else None, settings, json)


@command(READ_AND_COMPARE, "fp2 ui", "fp2 ui RUN OTHER_RUN", "fp2 ui --port 5001")
def ui(
    ctx: typer.Context,
    run: Annotated[
        str | None,
        typer.Argument(
            metavar="[RUN]...",
            help=f"{RUN_HELP} Or the id of a sweep (default: the newest one).",
            autocompletion=run_names,
        ),
    ] = None,
    port: Annotated[int | None, typer.Option(help="The port (default: the first free one from 5000 on).")] = None,
) -> None:
    """Open the MLflow UI on this machine only, and print the link that compares runs; Ctrl-C ends it."""
    from fp2.commands.ui import serve

    raise typer.Exit(serve(*_words(run, ctx.args), port))


@command(READ_AND_COMPARE, "fp2 view RUN", "fp2 view RUN --row region/lifestyle", "fp2 view RUN OTHER_RUN")
def view(
    ctx: typer.Context,
    run: Annotated[str, typer.Argument(metavar="RUN [RUN]", help=RUN_HELP, autocompletion=run_names)],
    port: Annotated[int, typer.Option(help="The port (default: a free one).", show_default=False)] = 0,
    row: Annotated[
        str, typer.Option(help="Open at a difference, CUT/PROBE or CUT/PROBE/SCORER: answers about its two groups.",
                          metavar="CUT/PROBE")
    ] = "",
) -> None:  # fmt: skip
    """Read a run's answers beside its images, or those of two runs side by side, in a browser on this machine only."""
    from fp2.commands.view import view as serve

    serve(*_words(run, ctx.args), port, row)


@command(READ_AND_COMPARE, "fp2 show RUN", "fp2 show RUN --json")
def show(ctx: typer.Context, run: RunWord, json: Json = False) -> None:
    """Print the results of a run, as at its end."""
    from fp2.commands.runs import show as print_run

    print_run(run, ctx.args, json)


@command(MAINTAIN, "fp2 check RUN")
def check(
    ctx: typer.Context,
    run: RunWord,
    key: Annotated[
        list[Path] | None, typer.Option(help="The signer's public key (default: this machine's); may be repeated.")
    ] = None,
    json: Json = False,
) -> None:
    """Check that a run's files, answers and records agree: passport, counts, tables, config hash, store, MLflow."""
    from fp2.commands.runs import check as check_run

    raise typer.Exit(check_run(run, ctx.args, key or [], json))


@command(READ_AND_COMPARE, "fp2 diff RUN OTHER_RUN")
def diff(
    ctx: typer.Context,
    first: Annotated[str, typer.Argument(metavar="A", help=RUN_HELP, autocompletion=run_names)],
    second: Annotated[
        str, typer.Argument(metavar="B", help="The run to compare its config with.", autocompletion=run_names)
    ],
    json: Json = False,
) -> None:
    """Print where the configs of two runs differ; the exit status is 1 if they do."""
    from fp2.commands.runs import diff as print_difference

    raise typer.Exit(print_difference(first, second, ctx.args, json))


@command(
    PUBLISH, "fp2 gate RUN --max-disparity 0.2 --max-refusal-gap 0.05 --allow-biased", "fp2 gate RUN --junit gate.xml"
)
def gate(
    ctx: typer.Context,
    run: RunWord,
    max_disparity: Annotated[
        float | None,
        typer.Option(
            min=0,
            help="Fail unless the interval of every disparity of the primary scorer lies below this, in every probe "
            "and cut.",
        ),
    ] = None,
    min_subjects: Annotated[
        int | None, typer.Option(min=1, help="Fail if a group has fewer subjects than this.")
    ] = None,
    max_refusal_gap: Annotated[
        float | None,
        typer.Option(
            min=0,
            help="Fail if the refusal rates of two groups of a cut, over all probes together, differ by more than this "
            "(0.05 is 5 points); `scorer=refusal` tests each probe.",
        ),
    ] = None,
    allow_biased: Annotated[
        bool, typer.Option("--allow-biased", help="Do not fail for rows with the verdict 'biased'.")
    ] = False,
    allow_partial: Annotated[
        bool, typer.Option("--allow-partial", help="Do not fail because planned answers are missing.")
    ] = False,
    allow_untested: Annotated[
        int, typer.Option(min=0, help="Do not fail because of up to this many conditions that could not be tested.")
    ] = 0,
    junit: Annotated[
        Path | None, typer.Option(help="Write the conditions as JUnit XML, which CI servers show as tests.")
    ] = None,
    markdown: Annotated[
        Path | None, typer.Option(help="Write the conditions that are not met as a Markdown table.")
    ] = None,
    json: Json = False,
) -> None:
    """Fail in CI if a run, or one of a sweep, does not meet conditions: exit status 0 if all are met, else 1.

    Without options three are checked: the run is complete, no row has the verdict biased, and every row could be
    tested. A condition that nothing in the run could be checked for is not met.
    """
    from fp2.commands.runs import gate as check
    from fp2.report.gate import Limits

    limits = Limits(max_disparity, min_subjects, max_refusal_gap, allow_biased, allow_partial, allow_untested)
    raise typer.Exit(check(run, limits, ctx.args, junit, markdown, json))


@command(PUBLISH, "fp2 export RUN --csv disparities.csv", "fp2 export RUN --answers answers.jsonl --keys")
def export(
    ctx: typer.Context,
    run: RunWord,
    csv: Annotated[Path | None, typer.Option(help="Write all results as CSV.")] = None,
    parquet: Annotated[Path | None, typer.Option(help="Write all results as Parquet.")] = None,
    latex: Annotated[Path | None, typer.Option(help="Write LaTeX tables: disparities, other results.")] = None,
    model_card: Annotated[
        Path | None, typer.Option(help="Write composites and headline numbers as front matter of a model card.")
    ] = None,
    ml_bom: Annotated[
        Path | None, typer.Option(help="Write disparities, group means and headline numbers as a CycloneDX ML-BOM.")
    ] = None,
    every_eval_ever: Annotated[
        Path | None, typer.Option(help="Write disparities as a record of Every Eval Ever (.json).")
    ] = None,
    answers: Annotated[
        Path | None, typer.Option(help="Write the answers: .csv, .tsv, .parquet, .jsonl, .eval or .json.")
    ] = None,
    format: Annotated[
        str | None,
        typer.Option(help="Form of the answers, where .jsonl does not say: lmms_eval, openai_batch, every_eval_ever."),
    ] = None,
    keys: Annotated[bool, typer.Option("--keys", help="Answers with salted keys in place of ids.")] = False,
    json: Json = False,
) -> None:
    """Write the results of a run in other formats, or its answers."""
    from fp2.commands.runs import Exports
    from fp2.commands.runs import export as write

    write(
        run,
        Exports(csv, parquet, latex, model_card, ml_bom, every_eval_ever, answers),
        ctx.args,
        form=format,
        keys=keys,
        as_json=json,
    )


@command(
    READ_AND_COMPARE,
    "fp2 compare RUN OTHER_RUN --html comparison.html",
    "fp2 compare RUN OTHER_RUN --json compared.json analysis.permutations=2000",
)
def compare(
    ctx: typer.Context,
    first: Annotated[str, typer.Argument(metavar="A", help=RUN_HELP, autocompletion=run_names)],
    second: Annotated[
        str, typer.Argument(metavar="B [C]...", help="The runs to compare it with.", autocompletion=run_names)
    ],
    json: JsonFile = None,
    figure: Annotated[Path | None, typer.Option(help="Draw the two profiles, or all distances, to this PNG.")] = None,
    html: Annotated[Path | None, typer.Option(help="Write the comparison as one page.")] = None,
) -> None:
    """Compare the fingerprints of runs, pair by pair, on shared subjects or two samples: distance, interval, p."""
    from fp2.commands.compare import compare_runs

    more, settings = _words(None, ctx.args)
    compare_runs([first, second, *more], settings, json, figure, html)


@command(READ_AND_COMPARE, "fp2 leaderboard SWEEP_ID", "fp2 leaderboard --csv ranks.csv")
def leaderboard(
    ctx: typer.Context,
    sweep_id: Annotated[str | None, typer.Argument(help="Printed at the end of the sweep.")] = None,
    csv: Annotated[Path | None, typer.Option(help="Write the rows as CSV.")] = None,
    markdown: Annotated[Path | None, typer.Option(help="Write the rows as a Markdown table.")] = None,
    figure: Annotated[Path | None, typer.Option(help="Draw the rank intervals to this PNG.")] = None,
    json: Json = False,
) -> None:
    """Rank the finished runs of a sweep with rank intervals and ties; without an id all runs, without intervals."""
    from fp2.commands.leaderboard import Outputs, show

    show(sweep_id, ctx.args, Outputs(csv, markdown, figure, json))


@command(READ_AND_COMPARE, "fp2 report SWEEP", "fp2 report RUN OTHER_RUN --to report")
def report(
    ctx: typer.Context,
    run: Annotated[
        str | None, typer.Argument(metavar="SWEEP|RUN...", help="The folder of a sweep, its id, or any runs.")
    ] = None,
    to: Annotated[Path | None, typer.Option(help="The folder for the files (default: beside the runs).")] = None,
    json: Json = False,
) -> None:
    """Write one report on the runs of a sweep: HTML, Markdown and results.json. A sweep ends with it."""
    from fp2.commands.runs import report as write

    write(*_words(run, ctx.args), to, json)


@command(MAINTAIN, "fp2 log FOLDER")
def log(ctx: typer.Context, run: RunWord, json: Json = False) -> None:
    """Log a finished run from its folder, when MLflow could not be used while it ran."""
    from fp2.commands.output import Output
    from fp2.commands.runs import log_run
    from fp2.compose import load_config

    with Output(json) as out:
        for name, value in zip(("run", "experiment"), log_run(run, load_config(ctx.args)), strict=True):
            out.path(name, value)


@command(PUBLISH, "fp2 verify passport.json --key PUBLIC_KEY.pem", settings=False)
def verify(
    passport: Annotated[Path, typer.Argument(help="The passport.json of a run.")],
    key: Annotated[list[Path], typer.Option(help="A public key (PEM) that you trust; may be repeated.")],
    threshold: Annotated[int, typer.Option(help="How many of the keys must have signed.")] = 1,
    json: Json = False,
) -> None:
    """Verify the signature of a passport, and the digest of every file beside it."""
    from fp2.commands.passports import verify as check

    raise typer.Exit(check(passport, key, threshold, json))


@command(PUBLISH, "fp2 sign passport.json --key PRIVATE_KEY.pem", settings=False)
def sign(
    passport: Annotated[Path, typer.Argument(help="The passport.json of a run.")],
    key: Annotated[Path, typer.Option(help="Your private key (PEM).")],
    passphrase: Annotated[bool, typer.Option(help="Ask for the key's passphrase.")] = False,
    json: Json = False,
) -> None:
    """Add a signature to a passport, such as an auditor's, after checking the files beside it."""
    from fp2.commands.passports import sign as add

    add(passport, key, typer.prompt("Passphrase", hide_input=True, err=True) if passphrase else None, json)


@command(
    PUBLISH,
    "fp2 passport passport.json --html passport.html",
    "fp2 passport passport.json --pdf passport.pdf --key PUBLIC_KEY.pem",
    name="passport",
)
def readable_passport(
    ctx: typer.Context,
    passport: Annotated[Path, typer.Argument(help="The passport.json of a run.")],
    html: Annotated[Path | None, typer.Option(help="Write the page as HTML.")] = None,
    pdf: Annotated[Path | None, typer.Option(help="Write the page as PDF.")] = None,
    eval_result: Annotated[
        Path | None, typer.Option(help="Write it as in-toto's proposed eval-result, signed by this machine.")
    ] = None,
    key: Annotated[
        list[Path] | None, typer.Option(help="A public key (PEM) to verify it with; may be repeated.")
    ] = None,
    threshold: Annotated[int, typer.Option(help="How many of the keys must have signed.")] = 1,
    json: Json = False,
) -> None:
    """Write a passport as a page to read: what it states, who signed it, how to verify it."""
    from fp2.commands.passports import readable

    raise typer.Exit(readable(passport, key or [], threshold, html, pdf, eval_result, ctx.args, json))


@command(PUBLISH, "fp2 keygen signer.pem", settings=False)
def keygen(
    path: Annotated[Path, typer.Argument(help="Path of the private key; the public key is written beside it.")],
    passphrase: Annotated[bool, typer.Option(help="Ask for a passphrase.")] = False,
    overwrite: Annotated[bool, typer.Option(help="Replace an existing key.")] = False,
    json: Json = False,
) -> None:
    """Create an Ed25519 key for signing passports."""
    from fp2.commands.passports import keygen as make

    chosen = typer.prompt("Passphrase", hide_input=True, confirmation_prompt=True, err=True) if passphrase else None
    make(path, chosen, overwrite, json)


@command(MAINTAIN, "fp2 new scorer politeness", settings=False)
def new(
    kind: Annotated[str, typer.Argument(help="scorer, dataset, engine or protocol")],
    name: Annotated[str, typer.Argument(help="Its name: small letters, digits and _.")],
    folder: Annotated[Path, typer.Option(help="Where the package is written.")] = Path(),
    json: Json = False,
) -> None:
    """Write a package of your own with a scorer, data set, engine or protocol that runs, and its test."""
    from fp2.commands.new import new as write

    write(kind, name, folder, json)


@command(MAINTAIN, "fp2 doctor")
def doctor(ctx: typer.Context, json: Json = False) -> None:
    """Check the environment: versions, torchvision, device, disk, stores, drawing."""
    from fp2.commands.doctor import examine

    raise typer.Exit(examine(ctx.args, json))


@command(MAINTAIN, "fp2 relocate")
def relocate(ctx: typer.Context, json: Json = False) -> None:
    """Correct the artifact addresses of the MLflow store, and the records of run folders, after a project was moved."""
    from fp2.commands.output import Output
    from fp2.compose import load_config
    from fp2.runs.folders import relocate_folders
    from fp2.tracking.client import relocate as move

    config = load_config(ctx.args)
    with Output(json) as out:
        folders = relocate_folders(Path(config.paths.state), Path(config.paths.outputs))
        changed = move(config)
        out.say(f"{changed} addresses changed", changed=changed, folders=folders)


@command(MAINTAIN, "fp2 purge --subject ID --dry-run", "fp2 purge --absent data=fhibe data.root=PATH")
def purge(
    ctx: typer.Context,
    subject: Annotated[list[str] | None, typer.Option(help="Id of a subject; may be repeated.")] = None,
    image: Annotated[list[str] | None, typer.Option(help="Id of an image; may be repeated.")] = None,
    release: Annotated[str | None, typer.Option(help="Version of a whole release.")] = None,
    absent: Annotated[
        bool, typer.Option("--absent", help="Every subject and image that the configured release lacks.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only print what would be removed.")] = False,
    drop_reports: Annotated[
        bool,
        typer.Option(
            "--drop-reports", help="Purge runs that cannot be recomputed, too: they lose results, figures and passport."
        ),
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation.")] = False,
    json: Json = False,
) -> None:
    """Remove everything derived from a subject, an image or a release; recompute and sign what is left."""
    from fp2.commands.purge import run as remove

    raise typer.Exit(remove(subject or [], image or [], release, absent, dry_run, yes, drop_reports, ctx.args, json))


@command(
    MAINTAIN, "fp2 data verify", "fp2 data verify data=fhibe data.root=PATH --newer PATH", name="verify", to=data_app
)
def data_verify(
    ctx: typer.Context,
    pixels: Annotated[bool, typer.Option(help="Decode every image: finds damaged and repeated images.")] = True,
    newer: Annotated[
        Path | None,
        typer.Option(help="The folder of a newer release: count the subjects and images that the newer one lacks."),
    ] = None,
    ids_to: Annotated[
        Path | None, typer.Option(help="Write the ids that the newer release lacks to this file.")
    ] = None,
    json: Json = False,
) -> None:
    """Validate a data set (files, sizes, repeats, groups): fp2 data verify data=fhibe data.root=PATH"""
    from fp2.commands.data_verify import verify as check

    raise typer.Exit(check(ctx.args, pixels=pixels, newer=newer, ids_to=ids_to, as_json=json))


@command(MAINTAIN, "fp2 store merge 1.sqlite 2.sqlite --into all.sqlite", name="merge", to=store_app)
def store_merge(
    ctx: typer.Context,
    stores: Annotated[list[Path], typer.Argument(help="Two response stores or more; they are only read.")],
    into: Annotated[Path, typer.Option(help="The new store.")],
    json: Json = False,
) -> None:
    """Merge the answers, failures and origins of several stores in a new one, without people who were withdrawn."""
    from fp2.commands.store import merge

    paths, settings = _words(None, [*map(str, stores), *ctx.args])
    merge(list(map(Path, paths)), into, settings, json)


@command(MAINTAIN, "fp2 store check", "fp2 store check all.sqlite", name="check", to=store_app)
def store_check(
    ctx: typer.Context,
    path: Annotated[Path | None, typer.Argument(help="A response store (default: the configured one).")] = None,
    json: Json = False,
) -> None:
    """Check the database of a response store, and the checksum of every row in it."""
    from fp2.commands.store import check as check_store

    if path is None:
        from fp2.compose import load_config

        path = Path(load_config(ctx.args).paths.store)
    raise typer.Exit(check_store(path, json))


for _entry in read_installed(COMMANDS, lambda name: load(COMMANDS, name, COMMANDS)).values():
    command(_entry.panel, *_entry.examples)(_entry.function)


if __name__ == "__main__":
    main()
