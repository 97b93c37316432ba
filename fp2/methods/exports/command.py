"""`fp2 export`: writes the results of a run in other formats, and its answers."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fp2.extension import Fp2Error, Output, Progress, artifacts, load_config, printable, run_files

if TYPE_CHECKING:
    from fp2.extension import Config, Section


@dataclass(frozen=True)
class Exports:
    """The files to write, by format."""

    csv: Path | None = None
    parquet: Path | None = None
    latex: Path | None = None
    model_card: Path | None = None
    ml_bom: Path | None = None
    every_eval_ever: Path | None = None
    answers: Path | None = None


def export(
    word: str,
    exports: Exports,
    overrides: Sequence[str],
    *,
    form: str | None = None,
    keys: bool = False,
    as_json: bool = False,
) -> None:
    """Write the results of a run in the formats asked for, and its answers (`form`, `keys`); print the paths."""
    from fp2.extension import finish_purges, recording
    from fp2.methods.exports.answers import FILES, export_answers
    from fp2.methods.exports.eval_record import to_every_eval_ever
    from fp2.methods.exports.formats import required, result_rows, to_csv, to_latex, to_ml_bom, to_model_card
    from fp2.methods.recorded.form import form_of

    eval_record = partial(to_every_eval_ever, answers=exports.answers if form == "every_eval_ever" else None)

    writers: list[tuple[Path | None, Callable[..., str]]] = [
        (exports.csv, to_csv),
        (exports.latex, to_latex),
        (exports.model_card, to_model_card),
        (exports.ml_bom, to_ml_bom),
        (exports.every_eval_ever, eval_record),
    ]
    if not any(asdict(exports).values()):
        fix = "Add --csv, --parquet, --latex, --model-card, --ml-bom, --every-eval-ever or --answers, with a FILE"
        raise Fp2Error("no format is given", where="fp2 export", fix=fix)
    path_overrides = [
        override for override in overrides if exports.answers is not None and override.startswith("data.")
    ]
    overrides = [override for override in overrides if override not in path_overrides]
    local_config = load_config(overrides)
    with run_files(word, local_config) as folder:
        results, sections, min_cell = _to_export(folder, local_config)
    if exports.answers is not None:
        form_of(exports.answers, form, where="--format", exists=False)
    with recording(Path(local_config.paths.state), [results["run_id"]], asdict(exports).values()):
        for path, text in [(path, write(results, sections, min_cell)) for path, write in writers if path is not None]:
            artifacts.write_text(path, text)
        if exports.parquet is not None:
            import pandas as pd

            rows = required(result_rows(results, sections, min_cell), results, "results")
            with artifacts.as_user_error(exports.parquet.parent):
                exports.parquet.parent.mkdir(parents=True, exist_ok=True)
                artifacts.write_parquet(exports.parquet, pd.DataFrame(rows))
        if exports.answers is not None:
            finish_purges(local_config, Progress())
            places = dict(override.split("=", 1) for override in path_overrides)
            with run_files(word, local_config, FILES) as folder:
                export_answers(folder, local_config, exports.answers, Progress(), places=places, form=form, keys=keys)
    with Output(as_json) as out:
        for kind, path in asdict(exports).items():
            if path is not None:
                out.say(str(path), **{kind: str(path)})


def _to_export(folder: Path, local_config: Config) -> tuple[dict[str, Any], Sequence[Section], int]:
    """Return the results, the report sections, and the fewest subjects of a group that an exported table names.

    Without the run's protocol there are no sections: then a line on standard error says what is left out.
    """
    from fp2.extension import MIN_CELL, load_run_sections, logged_settings, read_results

    results = read_results(folder)
    min_cell = max(MIN_CELL, local_config.report.suppress_below)
    try:
        min_cell = max(min_cell, logged_settings(folder, local_config, results["run_id"]).report.suppress_below)
        return results, load_run_sections(folder, local_config, results["run_id"]), min_cell
    except Fp2Error as error:
        left_out = "only disparities, composites and headlines are exported"
        print(printable(f"note: {left_out}: {error}"), file=sys.stderr)
        return results, (), min_cell
