"""Runs logged to a PostgreSQL server that the test starts, and through an MLflow server that keeps the files.

The files lie in a folder, or in a bucket of an S3 server on this machine (moto's).
"""

from __future__ import annotations

import getpass
import importlib.util
import io
import multiprocessing
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from bench import Bench, files_in, fp2, run_child

from fp2.errors import EXIT_NOT_LOGGED
from fp2.tracking.client import shown_uri

PASSWORD = "a-secret-of-the-database"
BINARIES = next(iter(sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), reverse=True)), None)
INITDB = BINARIES or (Path(found) if (found := shutil.which("initdb")) else None)
needs_server = pytest.mark.skipif(
    INITDB is None or importlib.util.find_spec("psycopg") is None,
    reason="PostgreSQL or the extra `postgres` is not installed",
)
needs_s3 = pytest.mark.skipif(
    importlib.util.find_spec("moto") is None or importlib.util.find_spec("boto3") is None,
    reason="boto3 or the S3 server of moto is not installed",
)


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


@pytest.fixture(scope="module")
def database() -> Iterator[str]:
    """The address of a new PostgreSQL server on this machine."""
    assert INITDB is not None
    user = "postgres" if os.getuid() == 0 else getpass.getuser()  # it refuses to run as root
    folder = Path(tempfile.mkdtemp(prefix="fp2-postgres-"))
    secret = folder / "password"
    secret.write_text(PASSWORD, encoding="utf-8")
    if os.getuid() == 0:
        for path in (folder, secret):
            shutil.chown(path, user)
    port, data = free_port(), folder / "data"
    with_password = ["-A", "scram-sha-256", f"--pwfile={secret}"]
    subprocess.run(
        [INITDB, "-D", data, "-U", "fp2", "--no-sync", *with_password],
        check=True,
        capture_output=True,
        user=user,
        cwd=folder,
    )
    server = subprocess.Popen(
        [INITDB.with_name("postgres"), "-D", data, "-p", str(port), "-k", folder, "-h", "127.0.0.1", "-F"],
        user=user,
        cwd=folder,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        until = time.monotonic() + 30
        while not _answers(port) and time.monotonic() < until:
            time.sleep(0.1)
        yield f"postgresql://fp2:{PASSWORD}@127.0.0.1:{port}/postgres"
    finally:
        server.send_signal(signal.SIGINT)  # without waiting for connections that are still open
        server.wait(30)
        shutil.rmtree(folder, ignore_errors=True)


def _answers(port: int) -> bool:
    with suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
        return True
    return False


@needs_server
def test_runs_that_start_at_once_on_an_empty_database_are_both_logged(bench: Bench, database: str) -> None:
    import mlflow

    context = multiprocessing.get_context("spawn")
    results = context.Queue()
    words = ["tracking=mlflow", f"tracking.uri={database}", f"tracking.artifacts={(bench.root / 'shared').as_uri()}"]
    both = [
        context.Process(target=run_child, args=(str(bench.root), str(bench.pictures), [*words, f"seed={n}"], results))
        for n in (1, 2)
    ]
    for one in both:
        one.start()
    assert [results.get(timeout=600) for _ in both] == [(0, "")] * 2
    for one in both:
        one.join()
    client = mlflow.MlflowClient(tracking_uri=database)
    runs = client.search_runs(["1"])
    assert [run.info.status for run in runs] == ["FINISHED"] * 2
    assert len(client.search_logged_models(["1"])) == 1
    for run in runs:
        assert run.info.artifact_uri.startswith((bench.root / "shared" / "fingerprint").as_uri())
    assert "passport.json" in " ".join(files_in(bench.root / "shared"))
    assert [path for path in bench.root.rglob("*") if path.is_file() and PASSWORD.encode() in path.read_bytes()] == []


@needs_server
@pytest.mark.package(name="several_runs")
def test_an_interrupted_log_is_resumed_and_a_run_is_found_and_repeated(
    bench: Bench, database: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from fp2.tracking.client import Tracker
    from fp2.tracking.files import logged_runs, remove

    words = ("tracking=mlflow", f"tracking.uri={database}", "tracking.experiment=late")
    with monkeypatch.context() as patch:
        patch.setattr(Tracker, "log", lambda *_: (_ for _ in ()).throw(OSError("the database went away")))
        outcome = bench.run(*words)
    assert outcome.exit_status == EXIT_NOT_LOGGED
    mine = [f"tracking.uri={database}", "tracking.experiment=late", *bench.paths]
    assert fp2("log", str(outcome.folder), *mine) == 0
    assert fp2("leaderboard", *mine) == 0
    assert fp2("check", outcome.run_id, *mine) == 0
    said = capsys.readouterr()
    assert outcome.run_id[:8] in said.out
    assert PASSWORD not in said.out + said.err
    config = bench.config(*words)
    (logged,) = [run for run in logged_runs(config) if run.run_id == outcome.run_id]
    assert count(database, outcome.run_id) > 0
    remove(logged, config)  # what a purge does
    assert count(database, outcome.run_id) == 0


def count(database: str, run_id: str) -> int:
    """Return how many metrics of a run the database has."""
    import sqlalchemy

    with sqlalchemy.create_engine(database, poolclass=sqlalchemy.NullPool).connect() as connection:
        query = sqlalchemy.text("SELECT count(*) FROM metrics WHERE run_uuid = :run")
        return int(connection.execute(query, {"run": run_id}).scalar_one())


@contextmanager
def served(destination: str, cwd: Path, **env: str) -> Iterator[str]:
    """Serve MLflow on this machine, with the files of its runs at `destination`; the address."""
    address = f"http://127.0.0.1:{free_port()}"
    off = {"MLFLOW_DISABLE_TELEMETRY": "true", "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"}
    server = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "mlflow",
            "server",
            "--serve-artifacts",
            "--artifacts-destination",
            destination,
            "--host",
            "127.0.0.1",
            "--port",
            address.rpartition(":")[2],
            "--workers",
            "1",
        ],
        env={**os.environ, **off, **env},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd=cwd,
    )
    try:
        until = time.monotonic() + 300
        while time.monotonic() < until:
            with suppress(OSError), urllib.request.urlopen(f"{address}/health", timeout=2):
                break
            assert server.poll() is None, "the server ended"
            time.sleep(0.3)
        yield address
    finally:
        server.terminate()
        server.wait(30)


