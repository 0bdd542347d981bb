"""Tells `peercache why` about a rank: its key spaces, settings of the engine, and pools that are
not kept."""

from __future__ import annotations

from typing import Any, Dict

from peercache._native import KeySpace
from peercache.hicache.contract import Ranks, server_argument
from peercache.hicache.host_pool import HostPool, fields_of
from peercache.hicache.settings import Settings
from peercache.spaces import space_name

DOOR = "sglang"


class ToldSpaces:
    """Describes the key spaces of one rank's pools to the client. Threads: any."""

    def __init__(self, native: Any, ranks: Ranks, settings: Settings) -> None:
        self._native, self._ranks, self._settings = native, ranks, settings
        self._not_kept: Dict[str, str] = {}
        """Why a pool is not kept, by its name."""

    def _facts(self) -> Dict[str, str]:
        policy = server_argument("hicache_write_policy")
        return {
            "interface_v1": str(int(self._settings.interface_v1)),
            **({} if policy is None else {"write_policy": str(policy)}),
        }

    def kept(self, host: HostPool, form: str) -> None:
        """Tells the key spaces in which pages of the pool are stored and looked for."""
        self._not_kept.pop(host.name, None)
        facts = self._facts()
        for fields in fields_of(host, self._ranks, self._settings.space, form, True):
            self._native.describe(KeySpace(fields), DOOR, fields, facts)

    def not_kept(self, name: str, why: str) -> None:
        self._not_kept[name] = why

    def missed(self, name: str, pages: int) -> int:
        """Notes pages that are missed because their pool is not kept. Returns 0, the pages that are there."""
        if name in self._not_kept and pages:
            fields = [space_name(self._ranks.model, self._settings.space), "sglang-hicache-1", f"pool={name}"]
            space = KeySpace(fields)
            self._native.describe(space, DOOR, fields, self._facts())
            self._native.note_unasked(space, f"pool_not_kept: {self._not_kept[name]}", pages)
        return 0
