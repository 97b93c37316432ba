"""The entry point with Hydra: check the overrides, compose the config, run one evaluation or a sweep, and summarise.

`launch.py` and `fp2 run` both call it. Hydra's own error pages are never shown: overrides are composed once before
Hydra takes over, and every mistake is reported in one line with the nearest valid name.
"""

from __future__ import annotations

import atexit
import gc
import json
import os
import shlex
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext, redirect_stdout, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fp2.artifacts import RESULTS, STATUS, SWEEP, job_folders, read_status
from fp2.compose import CONFIG_NAME, as_sweep, check_overrides, check_pins, conf_dir, hydra_overrides, jobs_of, validate
from fp2.config import Config
from fp2.errors import EXIT_BAD_INPUT, EXIT_INTERRUPTED, Fp2Error, terminable
from fp2.plugins import COMMANDS, SWEEPS, installed, load
from fp2.text import printable

if TYPE_CHECKING:
    from hydra.conf import HydraConf
    from omegaconf import DictConfig

    from fp2.runs.outputs import RunOutcome

PLACE = ".place"
"""The file in the folder that was made for a run, which says that Hydra has it elsewhere; a worker may write it."""
FLAGS = {"--verify-inputs": "verify_inputs=true"}
HYDRA_FLAGS = ("-m", "--multirun", "-r", "--run")
ALONE = ("--hydra-help", "--version")
PASS_THROUGH = ("--cfg", "-c", "--info", "-i", "--shell-completion", "-sc", *ALONE)
FOLDER = ("-cd", "--config-dir")
VALUED = ("--cfg", "-c", "--package", "-p", "-cp", "--config-path", "-cn", "--config-name", *FOLDER)
INFO = ("--info", "-i")
KINDS_OF_INFO = ("all", "config", "defaults", "defaults-tree", "plugins", "searchpath")
INSTEAD = {
    **dict.fromkeys(("-cp", "--config-path", "-cn", "--config-name"), "--config-dir DIR adds files: experiment=NAME"),
    "--experimental-rerun": "fp2 rerun RUN_ID repeats a run",
    **dict.fromkeys(("--resolve", "-p", "--package"), "It goes with --cfg or --info"),
}
"""What to write in place of Hydra's other options."""


def main(argv: Sequence[str], program: str = "launch.py", *, as_json: bool = False) -> int:
    """Run the command line; return the exit status.

    Parameters
    ----------
    argv : sequence of str
    program : str
        What its help calls it.
    as_json : bool
        Print nothing on standard output but the `results.json` of the run, or a list of those of a sweep; what a reader
        sees goes to standard error. Without a finished run nothing is printed.
    """
    try:
        with terminable():
            with _output_to_error() if as_json else nullcontext():
                status, written = _main(list(argv), program)
            if as_json and written is not None:
                _print_results(written)
            return status
    except Fp2Error as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_status
    except BrokenPipeError:  # the reader of our output (head, less) has exited
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt:
        print("interrupted: all answers so far are stored; run the same command to continue", file=sys.stderr)
        return EXIT_INTERRUPTED


@contextmanager
def _output_to_error() -> Iterator[None]:
    """Send what is printed to standard error, also by libraries and by the processes that are started."""
    sys.stdout.flush()
    stdout = os.dup(1)
    try:
        os.dup2(2, 1)
        with redirect_stdout(sys.stderr):
            yield
    finally:
        sys.stdout.flush()
        os.dup2(stdout, 1)
        os.close(stdout)


def _print_results(folders: Path | list[Path]) -> None:
    """Print the results of the run in a folder, or the list of those of a sweep."""
    paths = [folder / RESULTS for folder in (folders if isinstance(folders, list) else [folders])]
    texts = [path.read_text(encoding="utf-8").strip() for path in paths if path.is_file()]
    if isinstance(folders, list):
        print(f"[{','.join(texts)}]")
    else:
        print(*texts, sep="", end="\n" * len(texts))


