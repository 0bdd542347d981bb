"""Which pages are in L3 and L4, for routers that look where a prefix is: SGLang's KV events over ZMQ."""

from peercache.kv_events.messages import DISK, EXTERNAL, block_hash
from peercache.kv_events.publisher import EventSettings
from peercache.kv_events.service import KVEvents

__all__ = ["DISK", "EXTERNAL", "EventSettings", "KVEvents", "block_hash"]
