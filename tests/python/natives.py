"""Native clients for tests: one that is slow, one that hears nobody, and one that counts registrations."""

import time
from collections import Counter
from functools import partial
from types import SimpleNamespace

from peercache.client import Status


class SlowNative:
    """A native client that sleeps in each question: for `pause` seconds, or for the seconds that the caller gives the
    question if these are fewer. `given` has the seconds that were given to each question."""

    def __init__(self, native, pause):
        self._native, self._pause = native, pause
        self.given = []

    def __getattr__(self, name):
        call = getattr(self._native, name)
        return partial(self._ask, name, call) if name in ("get", "set", "exists", "remove") else call

    def _ask(self, name, call, *arguments):
        # In `exists` the time for which it holds pages follows the seconds.
        at = 2 if name == "exists" else len(arguments) - 1
        others, seconds, held = arguments[:at], arguments[at], arguments[at + 1 :]
        self.given.append(seconds)
        time.sleep(min(self._pause, seconds))
        return call(*others, 10.0, *held)


class SilentNative:
    """A native client of which calls with this name get an answer with this status and nothing else: those calls whose
    number, from 0 on, is in `which`."""

    def __init__(self, native, silent, status=Status.TIMED_OUT, which=range(1 << 30)):
        self._native, self._silent, self._status, self._which = native, silent, status, which
        self.asked = 0

    def __getattr__(self, name):
        return self._unheard if name == self._silent else getattr(self._native, name)

    def _unheard(self, spaces, keys, *more):
        self.asked += 1
        if self.asked - 1 not in self._which:
            return getattr(self._native, self._silent)(spaces, keys, *more)
        return SimpleNamespace(ok=[False] * len(keys), statuses=bytes([self._status] * len(keys)))


class Registrations(Counter):
    """For each address, how often it is registered at present; `registrations` counts all registrations ever made."""

    registrations = 0


class CountedNative:
    """A native client that counts its registrations of memory in `held`."""

    def __init__(self, native, held):
        self._native, self._held = native, held

    def __getattr__(self, name):
        return getattr(self._native, name)

    def register_memory(self, address, size):
        fault = self._native.register_memory(address, size)
        self._held[address] += fault is None
        self._held.registrations += fault is None
        return fault

    def unregister_memory(self, address):
        self._held[address] -= 1
        self._native.unregister_memory(address)
