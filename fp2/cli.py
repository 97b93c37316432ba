"""The `fp2` command: declares commands and options; the work is in `fp2.commands`."""

from __future__ import annotations

import difflib
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, TypeVar

import typer
from typer._click.core import Context
from typer._click.exceptions import ClickException, MissingParameter, NoArgsIsHelpError, NoSuchOption, UsageError
from typer.core import CompletionItem, TyperArgument, TyperCommand  # type: ignore[attr-defined]

from fp2.commands.arguments import (
    EVALUATE,
    MAINTAIN,
    PUBLISH,
    READ_AND_COMPARE,
    RUN_HELP,
    Json,
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
_GROUPS = {None: app, "data": data_app, "store": store_app}
_F = TypeVar("_F", bound=Callable[..., None])


class _WithSettings(TyperCommand):
    """A command that takes overrides: the shell completes `group=choice`."""

    def parse_args(self, ctx: Context, args: list[str]) -> list[str]:
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

    def shell_complete(self, ctx: Context, incomplete: str) -> list[CompletionItem]:
        from fp2.commands.completion import settings

        return [*map(CompletionItem, settings(ctx.args, incomplete)), *super().shell_complete(ctx, incomplete)]


class _RunSettings(_WithSettings):
    """The command whose flags are Hydra's, which reads them itself."""

    parse_args = TyperCommand.parse_args


def command(
    panel: str,
    *examples: str,
    name: str | None = None,
    to: typer.Typer = app,
    settings: bool = True,
    own_help: bool = False,
) -> Callable[[_F], _F]:
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


for _entry in read_installed(COMMANDS, lambda name: load(COMMANDS, name, COMMANDS)).values():
    command(
        _entry.panel, *_entry.examples, name=_entry.name, to=_GROUPS[_entry.group], settings=_entry.settings
    )(_entry.function)  # fmt: skip


if __name__ == "__main__":
    main()
