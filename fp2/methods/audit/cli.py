"""`fp2 audit`: its arguments."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fp2.extension import EVALUATE, PUBLISH, CommandEntry, Fp2Error, Json


def audit(
    ctx: typer.Context,
    passport: Annotated[str, typer.Argument(metavar="PASSPORT|answer", help="The passport; or answer CHALLENGE.")],
    run: Annotated[Path | None, typer.Option(help="The run's folder (default: that of the passport).")] = None,
    key: Annotated[list[Path] | None, typer.Option(help="A trusted public key (default: this machine's).")] = None,
    sample: Annotated[int, typer.Option(min=0, help="How many answers are drawn and asked again.")] = 0,
    nonce: Annotated[str | None, typer.Option(help="What the draw follows from, beside the passport.")] = None,
    challenge: Annotated[Path | None, typer.Option(help="Write the drawn numbers here, for the run's holder.")] = None,
    answers: Annotated[Path | None, typer.Option(help="The holder's file, in place of the run's folder.")] = None,
    certificate: Annotated[Path | None, typer.Option(help="Write the outcome here, signed by this machine.")] = None,
    to: Annotated[Path, typer.Option(help="answer: the file that is written.")] = Path("answers.json"),
    json: Json = False,
) -> None:
    """Recompute a passport's numbers from the run's tables; --sample K: ask the model again for K drawn answers."""
    from fp2.methods.audit import command

    settings = [word for word in ctx.args if "=" in word or word.startswith(("~", "+"))]
    words = [word for word in ctx.args if word not in settings]
    if passport == "answer":
        if len(words) != 1 or run is None:
            fix = "fp2 audit answer CHALLENGE --run FOLDER"
            raise Fp2Error("a challenge and the run's folder are needed", where="fp2 audit answer", fix=fix)
        command.answer(Path(words[0]), run, to, settings, as_json=json)
        return
    if words:
        raise Fp2Error(f"{words[0]} is no setting", where="fp2 audit")
    if (challenge or answers or nonce) and not sample:
        raise Fp2Error("it needs --sample K", where="fp2 audit", fix="--sample 299 bounds the altered answers by 1 %")
    request = command.Request(Path(passport), run, key or (), sample, nonce, challenge, answers, certificate)
    raise typer.Exit(command.audit(request, settings, as_json=json))


def preregister(
    ctx: typer.Context,
    to: Annotated[Path | None, typer.Option(help="Write the registration to this file too, to be published.")] = None,
    time_stamp: Annotated[str | None, typer.Option(help="The address of a time-stamping authority (RFC 3161).")] = None,
    tsa_root: Annotated[Path | None, typer.Option(help="The certificate that its answers are verified by.")] = None,
    json: Json = False,
) -> None:
    """Sign what a run will ask and test before it asks; its passport then says where it deviates."""
    from fp2.methods.audit.preregistration import preregister as register

    if (time_stamp is None) != (tsa_root is None):
        fix = "fp2 preregister ... --time-stamp https://HOST/PATH --tsa-root CERTIFICATE.pem"
        raise Fp2Error("a time stamp needs an address and a certificate", where="fp2 preregister", fix=fix)
    register(ctx.args, to, (time_stamp, tsa_root) if time_stamp and tsa_root else None, as_json=json)


PREREGISTER = CommandEntry(preregister, EVALUATE, ("fp2 preregister model=NAME data=NAME --to registration.json",))
AUDIT = CommandEntry(
    audit,
    PUBLISH,
    ("fp2 audit outputs/DAY/RUN/passport.json", "fp2 audit passport.json --run RUN --sample 299 model=NAME data=NAME"),
)
