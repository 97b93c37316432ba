"""From a model's and an engine's settings to the engine that answers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from fp2.engines.base import Engine
from fp2.errors import Fp2Error, nearest
from fp2.tables import Decoding

if TYPE_CHECKING:
    import sqlite3

    from fp2.engines.dual import DualEncoder
    from fp2.engines.hf_loading import HfSpec
    from fp2.store.rows import ResponseStore

ENGINES = ("hf", "openai_compat", "planted", "vllm", "dual")
LATER_ENGINES = ("ray",)


def build_engine(
    model: Mapping[str, Any],
    engine: Mapping[str, Any],
    decoding: Decoding,
    store: ResponseStore | None = None,
    *,
    verify_files: bool = False,
) -> Engine:
    """Return the engine for a model; nothing is loaded, and neither torch nor transformers is imported.

    Parameters
    ----------
    model : Mapping
        `name, engine, id, revision, dtype, quantisation, trust_remote_code, chat, prompt, image_backend, truth` (the
        last for `planted` only).
    engine : Mapping
        `name, batch_size, device, device_map, attention, threads, ...`. The model's own `engine`, where given, has to
        agree with `name`.
    decoding : Decoding
        How text is generated.
    store : ResponseStore, optional
        Where digests of weight files are remembered.
    verify_files : bool
        Read checkpoint files again even when their digests are remembered (`--verify-inputs`).

    Raises
    ------
    Fp2Error
        If the engine is not known, not in this version, or not the one that the model is for.
    """
    name = str(engine.get("name") or model.get("engine") or "hf")
    wanted = str(model.get("engine") or name)
    _check_name(name, "engine")
    if wanted != name and (wanted, name) != ("hf", "vllm"):  # the same models, asked otherwise
        raise Fp2Error(
            f"the model {model.get('name')!r} answers through engine={wanted}, not engine={name}",
            where="engine",
            fix=f"Set engine={wanted}",
        )
    if name == "planted":
        from fp2.engines.planted import PlantedEngine
        from fp2.engines.planted_truth import load_truth

        return PlantedEngine(load_truth(model.get("truth")), batch_size=int(engine.get("batch_size") or 256))
    if name == "openai_compat":
        return _server_engine(model, engine, decoding, store, verify_files)
    if name == "vllm":
        from fp2.engines.vllm import VllmEngine

        return VllmEngine(
            _spec(model, engine),
            decoding,
            batch_size=engine.get("batch_size"),
            options=engine.get("options"),
            connection=store.connection if store is not None else None,
            verify_files=verify_files,
        )
    if name == "dual":
        from fp2.engines.dual_choice import DualEngine

        connection = store.connection if store is not None else None
        return DualEngine(build_dual(model, engine, connection, verify_files=verify_files))
    from fp2.engines.hf import HfEngine

    return HfEngine(
        _spec(model, engine),
        decoding,
        batch_size=engine.get("batch_size"),
        max_tokens=engine.get("max_tokens"),
        sharing=engine.get("sharing") or "auto",
        device=str(engine.get("device") or "auto"),
        threads=engine.get("threads"),
        connection=store.connection if store is not None else None,
        verify_files=verify_files,
    )


def build_dual(
    model: Mapping[str, Any],
    engine: Mapping[str, Any],
    connection: sqlite3.Connection | None = None,
    *,
    verify_files: bool = False,
) -> DualEncoder:
    """Return the dual encoder (CLIP, SigLIP, SigLIP 2) for a model's settings; nothing is loaded. See `build_engine`.

    Raises
    ------
    Fp2Error
        If a setting is not known. That the model is no dual encoder is said when it is first used.
    """
    from fp2.engines.dual import DualEncoder

    return DualEncoder(
        _spec(model, engine),
        batch_size=engine.get("batch_size"),
        device=str(engine.get("device") or "auto"),
        threads=engine.get("threads"),
        connection=connection,
        verify_files=verify_files,
    )


def _spec(model: Mapping[str, Any], engine: Mapping[str, Any]) -> HfSpec:
    """Return which checkpoint to load, in which numbers, and where its layers go."""
    from fp2.engines.hf_loading import HfSpec
    from fp2.engines.placement import Placement

    if not model.get("id"):
        raise Fp2Error("the model has no id", where="model.id", fix="Give a folder or a Hugging Face id (owner/name)")
    return HfSpec(
        id=str(model["id"]),
        revision=model.get("revision"),
        dtype=model.get("dtype") or "float32",
        quantisation=model.get("quantisation"),
        trust_remote_code=bool(model.get("trust_remote_code", False)),
        chat=model.get("chat"),
        prompt=model.get("prompt"),
        image_backend=model.get("image_backend") or "pil",
        placement=Placement.of(engine),
    )


def _server_engine(
    model: Mapping[str, Any],
    engine: Mapping[str, Any],
    decoding: Decoding,
    store: ResponseStore | None,
    verify: bool,
) -> Engine:
    from fp2.engines.openai_compat import OpenAICompatEngine, ServerSpec

    if not model.get("base_url"):
        raise Fp2Error("the model has no address", where="model.base_url", fix="Give http(s)://host:port/v1")
    if not model.get("id"):
        fix = "Give the name that the server knows it by (it is listed at the address, under /models)"
        raise Fp2Error("the model has no id", where="model.id", fix=fix)
    key = model.get("api_key_env")
    spec = ServerSpec(
        str(model["base_url"]),
        str(model["id"]),
        **({"key_variable": str(key)} if key else {}),
        revision=model.get("revision"),
    )
    given = {name: engine[name] for name in ("scoring", "concurrency", "timeout", "attempts") if engine.get(name)}
    connection = store.connection if store is not None else None
    return OpenAICompatEngine(spec, decoding, **given, connection=connection, verify=verify)


def notices(engine: Engine) -> list[str]:
    """Return what the user should be told before anything is asked, for the terminal only."""
    return list(getattr(engine, "notices", ()))


def _check_name(name: str, where: str) -> None:
    if name in LATER_ENGINES:
        raise Fp2Error(f"engine={name} is not in this version", where=where, fix=f"Choose from: {', '.join(ENGINES)}")
    if name not in ENGINES:
        raise Fp2Error(f"unknown engine {name!r}", where=where, fix=nearest(name, (*ENGINES, *LATER_ENGINES)))
