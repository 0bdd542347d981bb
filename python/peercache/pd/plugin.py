"""SGLang's plug-in (entry point group `sglang.srt.plugins`): makes `--disaggregation-transfer-backend peercache` valid.

SGLang loads it in its main process before it reads its options, and again in each scheduler's process.
"""

from __future__ import annotations

import importlib
import inspect
import logging
from typing import Any, Callable, List

logger = logging.getLogger("peercache.pd")

BACKEND = "peercache"
UTILS = "sglang.srt.disaggregation.utils"
SERVER_ARGS = "sglang.srt.server_args"
HOOKS = "sglang.srt.plugins.hook_registry"
GET_CLASS = ["transfer_backend", "class_type"]


def load() -> None:
    """Adds the backend to SGLang. Errors: RuntimeError, which SGLang logs, for a version that is not known."""
    utils, server_args, hooks = (importlib.import_module(name) for name in (UTILS, SERVER_ARGS, HOOKS))
    faults = faults_of_places(utils, server_args, hooks)
    if faults:
        raise RuntimeError(
            f"--disaggregation-transfer-backend {BACKEND} is not there: this version of SGLang is not one that "
            f"PeerCache knows: {'; '.join(faults)}"
        )
    if BACKEND in utils.TransferBackend._value2member_map_:
        return
    add_member(utils.TransferBackend, BACKEND)
    server_args.add_disagg_transfer_backend_choices([BACKEND])
    hooks.HookRegistry.register(f"{UTILS}.get_kv_class", class_of, hooks.HookType.AROUND)
    logger.info("--disaggregation-transfer-backend %s is ready", BACKEND)


def faults_of_places(utils: Any, server_args: Any, hooks: Any) -> List[str]:
    """The places in SGLang where a backend is added that this version lacks."""
    wanted = (
        (utils, "TransferBackend"),
        (utils, "KVClassType"),
        (utils, "get_kv_class"),
        (server_args, "add_disagg_transfer_backend_choices"),
        (hooks, "HookRegistry"),
        (hooks, "HookType"),
    )
    faults = [f"{module.__name__} has no {name}" for module, name in wanted if not hasattr(module, name)]
    if not faults:
        there = list(inspect.signature(utils.get_kv_class).parameters)
        if there != GET_CLASS:
            faults.append(f"get_kv_class takes ({', '.join(there)}) and not ({', '.join(GET_CLASS)})")
    return faults


def add_member(words: Any, word: str) -> None:
    """Adds a member to an Enum that exists already, in the tables in which Enum looks its members up."""
    kind = words._member_type_
    member = object.__new__(words) if kind is object else kind.__new__(words, word)
    name = word.upper()
    member._name_, member._value_, member.__objclass__ = name, word, words
    member._sort_order_ = len(words._member_names_)
    type.__setattr__(words, name, member)
    words._member_names_.append(name)
    words._member_map_[name] = member
    words._value2member_map_[word] = member


def class_of(original: Callable[..., Any], transfer_backend: Any, class_type: Any) -> Any:
    """Stands around SGLang's get_kv_class (`original`): gives this backend's class of this type, and asks `original`
    for every other backend. Errors: RuntimeError when the classes of this SGLang's version are not known; SGLang's
    start then ends with the reason."""
    if getattr(transfer_backend, "value", transfer_backend) != BACKEND:
        return original(transfer_backend, class_type)
    contract = importlib.import_module("peercache.pd.contract")
    faults = contract.faults_of_shape()
    if faults:
        raise RuntimeError(contract.unknown_version(faults))
    return importlib.import_module("peercache.pd.conn").CLASSES.get(class_type.name)
