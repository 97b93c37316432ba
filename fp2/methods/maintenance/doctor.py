"""`fp2 doctor`: check the environment for what would make a run fail."""

from __future__ import annotations

import importlib.metadata
import json
import os
import shutil
import stat
import sys
import tomllib
from collections.abc import Callable, Sequence
from pathlib import Path

from rich.text import Text

from fp2.extension import DATA, Config, Fp2Error, Terminal, load, load_config, plural, printable, read_installed

Check = tuple[bool, str]
NEEDED_FREE_GB = 2.0
MOUNTS = Path("/proc/self/mounts")
NETWORK_DISKS = frozenset(
    {"nfs", "nfs4", "cifs", "smb3", "smbfs", "lustre", "gpfs", "beegfs", "afs", "ceph", "glusterfs", "9p", "ncpfs"}
)


def examine(overrides: Sequence[str], as_json: bool = False) -> int:
    """Print one line per check, or all as JSON; return 0 if all pass, else 1."""
    config = load_config(overrides)
    console = Terminal()
    checks: tuple[Callable[[Config], Check], ...] = (
        _python,
        _packages,
        _conflicts,
        _torchvision,
        _device,
        _workers,
        _disk,
        _local_disk,
        _store,
        _tracking,
        _modes,
    )
    of_data_sets = read_installed(DATA, lambda name: load(DATA, name, "data").check_installation()).values()
    results = [*(check(config) for check in checks), *(check for check in dict.fromkeys(of_data_sets) if check)]
    if as_json:
        print(json.dumps([{"ok": well, "line": text} for well, text in results], indent=2))
    for well, text in results if not as_json else ():
        mark = Text("ok    " if well else "failed", style="green" if well else "red")
        console.print(mark + Text(f" {printable(text)}", style="none"))
    return 0 if all(well for well, _ in results) else 1


def _python(config: Config) -> Check:
    return sys.version_info >= (3, 11), f"Python {sys.version.split()[0]} (3.11 or newer is required)"


def _packages(config: Config) -> Check:
    """Check that every requirement, and every requirement of those, is installed in a version that satisfies it."""
    from packaging.requirements import Requirement
    from packaging.utils import canonicalize_name

    wrong: dict[str, None] = {}
    pending, checked = [(text, "") for text in _required()], set()
    while pending:
        text, by = pending.pop()
        need = Requirement(text)
        extras = sorted(need.extras) or [""]
        if need.marker is not None and not need.marker.evaluate({"extra": ""}):
            continue
        try:
            have = importlib.metadata.version(need.name)
        except importlib.metadata.PackageNotFoundError:
            wrong[f"{need.name} is missing{by}"] = None
            continue
        if not need.specifier.contains(have, prereleases=True):
            wrong[f"{need.name} {have} is not {need.specifier}{by}"] = None
        mark = (canonicalize_name(need.name), *extras)
        if mark not in checked:
            checked.add(mark)
            pending += [(requirement, f", which {need.name} needs") for requirement in _of(need.name, extras)]
    return not wrong, "packages" + (f": {'; '.join(sorted(wrong))}; run: make setup" if wrong else " as required")


def _conflicts(config: Config) -> Check:
    """Check that no other installed package needs what is required here in another version, as vLLM does."""
    from packaging.requirements import Requirement

    wrong = set()
    for package in importlib.metadata.distributions():
        for need in map(Requirement, package.requires or ()):
            if need.marker is not None and not need.marker.evaluate({"extra": ""}):
                continue
            try:
                have = importlib.metadata.version(need.name)
            except importlib.metadata.PackageNotFoundError:
                continue  # missing: of a package that is not required here, or `_packages` says so
            if not need.specifier.contains(have, prereleases=True):
                wrong.add(f"{package.name} needs {need.name}{need.specifier}, and {have} is installed")
    cure = "uninstall one, or install it in a separate environment (vLLM can run as a server: engine=openai_compat)"
    return (
        not wrong,
        f"{'; '.join(sorted(wrong))}: {cure}" if wrong else "all installed packages meet each other's requirements",
    )


def _of(name: str, extras: Sequence[str]) -> list[str]:
    """Return the requirements of an installed package with these extras that apply here, without their markers."""
    from packaging.requirements import Requirement

    requirements = [Requirement(text) for text in importlib.metadata.requires(name) or []]
    apply = [
        requirement
        for requirement in requirements
        if requirement.marker is None or any(requirement.marker.evaluate({"extra": e}) for e in extras)
    ]
    for requirement in apply:
        requirement.marker = None
    return [str(requirement) for requirement in apply]


def _required() -> list[str]:
    """Return the requirements of the installed package, or of this checkout."""
    try:
        return importlib.metadata.requires("fp2") or []
    except importlib.metadata.PackageNotFoundError:
        project = Path(__file__).resolve().parents[2] / "pyproject.toml"
        return list(tomllib.loads(project.read_text(encoding="utf-8"))["project"]["dependencies"])


def _torchvision(config: Config) -> Check:
    """Check torchvision: one that does not match torch breaks all of transformers."""
    try:
        importlib.metadata.version("torchvision")
    except importlib.metadata.PackageNotFoundError:
        return True, "no torchvision (not required)"
    try:
        import torchvision  # type: ignore[import-not-found]  # noqa: F401
    except Exception as error:
        first = str(error).splitlines()[0]
        return False, f"torchvision does not match this torch ({first}): pip uninstall torchvision"
    return True, "torchvision matches torch (its resizing is not used)"