@needs_server
def test_files_go_through_the_server_to_where_it_keeps_them(bench: Bench, database: str, tmp_path: Path) -> None:
    kept = tmp_path / "bucket"
    with served(kept.as_uri(), tmp_path, MLFLOW_BACKEND_STORE_URI=database) as address:
        uri = f"tracking.uri={address}"
        outcome = bench.run("tracking=mlflow", uri, "tracking.experiment=served")
        assert outcome.exit_status == 0
        assert any(name.endswith("passport.json") for name in files_in(kept))
        assert fp2("check", outcome.run_id, uri, "tracking.experiment=served", *bench.paths) == 0
        assert not (bench.root / "mlruns").exists()


@pytest.fixture
def bucket() -> Iterator[tuple[Any, dict[str, str]]]:
    """A bucket of an S3 server on this machine, and the environment that reaches it."""
    import boto3
    from moto.server import ThreadedMotoServer

    keys = {"AWS_ACCESS_KEY_ID": "a-key", "AWS_SECRET_ACCESS_KEY": "a-secret-of-the-bucket"}
    server = ThreadedMotoServer("127.0.0.1", free_port(), verbose=False)
    server.start()
    address = "http://{}:{}".format(*server.get_host_and_port())
    try:
        env = {**keys, "AWS_DEFAULT_REGION": "us-east-1", "MLFLOW_S3_ENDPOINT_URL": address}
        at = {"aws_access_key_id": keys["AWS_ACCESS_KEY_ID"], "aws_secret_access_key": keys["AWS_SECRET_ACCESS_KEY"]}
        made = boto3.resource("s3", endpoint_url=address, region_name="us-east-1", **at).Bucket("runs")
        made.create()
        yield made, env
    finally:
        urllib.request.urlopen(f"{address}/moto-api/reset", data=b"").close()  # it outlives its server
        server.stop()


