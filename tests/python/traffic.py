"""Repeats calls in threads, as SGLang's daemon threads do."""

import threading


class Traffic:
    """Repeats each of the calls in a thread of its own while the `with` block runs."""

    def __init__(self, calls):
        self.rounds = [0] * len(calls)
        self.raised = []
        self._calls, self._stop = calls, threading.Event()
        self._threads = [threading.Thread(target=self._repeat, args=(i,), daemon=True)
                         for i in range(len(calls))]

    def _repeat(self, index):
        while not self._stop.is_set():
            try:
                self._calls[index]()
            except Exception as fault:  # noqa: BLE001 - a store must raise no exception
                self.raised.append(repr(fault))
                return
            self.rounds[index] += 1

    def __enter__(self):
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self._stop.set()
        for thread in self._threads:
            thread.join(10)
