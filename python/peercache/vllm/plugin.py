"""The plug-in of vLLM's group `vllm.general_plugins`: names the tier for versions that have no "module_path"."""

from __future__ import annotations

import logging

from peercache.vllm import contract

logger = logging.getLogger("peercache.vllm")

FACTORY = "vllm.v1.kv_offload.tiering.factory"
TYPE = "peercache"


def register() -> None:
    """Makes `"type": "peercache"` known; vLLM calls it in each of its processes. Errors: none, since vLLM would not
    start; a version without secondary tiers is left alone."""
    factory = contract.theirs(FACTORY, "SecondaryTierFactory")
    if factory is None:
        return
    try:
        factory.register_tier(TYPE, "peercache.vllm", "PeerCacheTier")
    except ValueError:
        logger.debug("the tier %s is registered already", TYPE)
    except Exception as why:  # noqa: BLE001 - versions differ
        logger.warning('"type": "%s" cannot be used with this vLLM: %s', TYPE, why)
