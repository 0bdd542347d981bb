"""Native clients for tests: one that is slow, and one that counts registrations."""

import time
from collections import Counter
from functools import partial


class SlowNative:
    """A native client whose every question takes `pause` seconds, or all of the seconds that it is given when these
    are fewer. `given` keeps the seconds of each question; how long the question really takes does not count."""

    def __init__(self, native, pause):
        self._native, self._pause = native, pause
        self.given = []

    def __getattr__(self, name):
        call = getattr(self._native, name)
        return partial(self._ask, name, call) if name in ("get", "set", "exists", "remove") else call

    def _ask(self, name, call, *arguments):
        at = 2 if name == "exists" else len(arguments) - 1  # Behind the seconds follows the time for which `exists` holds pages.
        others, seconds, held = arguments[:at], arguments[at], arguments[at + 1 :]
        self.given.append(seconds)
        time.sleep(min(self._pause, seconds))
        return call(*others, 10.0, *held)


class Registrations(Counter):
    """Counts how often each address is registered now; `registrations` is how many there ever were."""

    registrations = 0


class CountedNative:
    """A native client that counts registrations in `held`, which a test looks at."""

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
