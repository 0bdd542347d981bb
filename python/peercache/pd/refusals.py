"""Options and memory of an engine that this backend does not serve: such an engine is refused at
start, with a sentence."""

from __future__ import annotations

import ctypes
import json
import os
from pathlib import Path
from typing import Any, Dict, List, Optional

from peercache.pd.layout import kinds_of_states

TRUE_WORDS = ("1", "true", "yes", "y", "on")


def _is_set(name: str) -> bool:
    return os.environ.get(name, "").strip().lower() in TRUE_WORDS


def refusals(server_args: Any, kv_args: Any) -> List[str]:
    """Why this engine is refused; nothing when it is not."""

    def said(name: str, otherwise: Any = None) -> Any:
        return getattr(server_args, name, None) or otherwise

    why = []
    if said("tokenizer_worker_num", 1) > 1:
        why.append("--tokenizer-worker-num above 1 starts processes that load no plug-ins and do not know this backend")
    if max(said("dcp_size", 1), getattr(kv_args, "dcp_size", 1) or 1) > 1:
        why.append("decode context parallelism (dcp_size above 1) stores tokens in another order than pages have")
    if _is_set("SGLANG_DISAGG_STAGING_BUFFER"):
        why.append("SGLANG_DISAGG_STAGING_BUFFER is for other backends: heads are cut while pages are read here")
    if said("enable_dsa_cache_layer_split"):
        why.append("--enable-dsa-cache-layer-split spreads layers over context parallel ranks")
    if said("enable_unified_memory"):
        why.append("--enable-unified-memory moves KV while it is read")
    if said("enable_hisparse"):
        why.append("--enable-hisparse keeps KV in host memory, in other places than pages have, and only a part on the GPU")
    return why + _unknown_layouts(kv_args, said("pp_size", 1))


def _unknown_layouts(kv_args: Any, pp_size: int) -> List[str]:
    why = []
    has_layers = bool(getattr(kv_args, "kv_layer_ids", None))
    if getattr(kv_args, "mla_compression_ratios", None) and pp_size > 1 and not has_layers:
        why.append("compressed MLA with pipeline stages says neither layers nor an order of layers")
    swa_page = getattr(kv_args, "swa_page_size", None)
    if swa_page not in (None, kv_args.page_size) and "swa" in kinds_of_states(kv_args):
        why.append(f"pages of the sliding window have {swa_page} tokens, and those of KV {kv_args.page_size}")
    return why


def check_start(server_args: Any, kv_args: Any) -> None:
    """Refuses an engine that this backend does not serve. Errors: ValueError."""
    why = refusals(server_args, kv_args)
    if why:
        raise ValueError(f"--disaggregation-transfer-backend peercache does not serve this engine: {'; '.join(why)}")


def has_cuda() -> bool:
    """Whether the driver of NVIDIA GPUs is installed, found as the workers find it."""
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError:
        return False
    return True


def check_memory(server_args: Any, data_plane: str) -> None:
    """Refuses KV in the memory of a device that pages cannot be copied out of. Errors: ValueError."""
    device = getattr(server_args, "device", None) or "cpu"
    if device == "cpu" or (device == "cuda" and has_cuda()) or not data_plane.startswith("tcp"):
        return
    raise ValueError(
        f"the KV is in the memory of {device}, and pages travel over TCP ({data_plane}): that takes host memory, or "
        "GPUs with NVIDIA's driver. Use RDMA devices that read this memory (data_plane = verbs), or another "
        "transfer backend."
    )


def devices_of(ib_device: Optional[str], gpu_id: Optional[int]) -> Dict[str, str]:
    """The options that `--disaggregation-ib-device` stands for: nothing, "a,b", {"0": "a,b"} by GPU, or a file of
    that. Errors: ValueError."""
    text = (ib_device or "").strip()
    if text.endswith(".json"):
        try:
            text = Path(text).read_text(encoding="utf-8").strip()
        except OSError as why:
            raise ValueError(f"--disaggregation-ib-device names a file that cannot be read: {why}") from why
    if text.startswith("{"):
        try:
            by_gpu = {str(gpu): str(names) for gpu, names in json.loads(text).items()}
        except ValueError as why:
            raise ValueError(f"--disaggregation-ib-device is no JSON: {why}") from why
        if str(gpu_id) not in by_gpu:
            raise ValueError(f"--disaggregation-ib-device names no devices for GPU {gpu_id}")
        text = by_gpu[str(gpu_id)]
    names = [name.strip() for name in text.split(",") if name.strip()]
    return {"rdma.devices": ",".join(names)} if names else {}