def held(bucket: Any, run_id: str, name: str) -> bytes:
    """Return a file of a run as the bucket has it."""
    (key,) = [one.key for one in bucket.objects.all() if one.key.endswith(f"/{run_id}/artifacts/{name}")]
    return bytes(bucket.Object(key).get()["Body"].read())


@pytest.mark.package(name="reruns")
@pytest.mark.package(name="withdrawal")
@needs_s3
def test_a_bucket_behind_the_server_has_the_files_and_only_the_server_its_keys(
    bench: Bench, bucket: tuple[Any, dict[str, str]], tmp_path: Path
) -> None:
    kept, keys = bucket
    store = f"sqlite:///{tmp_path / 'served.db'}"
    with served("s3://runs/fp2", tmp_path, MLFLOW_BACKEND_STORE_URI=store, **keys) as address:
        where = [f"tracking.uri={address}", "tracking.experiment=served", *bench.paths]
        outcome = bench.run("tracking=mlflow", *where[:2])
        assert outcome.exit_status == 0
        for name in ("results.json", "passport.json", "people.parquet", "responses.parquet"):
            assert held(kept, outcome.run_id, name) == (outcome.folder / name).read_bytes(), name
        people = pd.read_parquet(outcome.folder / "people.parquet")
        shutil.rmtree(bench.outputs)  # the bucket alone has them now
        assert fp2("rerun", outcome.run_id, *where) == 0
        image = pd.read_csv(bench.table)["file"][0]
        assert fp2("purge", "--image", image, "--yes", *where) == 0
        assert len(pd.read_parquet(io.BytesIO(held(kept, outcome.run_id, "people.parquet")))) == len(people) - 1
    assert not (bench.root / "mlruns").exists()


@needs_s3
def test_a_run_writes_into_a_bucket_itself_and_a_purge_empties_it(
    bench: Bench, bucket: tuple[Any, dict[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    from fp2.tracking.files import logged_runs, remove

    kept, keys = bucket
    for name, value in keys.items():
        monkeypatch.setenv(name, value)
    words = ("tracking=mlflow", "tracking.artifacts=s3://runs/own", "tracking.experiment=own")
    outcome = bench.run(*words)
    assert outcome.exit_status == 0
    assert held(kept, outcome.run_id, "results.json") == (outcome.folder / "results.json").read_bytes()
    config = bench.config(*words)
    (logged,) = logged_runs(config)
    remove(logged, config)
    assert [one.key for one in kept.objects.all() if outcome.run_id in one.key] == []
    secret = keys["AWS_SECRET_ACCESS_KEY"].encode()
    assert [path for path in bench.root.rglob("*") if path.is_file() and secret in path.read_bytes()] == []


def test_a_driver_that_is_missing_is_one_line_and_costs_no_answer(
    bench: Bench, capsys: pytest.CaptureFixture[str]
) -> None:
    uri = f"tracking.uri=postgresql+fp2nodriver://me:{PASSWORD}@127.0.0.1:1/x"
    assert bench.launch("tracking=mlflow", uri) == EXIT_NOT_LOGGED
    said = capsys.readouterr()
    assert "MLflow" in said.err
    assert PASSWORD not in said.out + said.err


def test_an_address_is_shown_without_its_password() -> None:
    assert shown_uri(f"postgresql://me:{PASSWORD}@host:5432/runs") == "postgresql://host:5432/runs"
    assert shown_uri(f"https://me:p@{PASSWORD}@host/x") == "https://host/x"
    assert shown_uri("sqlite:////a@b/mlflow.db") == "sqlite:////a@b/mlflow.db"