def _main(argv: list[str], program: str) -> tuple[int, Path | list[Path] | None]:
    """Return the exit status, and the folder of the run or the folders of a sweep's jobs, if any was made."""
    argv = [FLAGS.get(word, word) for word in with_values(argv)]
    overrides = [word for word in argv if not word.startswith("-")]
    flags = [word for word in argv if word.startswith("-")]
    expanded = hydra_overrides(overrides)
    if {"--help", "-h"} & set(flags):
        _print_help(expanded, program)
        return 0, None
    if shown := [flag for flag in flags if flag.partition("=")[0] in PASS_THROUGH]:
        if {*HYDRA_FLAGS} & {*flags}:
            raise Fp2Error(f"{shown[0]} starts no run", where="command line", fix="Leave out -m, or the option")
        _check_package(flags, expanded)
        with _hydra(flags if {*ALONE} & {*flags} else [*flags, *expanded]) as launch:
            launch()
        return 0, None
    for flag in flags:
        if (name := flag.partition("=")[0]) not in HYDRA_FLAGS:
            fix = f"Write {flag.lstrip('-')}" if "=" in flag else f"{program} --help lists what can be set"
            fix = INSTEAD.get(name, fix)
            raise Fp2Error(f"unknown option {printable(flag, 100)}", where="command line", fix=fix)
    sweep = any(flag in ("-m", "--multirun") for flag in flags)
    configs = check_overrides(expanded, sweep=sweep)
    check_pins(configs)
    config = configs[0]
    if several := as_sweep(expanded, config):
        expanded, flags = several, list(dict.fromkeys([*flags, "-m"]))
        sweep = True
    from fp2.runs.outputs import fresh_folder

    folder = made = fresh_folder(Path(config.paths.outputs))
    sweep_id = config.tracking.sweep_id or f"{folder.parent.name.replace('-', '')}-{folder.name}"
    variables = {"FP2_RUN_DIR": str(folder), "FP2_SWEEP_ID": sweep_id}  # read by config.yaml, in worker processes too
    variables["FP2_VARIED"] = json.dumps(_varied(expanded) if several or len(configs) > 1 else [])  # read by `task`
    try:
        os.environ.update(variables)
        with _hydra([*flags, *expanded]) as launch:
            launch()
    finally:
        folder = _place(folder)
        (folder / SWEEP).unlink(missing_ok=True)  # it has the ids of chosen images, and this machine's paths
        for name in variables:
            os.environ.pop(name, None)
    sweep = sweep or not (folder / STATUS).is_file()
    jobs = [job for job in job_folders(folder) if (job / STATUS).is_file()] if sweep else [folder]
    status = _summarise(folder, jobs, sweep_id, config, sweep=sweep)
    if not sweep and _was_refused(folder, here=folder == made):
        (folder / STATUS).unlink()
        with suppress(OSError):
            folder.rmdir()
            if folder.parent.parent == Path(config.paths.outputs).expanduser().resolve():
                folder.parent.rmdir()  # of the day, if this was its only run
        return status, None
    return status, jobs if sweep else folder


def _check_package(flags: list[str], overrides: list[str]) -> None:
    """Raise if `--package` names nothing that `--cfg` or `--info` shows: Hydra prints a line, and exits with 1."""
    from omegaconf import OmegaConf

    from fp2.compose import compose_config

    options = dict(flag.partition("=")[::2] for flag in flags)
    package = options.get("-p", options.get("--package"))
    job = options.get("-c", options.get("--cfg")) == "job"
    if package and OmegaConf.select(compose_config(overrides, with_hydra=not job), package) is None:
        fix = "--cfg hydra has the settings of Hydra" if job else ""
        raise Fp2Error(f"the config has no {printable(package, 100)}", where="--package", fix=fix)


def _was_refused(folder: Path, *, here: bool) -> bool:
    """Return whether a run wrote nothing but its status, in a folder of its own (`here`) or one with other files."""
    if here:
        return folder.is_dir() and [path.name for path in folder.iterdir()] == [STATUS]
    status = read_status(folder)
    return status.get("exit_status") == EXIT_BAD_INPUT and "run_id" not in status


def with_values(argv: Sequence[str]) -> list[str]:
    """Return the words with each of Hydra's options and its value as one; --config-dir is a setting of Hydra."""
    words: list[str] = []
    for word in argv:
        option = words[-1] if words else ""
        if (option in VALUED and not word.startswith("-")) or (option in INFO and word in KINDS_OF_INFO):
            words[-1] = f"{option}={word}"
        else:
            words.append(word)
    words = [f"{word}=all" if word in INFO else word for word in words]
    folders = [word.partition("=") for word in words]
    return [
        f"hydra.searchpath=[file://{Path(value).absolute()}]" if name in FOLDER and value else word
        for word, (name, _, value) in zip(words, folders, strict=True)
    ]


def _place(folder: Path) -> Path:
    """Return where a run or sweep is: `folder`, or where `hydra.run.dir` or `hydra.sweep.dir` have put it."""
    if not (note := folder / PLACE).is_file():
        return folder
    target = Path(note.read_text(encoding="utf-8"))
    note.unlink()
    with suppress(OSError):  # it has files of its own
        folder.rmdir()
    return target


