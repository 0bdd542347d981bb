"""Names of SGLang's transfer backends, and the classes of each."""

import enum


class DisaggregationMode(enum.Enum):
    NULL = "null"
    PREFILL = "prefill"
    DECODE = "decode"


class TransferBackend(enum.Enum):
    MOONCAKE = "mooncake"
    NIXL = "nixl"
    FAKE = "fake"


class KVClassType(enum.Enum):
    KVARGS = "kvargs"
    MANAGER = "manager"
    SENDER = "sender"
    RECEIVER = "receiver"
    BOOTSTRAP_SERVER = "bootstrap_server"


def get_kv_class(transfer_backend, class_type):
    if transfer_backend == TransferBackend.FAKE:
        return f"fake {class_type.value}"
    raise ValueError(f"Unsupported transfer backend: {transfer_backend}")
