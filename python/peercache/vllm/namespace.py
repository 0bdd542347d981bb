"""Makes the key space of chunks from the facts that, beside a chunk's key, decide what its bytes
mean: vLLM's configuration, and the seed of its hashes."""

from __future__ import annotations

import dataclasses
import json
import os
import sys
from typing import Any, Dict, FrozenSet, List

from peercache.spaces import space_name
from peercache.vllm import contract

FORMAT = "vllm-offload-1"

OF_ONE_PROCESS: FrozenSet[str] = frozenset(
    {
        "engine_id",
        "rank",
        "data_parallel_index",
        "data_parallel_rank",
        "data_parallel_rank_local",
        "enable_kv_cache_events",
        "extra_config",
        "num_cpu_blocks",
        "kv_cache_layout",
    }
)
"""Fields of vLLM's OffloadingConfig that are left out: they say which process this is, or how large its memory is, not
what its bytes mean. The layout is a field of its own here."""

NEEDED_FIELDS = ("groups", "worker_kv_bytes_per_block", "model", "cache", "parallel")

OF_THE_MODEL = ("model", "revision", "quantization", "hf_overrides", "rope_scaling", "rope_theta")
"""Fields of vLLM's ModelConfig that change the bytes of KV and are not in its OffloadingConfig."""

NO_LAYOUT = (
    "vLLM {version} does not tell how it lays KV out, which differs by attention backend and GPU. Add "
    '"kv_cache_layout": "..." to the entry of secondary_tiers: any word, the same for engines with the same attention '
    "backend and the same kind of GPU, and for no others"
)

UNTOLD = (
    "vLLM {version} does not tell its tiers the model's revision, quantization, rope scaling and --hf-overrides: engines "
    'of {model} that differ in one of them read each other\'s KV, unless the entry of secondary_tiers has another "space" '
    "for each"
)


def _plain(value: Any) -> Any:
    """A value of the configuration in the types of JSON, without the fields of one process. Fields that are not known
    here are taken as they are: a strange one makes misses, and never a wrong hit."""
    if dataclasses.is_dataclass(value):
        value = {each.name: getattr(value, each.name) for each in dataclasses.fields(value)}
    elif getattr(value, "__dict__", None) and not callable(value):
        value = vars(value)
    if isinstance(value, dict):
        return {str(k): _plain(v) for k, v in value.items() if k not in OF_ONE_PROCESS}
    if isinstance(value, (list, tuple)):
        return [_plain(each) for each in value]
    return value if value is None or isinstance(value, (bool, int, float, str)) else str(value)


def _layout(spec: Any, said: str) -> str:
    """The layout of KV, in vLLM's words or the user's. Errors: ValueError when neither says it."""
    cache = getattr(getattr(spec, "vllm_config", None), "cache_config", None)
    told = getattr(spec.config, "kv_cache_layout", None) or getattr(cache, "kv_cache_layout", None)
    if not told and not said:
        raise ValueError(NO_LAYOUT.format(version=contract.version()))
    return "/".join(str(each) for each in (told, said) if each)


def untold(spec: Any, space: str) -> str:
    """What an operator has to know who runs engines of one model that differ in `OF_THE_MODEL`; empty where vLLM tells
    its tiers, or the engines have a space of their own."""
    if _model_config(spec) is not None or space:
        return ""
    return UNTOLD.format(version=contract.version(), model=spec.config.model.name)


def _model_config(spec: Any) -> Any:
    return getattr(getattr(spec, "vllm_config", None), "model_config", None)


def _model(spec: Any) -> Dict[str, Any]:
    """Further fields of the model's configuration that decide its KV, as far as vLLM tells its
    tiers."""
    model = _model_config(spec)
    return {name: _plain(getattr(model, name)) for name in OF_THE_MODEL if hasattr(model, name)}


def _canonical_format(config: Any) -> str:
    """The id of the canonical format; empty when chunks are laid out as the GPU's blocks are. Errors: ValueError when
    vLLM does not tell the id."""
    if not getattr(config, "canonical_layout", False):
        return ""
    format_id = contract.theirs(contract.CANONICAL, "canonical_format_id")
    if format_id is None:
        raise ValueError(f"vLLM {contract.version()} has a canonical layout and does not tell its format")
    return str(format_id(config.kv_cache_layout))


def fields_of(spec: Any, row_bytes: int, space: str, layout: str) -> List[str]:
    """The fields of the key space of an engine's chunks but for the seed of its hashes. Errors: ValueError when vLLM
    does not tell what must be known."""
    config = spec.config
    missing = [name for name in NEEDED_FIELDS if not hasattr(config, name)]
    if missing:
        raise ValueError(f"vLLM {contract.version()}: its OffloadingConfig has no {', '.join(missing)}")
    named: Dict[str, Any] = {
        **_plain(config),
        "kv_cache_layout": _layout(spec, layout),
        "canonical_format": _canonical_format(config),
        "storage_format": _plain(getattr(spec, "storage_format", None)),
        "row_bytes": row_bytes,
        "model_config": _model(spec),
        # Needed beside the canonical format, too: layers that it cannot describe are laid out as their backend likes.
        "version": contract.version(),
    }
    return [
        space_name(str(config.model.name), space),
        FORMAT,
        f"space={space}",
        *(f"{name}={json.dumps(named[name], sort_keys=True)}" for name in sorted(named)),
    ]


def hash_seed() -> str:
    """The hash that vLLM gives the first block of a prompt as its parent, which decides the keys of
    chunks beside their tokens. vLLM makes it of the algorithm and PYTHONHASHSEED; where that
    variable is not set and the version has no seed of its own, the hash is random in each process.
    vLLM makes it after the tiers."""
    root = getattr(sys.modules.get(contract.HASHES), "NONE_HASH", None)
    if isinstance(root, bytes):
        return root.hex()
    return f"PYTHONHASHSEED={os.environ.get('PYTHONHASHSEED', '')}"