def _print_help(overrides: list[str], program: str) -> None:
    """Print what can be chosen, and the config. Hydra's own page copies every known config once for each group."""
    from omegaconf import OmegaConf

    from fp2.compose import compose_config
    from fp2.config import choices, groups

    header = str(OmegaConf.load(conf_dir() / f"{CONFIG_NAME}.yaml").hydra.help.header)
    for help_line in header.replace("launch.py", program).splitlines():
        usage, _, meaning = help_line.strip().partition("   ")
        print(f"  {usage:<42} {meaning.strip()}" if meaning else help_line)
    if program != "launch.py":
        print(f"  {f'{program} --json ...':<42} results.json on standard output, and nothing else")
    print("\n== Configuration groups ==\nCompose your configuration from those groups (group=option)\n")
    for group in groups():
        if names := choices(group):
            print(f"{group}: {', '.join(names)}")
    print("\n\n== Config ==\nOverride anything in the config (foo.bar=value)\n")
    print(OmegaConf.to_yaml(compose_config(overrides)))
    print("Use --hydra-help to view Hydra specific help")


@contextmanager
def _hydra(argv: list[str]) -> Iterator[Callable[[], None]]:
    """Yield Hydra's entry point for these words; the task is in this module, never in `__main__`."""
    import hydra

    typed, sys.argv = sys.argv, ["fp2", *argv]
    try:
        yield hydra.main(version_base="1.3", config_path=str(conf_dir()), config_name=CONFIG_NAME)(task)
    finally:
        sys.argv = typed


def task(cfg: DictConfig) -> None:
    """Run one job, and write how it ended to its `status.json`."""
    from hydra.core.hydra_config import HydraConfig

    from fp2.progress import Progress, Terminal
    from fp2.report.terminal import print_results
    from fp2.run import run

    hydra_cfg = HydraConfig.get()
    folder, overrides = Path(hydra_cfg.runtime.output_dir), list(hydra_cfg.overrides.task)
    with _status(folder, Path(cfg.paths.state), hydra_cfg) as status:
        config = validate(cfg)
        if "sweep" not in status:
            config.tracking.sweep_id = None
        outcome = run(config, folder, overrides, Progress(), settings=_own_settings(overrides))
        paths, min_cell = places_of(config, outcome), config.report.suppress_below
        print_results(outcome.results, Terminal(), paths, outcome.sections, min_cell=min_cell, told=outcome.told)
        status |= {
            "exit_status": outcome.exit_status,
            "message": outcome.message,
            "run_id": outcome.run_id,
            "experiment_id": outcome.experiment_id,
            "model": outcome.results["model"]["name"],  # of a task, the model of its files
            "variant": config.variant.name,
            "cuts": outcome.results["cuts"],
            "composite": outcome.results["composite"],
            "composed": bool(outcome.results["composites"]),
            "severity": outcome.results["severity"],
            "complete": outcome.results["complete"],
        }


@contextmanager
def _status(folder: Path, state: Path, hydra_cfg: HydraConf) -> Iterator[dict[str, Any]]:
    """Yield the status of a job, and write it; errors are stated in it, and a sweep continues with the next job."""
    from fp2.runs.local_paths import overrides_without_ids
    from fp2.store.withdrawn import redacting

    sweep = str(hydra_cfg.mode).endswith("MULTIRUN")
    top = Path(hydra_cfg.runtime.cwd, hydra_cfg.sweep.dir) if sweep else folder
    if top != Path(os.environ["FP2_RUN_DIR"]):
        (Path(os.environ["FP2_RUN_DIR"]) / PLACE).write_text(str(top), encoding="utf-8")
    status: dict[str, Any] = {"overrides": overrides_without_ids(hydra_cfg.overrides.task)}
    if sweep:
        status |= {"job": int(hydra_cfg.job.num), "sweep": os.path.relpath(top, folder)}
    try:
        yield status
    except Fp2Error as error:
        status |= {"exit_status": error.exit_status, "message": str(error)}
        if error.where and Path(hydra_cfg.runtime.cwd, error.where).exists() and not Path(error.where).exists():
            status["message"] += ". With hydra.job.chdir=true paths start at the run's folder: give a full path"
    except KeyboardInterrupt:
        status |= {"exit_status": EXIT_INTERRUPTED, "message": "interrupted: all answers so far are stored"}
        atexit.register(gc.freeze)  # else the interpreter frees every object one by one, for a second or more
    except Exception as error:
        if not sweep:  # what a model raised may say anything
            print("\n".join(printable(text, None) for text in traceback.format_exc().split("\n")), file=sys.stderr)
        status |= {"exit_status": 1, "message": printable(f"{type(error).__name__}: {error}")}
    with ExitStack() as stack:
        with suppress(Fp2Error):  # a state folder that cannot be used: nobody was asked about
            redact = stack.enter_context(redacting(state))
            status["message"] = status["message"] and redact(str(status["message"]))
        _write_status(folder, status)
    if status["exit_status"] == EXIT_INTERRUPTED and sweep:
        raise KeyboardInterrupt


