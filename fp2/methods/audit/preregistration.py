"""Registration before anything is asked: what a run will ask and test, signed; and where a run then deviates.

Registered are the part of the config that decides a result (questions, groups, cuts, families, looks), probes, scorers
with their versions, the digest of the data set, the response set (a digest of every planned answer's key), and how many
of the planned answers the store had already. A registration is an in-toto statement, signed as a passport is, in the
folder `registered` of the state folder. A run is compared with the file that `preregistration` names, or else with the
last registration of its model, battery and data. The response of a time-stamping authority lies beside a registration.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fp2.extension import (
    KEY_NAME,
    REGISTRATION_TYPE,
    STATEMENT_TYPE,
    Asks,
    Config,
    Fp2Error,
    Output,
    Progress,
    ResponseStore,
    config_hash,
    describe_questions,
    describe_scorers,
    differences,
    digest,
    finish_purges,
    generator,
    identity_of,
    load_config,
    load_inputs,
    load_or_create_key,
    load_public_key,
    open_storage,
    plan_answers,
    plural,
    public_path_of,
    sha256_file,
    sign,
    signed_statement,
    write_atomically,
)
from fp2.methods.audit.timestamps import SUFFIX, check_authority, time_stamp

if TYPE_CHECKING:
    from fp2.extension import Block, RunTables

FOLDER = "registered"
_COMPARED = ("config", "probes", "scorers", "dataset_digest", "response_set")


def preregister(
    overrides: Sequence[str], to: Path | None, authority: tuple[str, Path] | None = None, *, as_json: bool = False
) -> None:
    """Sign what the run of a config will ask and test, and write it into the state folder (and to a file).

    Parameters
    ----------
    authority : (str, Path), optional
        Address and certificate of a time-stamping authority.

    Raises
    ------
    Fp2Error
        As the run would before it asks; if it asks no model; or if the authority gives no time stamp.
    """
    config = load_config(list(overrides))
    if authority:
        check_authority(*authority)
    if to is not None and not to.parent.is_dir():
        raise Fp2Error("there is no such folder", where=str(to.parent))
    progress = Progress(quiet=as_json)
    finish_purges(config, progress)
    with ResponseStore(Path(config.paths.store), seeds=config.paths.seed_stores) as store:
        protocol, inputs = load_inputs(config, store, progress)
        if not isinstance(protocol, Asks) or inputs.battery is None:
            raise Fp2Error("a task asks no model: there is nothing to register", where=f"task={config.task.name}")
        storage = open_storage(protocol, inputs, plan_answers(protocol, inputs))
        stored = storage.forecast().stored
        predicate = {
            "registered": datetime.now(UTC).isoformat(timespec="seconds"),
            "generator": generator(),
            "config_hash": config_hash(config),
            "config": identity_of(config),
            "probes": describe_questions(inputs.battery),
            "scorers": describe_scorers(inputs.scorers),
            "dataset_digest": inputs.dataset_digest,
            "response_set": storage.response_set,
            "answers": {"planned": storage.n_planned, "stored": stored},
        }
    predicate = json.loads(json.dumps(predicate))
    subject = {"name": "run", "digest": {"sha256": digest(predicate)}}
    statement = {
        "_type": STATEMENT_TYPE,
        "subject": [subject],
        "predicateType": REGISTRATION_TYPE,
        "predicate": predicate,
    }
    key, _ = load_or_create_key(Path(config.paths.keys))
    text = json.dumps(sign(statement, key), indent=2) + "\n"
    stamp, when = time_stamp(text.encode(), *authority) if authority else (b"", None)
    own = Path(config.paths.state) / FOLDER
    own.mkdir(mode=0o700, parents=True, exist_ok=True)
    path = own / f"{datetime.now(UTC).strftime('%Y%m%dT%H%M%S%f')}.json"
    with Output(as_json) as out:
        for target in (*([to] if to else []), path):
            try:
                write_atomically(target, text)
                if stamp:
                    target.with_name(target.name + SUFFIX).write_bytes(stamp)
            except OSError as error:
                raise Fp2Error(f"cannot write: {error.strerror or error}", where=str(target)) from error
            out.path("registered", target)
        if when is not None:
            out.say(f"time stamp of {when.isoformat()} beside it ({SUFFIX})", time_stamp=when.isoformat())
        out.say(
            f"{plural(predicate['answers']['planned'], 'answer')} planned; the store has {stored} of them",
            **predicate["answers"],
        )


def read_registration(path: Path, public_keys: Sequence[Path]) -> tuple[dict[str, Any], str]:
    """Return what a registration states, and the SHA-256 of its payload, once one of the keys verified it.

    Raises
    ------
    Fp2Error
        If the file is no registration, or its signature is not valid.
    """
    outcome = signed_statement(path, [load_public_key(key) for key in public_keys])
    statement = outcome.statement
    if statement is None or statement["predicateType"] != REGISTRATION_TYPE:
        reason = outcome.failures[0] if outcome.failures else "it states something else"
        raise Fp2Error(f"not a registration that can be verified: {reason}", where=str(path))
    return dict(statement["predicate"]), outcome.payload_digest


def deviations(registered: Mapping[str, Any], config: Config, results: Mapping[str, Any]) -> Iterator[str]:
    """Yield where a run differs from what was registered, as dotted places.

    After a purge the digests of data and answers differ, and are not compared.
    """
    purged = ("dataset_digest", "response_set") if "purged" in results else ()
    now = {**{name: results[name] for name in _COMPARED[1:]}, "config": identity_of(config)}
    for name in _COMPARED:
        if name not in purged:
            yield from differences(registered[name], json.loads(json.dumps(now[name])), name)


def state_registration(config: Config, tables: RunTables, results: Block) -> Block:
    """Return what the passport states of the registration (`preregistration`); nothing of a run without one."""
    folder, key = Path(config.paths.state) / FOLDER, public_path_of(Path(config.paths.keys) / KEY_NAME)
    named = [Path(config.preregistration)] if config.preregistration else []
    for path in named or sorted(folder.glob("*.json"), reverse=True):
        try:
            registered, payload = read_registration(path, [key])
        except Fp2Error:  # damaged, or signed with a key that was replaced: the run is not held up
            continue
        is_before = registered["registered"] <= results["created"]
        if named or (is_before and _about(registered["config"]) == _about(identity_of(config))):
            places = [*(() if is_before else ("registered",)), *deviations(registered, config, results)]
            stated = {"registered": registered["registered"], "stored_before": registered["answers"]["stored"]}
            if (stamp := path.with_name(path.name + SUFFIX)).is_file():
                stated["time_stamp"] = sha256_file(stamp)
            return {"preregistration": {"sha256": payload, **stated, "as_registered": not places, "deviations": places}}
    return {}


def _about(identity: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return model, battery and data of the part of a config that decides a result."""
    model = identity["model"]
    return model.get("id"), model.get("name"), identity["probe"].get("name"), identity["data"].get("name")
