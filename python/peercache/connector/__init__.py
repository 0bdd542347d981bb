"""Direct KV transfers between an engine's own buffers and the cluster, without a host tier between."""

from peercache.connector.kv_buffers import KVArgsLike
from peercache.connector.remote_kv_connector import ConnectorMetadata, RemoteKVConnector
from peercache.connector.transfers import TransferFuture, TransferResult

__all__ = ["ConnectorMetadata", "KVArgsLike", "RemoteKVConnector", "TransferFuture", "TransferResult"]