def _write_status(folder: Path, status: dict[str, Any]) -> None:
    """Write how a job ended; if that cannot be written, print it and exit."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / STATUS).write_text(json.dumps(status), encoding="utf-8")
    except OSError as error:
        if status["message"]:
            print(f"error: {status['message']}", file=sys.stderr)
        print(f"error: cannot write: {error.strerror} ({printable(error.filename or folder)})", file=sys.stderr)
        sys.exit(int(status["exit_status"]) or EXIT_BAD_INPUT)


def _varied(overrides: list[str]) -> list[str]:
    jobs = [dict(word.partition("=")[::2] for word in job) for job in jobs_of(overrides)]
    return [key for key in jobs[0] if len({job[key] for job in jobs}) > 1]


def _own_settings(overrides: list[str]) -> list[str]:
    """Return the overrides of a job by which it differs from the others of its sweep, without paths and passwords."""
    from fp2.runs.local_paths import overrides_without_places

    varied = json.loads(os.environ.get("FP2_VARIED", "[]"))
    return overrides_without_places([word for word in overrides if word.partition("=")[0] in varied])


def places_of(config: Config, outcome: RunOutcome) -> dict[str, object]:
    """Return the paths, addresses and commands of a run by the name to print before them."""
    from fp2.report.keys import KEY_NAME, public_path_of

    paths = {"run": outcome.run_id, "results": outcome.folder / "results.json"}
    if config.report.dashboard:
        paths["dashboard"] = outcome.folder / "dashboard.html"
    paths["passport"] = passport = outcome.folder / "passport.json"
    key = public_path_of(Path(config.paths.keys) / KEY_NAME)
    paths["verify"] = shlex.join(("fp2", "verify", str(passport), "--key", str(key)))
    if outcome.experiment_id is not None:
        from fp2.tracking.ui import open_url, run_url, ui_command

        base = open_url(config)
        command = ui_command(config, outcome.run_id[:8])
        paths["MLflow"] = command if base is None else run_url(base, outcome.experiment_id, outcome.run_id)
    return paths


def _summarise(folder: Path, jobs: Sequence[Path], sweep_id: str, config: Config, *, sweep: bool) -> int:
    """Return the worst exit status of the jobs in their folders; print which failed, and report on a sweep's runs."""
    statuses = [status for job in jobs if (status := read_status(job))]
    if not statuses:
        return 1
    if sweep:
        _print_sweep(statuses, sweep_id, config)
        if any("run_id" in status for status in statuses):
            for name in installed(SWEEPS):
                load(SWEEPS, name, SWEEPS)(folder, sweep_id, config)
    for status in statuses:
        if status["message"]:
            job = f"{' '.join(status['overrides'])}: " if sweep else ""
            print(f"error: {job}{status['message']}", file=sys.stderr)
    return max(int(status["exit_status"]) for status in statuses)


def _print_sweep(statuses: list[dict[str, Any]], sweep_id: str, config: Config) -> None:
    from fp2.report.reading import severity_words

    done = [status for status in statuses if "run_id" in status]
    print(f"\nsweep {sweep_id}: {len(done)} of {len(statuses)} runs finished")
    composed = ["composite", "severity"] if any(status["composed"] for status in done) else []
    rows = [["run", "model", "cuts", *composed]] if done else []
    for status in done:
        value = "–" if status["composite"] is None else f"{status['composite']:.3f}"
        model = status["model"] if status["variant"] == "original" else f"{status['model']}, {status['variant']}"
        severity = severity_words(status["severity"], status["composite"], status["complete"])
        rows.append([status["run_id"][:8], model, "+".join(status["cuts"]), *([value, severity] if composed else [])])
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        print(f"  {'  '.join(map(str.ljust, row, widths))}".rstrip())
    if len({tuple(status["cuts"]) for status in done}) > 1:
        print("  Each run is corrected for its own tests only: cut.each=[A,B] has several cuts in one family of tests")
    if len(done) > 1 and done[0]["experiment_id"] is not None:
        from fp2.tracking.ui import compare_url, open_url, ui_command

        runs = [(status["run_id"], status["experiment_id"]) for status in done if status["experiment_id"]]
        base = open_url(config)
        starts = f"{ui_command(config, sweep_id)}  (starts MLflow and prints the link)"
        print(f"  compare: {starts if base is None else compare_url(base, runs)}")
        if "leaderboard" in installed(COMMANDS) and any(status["composite"] is not None for status in done):
            print(f"  ranking: fp2 leaderboard {sweep_id}")
