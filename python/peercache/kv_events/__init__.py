"""KV events over ZMQ: they tell routers, which look for the node that has a prefix, which pages are in L3 and L4."""

from peercache.kv_events.messages import DISK, EXTERNAL, block_hash
from peercache.kv_events.publisher import EventSettings
from peercache.kv_events.service import KVEvents

__all__ = ["DISK", "EXTERNAL", "EventSettings", "KVEvents", "block_hash"]
