"""`fp2 purge`: remove everything derived from people, images, a release, or what a newer release no longer has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from fp2.extension import PROTOCOLS, Config, Fp2Error, Output, load, load_config, normal_id, plural, read_installed

if TYPE_CHECKING:
    import pandas as pd

    from fp2.extension import RecordedImage
    from fp2.methods.withdrawal.search import Select
    from fp2.methods.withdrawal.selection import Selection


def run(
    subjects: Sequence[str],
    images: Sequence[str],
    release: str | None,
    absent: bool,
    dry: bool,
    yes: bool,
    drop_reports: bool,
    overrides: Sequence[str],
    as_json: bool = False,
) -> int:
    """Finish what was interrupted, print what would be removed, ask, remove it, and print what was removed.

    Returns the exit status: 1 if something of the people is still there.
    """
    from fp2.extension import Progress, refuse_foreign_artifacts
    from fp2.methods.withdrawal.purge import finish_pending

    ways = [bool(subjects or images), release is not None, absent]
    if sum(ways) != 1:
        fix = "--absent needs the newer release: fp2 purge --absent data=NAME, with the option that names its folder"
        problem = "select one of: --subject ID and --image ID (may be repeated), --release VERSION, --absent"
        raise Fp2Error(problem, fix=fix)
    for option, ids in (("--subject", subjects), ("--image", images)):
        if not all(map(normal_id, ids)):
            raise Fp2Error("an id is empty", where=option)
    if as_json and not (dry or yes):
        raise Fp2Error("--json asks nothing", where="fp2 purge", fix="Add --dry-run, or --yes to remove")
    config = load_config(overrides)
    refuse_foreign_artifacts(config)
    absentees = _absentees(config) if absent else None

    def select(salt: bytes, recorded: list[RecordedImage]) -> Selection:
        from fp2.methods.withdrawal import selection as selection

        if absentees is not None:
            return selection.absent(config.data.source, absentees, salt)
        if release is not None:
            return selection.Selection(release=release)
        return selection.by_ids(subjects, images, salt, recorded)

    with Output(as_json) as out:
        finished = finish_pending(config, Progress(quiet=as_json))
        for text in finished:
            out.say(text)
        out.say(finished=finished)
        status = _purge(config, select, out, dry=dry, yes=yes, drop_reports=drop_reports)
    return status or int(any(text.startswith("still there") for text in finished))


def _purge(config: Config, select: Select, out: Output, *, dry: bool, yes: bool, drop_reports: bool) -> int:
    from fp2.extension import withdraw
    from fp2.methods.withdrawal.journal import RUNS
    from fp2.methods.withdrawal.purge import purge
    from fp2.methods.withdrawal.search import plan_purge

    plan = plan_purge(config, select)
    for identifier in plan.ids:
        by = "" if identifier["by"] == "id" else f", by its {identifier['by']}"
        parts = [plural(identifier[f"{noun}s"], noun) for noun in ("image", "answer", "run")]
        counts = f"{', '.join(parts)}{by}"
        selected = counts if identifier["images"] or identifier["answers"] else "selects nothing here"
        out.say(f"{identifier['kind']} {identifier['id']}: {selected}")
    n_other_people = len(plan.people - plan.selection.subjects)
    runs = [step.line for step in plan.steps if step.kind in RUNS]
    out.say(
        removed=False,
        ids=plan.ids,
        others=n_other_people,
        store=plan.store,
        runs=runs,
        people=len(plan.people),
        lost=sorted(plan.lost),
        not_reached=plan.unreached,
    )
    for text in plan.lines:
        out.say(text)
    if not plan.steps:
        out.say("nothing derived from them is stored here")
        if plan.ids and yes and not dry:
            chosen = plan.selection
            withdraw(Path(config.paths.state), chosen.subjects, chosen.images, chosen.unseen)
            out.say("later runs leave out whoever has these ids, and images whose file is named so")
        return 0
    if plan.ids and n_other_people:
        out.say(f"{n_other_people} people whose ids were not given are in these images; their ids are not stored")
    _say_counts("to remove", plan.people, plan.store, runs, out)
    for text in sorted(plan.lost):
        out.say(f"cannot be recomputed, and would lose its results, figures and passport: {text}")
    if dry:
        return 0
    if plan.lost and not drop_reports:
        fix = "Install or restore what they used, or add --drop-reports to remove their reports too"
        raise Fp2Error(f"{plural(len(plan.lost), 'run')} cannot be recomputed; nothing was removed", fix=fix)
    if not yes and not typer.confirm("Remove all of this permanently?"):
        out.say("nothing was removed")
        return 1
    purge(config, plan)
    for text in plan.lines:
        out.say(text)
    runs = [step.line for step in plan.steps if step.kind in RUNS]
    out.say(
        removed=True,
        store=plan.store,
        runs=runs,
        not_reached=plan.unreached,
        remaining=plan.remaining,
        certificate=str(plan.certificate),
    )
    _say_counts("removed", plan.people, plan.store, runs, out)
    out.say(f"certificate of deletion: {plan.certificate}")
    out.say("The release itself was not changed: delete it yourself if needed.")
    return 1 if plan.remaining else 0


def _absentees(config: Config) -> pd.DataFrame:
    from fp2.extension import Progress, configured_source, load_configured, with_releases

    source = configured_source(config)
    if not source.has_withdrawals:
        problem = f"--absent compares with a release, which data={config.data.name} does not have"
        raise Fp2Error(problem, fix=f"Use a data set with releases: data={'|'.join(with_releases())}")
    if not source.lists_everyone:
        problem = "--absent needs a table that lists every subject and image of the release"
        raise Fp2Error(problem, fix="Read the whole images of the release, not crops")
    return load_configured(config, Progress()).people


WORDS = {
    "answers": "answers",
    "failures": "failed answers",
    "blocks": "blocks of answers",
    "block_failures": "failed answers of blocks",
    "pictures": "images",
    "origins": "links from images to answers",
    "pixel_digests": "image digests",
}
"""Tables of the store -> what their rows are; protocols name theirs (`Requirements.tables`)."""


def _say_counts(subject: str, people: set[str], store: Mapping[str, int], runs: Sequence[str], out: Output) -> None:
    protocols_asking = read_installed(PROTOCOLS, lambda name: load(PROTOCOLS, name, "fp2 purge").requires.tables)
    labels = {**WORDS, **{table: says for tables in protocols_asking.values() for table, says in tables.items()}}
    rows = ", ".join(f"{count} {labels.get(table, table)}" for table, count in store.items() if count)
    n_people, n_runs = plural(len(people), "person", "people"), plural(len(runs), "run")
    out.say(f"{subject}: {n_people}; in the response store {rows or 'nothing'}; {n_runs}")
