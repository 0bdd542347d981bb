"""Native clients that are watched, or slow."""

import time
from collections import Counter
from functools import partial


class SlowNative:
    """The native client when every question takes a while, or all the time that it is given. `given` has these;
    what a question then really takes does not count."""

    def __init__(self, native, pause):
        self._native, self._pause = native, pause
        self.given = []

    def __getattr__(self, name):
        call = getattr(self._native, name)
        return partial(self._ask, call) if name in ("get", "set", "exists", "remove") else call

    def _ask(self, call, *arguments):
        *others, seconds = arguments
        self.given.append(seconds)
        time.sleep(min(self._pause, seconds))
        return call(*others, 10.0)


class Registrations(Counter):
    """How often each address is registered now, and how many of them there ever were."""

    registrations = 0


class CountedNative:
    """A native client whose registrations are seen from outside."""

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