def _device(config: Config) -> Check:
    import torch

    from fp2.extension import device_of

    wanted = device_of(config.engine)
    if wanted.startswith("cuda") and not torch.cuda.is_available():
        return False, f"engine.device={wanted}, but torch sees no GPU: set engine.device=cpu"
    if torch.cuda.is_available():
        return True, f"torch {torch.__version__} on {torch.cuda.get_device_name()}"
    built = f" (built for CUDA {torch.version.cuda}: the CPU build takes less disk)" if torch.version.cuda else ""
    return True, f"torch {torch.__version__} on CPU, {torch.get_num_threads()} threads{built}"


def _workers(config: Config) -> Check:
    """Check the processes that share one model's questions: their GPUs, or Ray."""
    from fp2.extension import WorkerOptions, worker_devices

    options = config.engine
    try:
        devices = worker_devices(options) if isinstance(options, WorkerOptions) else []
        if isinstance(options, WorkerOptions) and options.ray is not None:
            return True, f"Ray {importlib.metadata.version('ray')}"
    except importlib.metadata.PackageNotFoundError:
        return False, "workers: Ray is not installed: pip install 'fp2[ray]'"
    except Fp2Error as error:
        return False, f"workers: {error}"
    import torch

    n_devices = torch.cuda.device_count()
    if missing := [name for name in devices if name.startswith("cuda:") and int(name[5:]) >= n_devices]:
        return (
            False,
            f"engine.devices names {missing[0]}, but torch sees {plural(n_devices, 'GPU')}: install its build for GPUs",
        )
    return True, f"{len(devices)} worker processes" if devices else "the model runs in one process"


def _disk(config: Config) -> Check:
    folder = Path(config.paths.root)
    free = shutil.disk_usage(folder).free / 1e9
    return free >= NEEDED_FREE_GB, f"{free:.1f} GB free in {folder.resolve()} ({NEEDED_FREE_GB:.0f} GB are required)"


def _local_disk(config: Config) -> Check:
    """Check that no store is on a network disk, where SQLite's write-ahead log does not work."""
    from fp2.extension import database_file, tracking_uri

    advice_of = {Path(config.paths.store): "set paths.state to a local folder, and join stores with fp2 store merge"}
    if (database := database_file(tracking_uri(config))) is not None:
        advice_of[database] = "set tracking.uri to a server or to PostgreSQL"
    for path, cure in advice_of.items():
        folder = path.resolve().parent
        kind = _file_system(folder)
        if kind in NETWORK_DISKS or kind.startswith("fuse."):
            return False, f"{folder} is on a network disk ({kind}), where SQLite's write-ahead log is not safe: {cure}"
    return True, "the stores are on local disks"


def _file_system(folder: Path) -> str:
    """Return the type of the file system that holds `folder`, empty where /proc does not say."""
    try:
        mounts_text = MOUNTS.read_text(encoding="utf-8").splitlines()
    except OSError:
        return ""
    mounts = {
        Path(fields[1].replace("\\040", " ")): fields[2] for fields in map(str.split, mounts_text) if len(fields) > 2
    }
    return next((mounts[path] for path in (folder, *folder.parents) if path in mounts), "")


def _store(config: Config) -> Check:
    from fp2.extension import ResponseStore

    try:
        with ResponseStore(Path(config.paths.store)) as store:
            n = store.connection.execute("SELECT count(*) FROM answers").fetchone()[0]
    except Fp2Error as error:
        return False, f"response store: {error}"
    return True, f"response store with {n} answers"


def _tracking(config: Config) -> Check:
    from fp2.extension import check_store, refuse_foreign_artifacts, shown_uri, summaries, tracking_uri

    try:
        check_store(config)
        refuse_foreign_artifacts(config)
        n = len({row["run_id"] for row in summaries(config)})
    except Fp2Error as error:
        if "no MLflow store yet" in str(error):
            return True, "no MLflow store yet (the first run creates it)"
        return False, f"MLflow: {error}"
    ignored = config.tracking.uri is None and os.environ.get("MLFLOW_TRACKING_URI")
    note = f" (MLFLOW_TRACKING_URI is not read: set tracking.uri={shown_uri(ignored)} to log there)" if ignored else ""
    return True, f"MLflow store with {n} finished runs at {shown_uri(tracking_uri(config))}{note}"


def _modes(config: Config) -> Check:
    """Check that others on this host cannot read answers or keys: an existing file or folder keeps its mode."""
    from fp2.extension import database_file, tracking_uri

    stores = [Path(config.paths.store), Path(config.paths.state) / "salt"]
    if (database := database_file(tracking_uri(config))) is not None:
        stores += [database, database.parent / "artifacts"]
    readable = [str(path) for path in stores if path.exists() and _others_reach(path)]
    if readable:
        return True, f"others on this host can read {', '.join(readable)}; if they should not: chmod go= with each"
    return True, "the stores are readable by their owner only"


def _others_reach(path: Path) -> bool:
    """Whether its group or all may read a file or folder, and enter every folder above it."""
    path = path.resolve()
    modes = [folder.stat().st_mode for folder in path.parents]
    rights = ((stat.S_IRGRP, stat.S_IXGRP), (stat.S_IROTH, stat.S_IXOTH))
    return any(path.stat().st_mode & read and all(mode & enter for mode in modes) for read, enter in rights)
