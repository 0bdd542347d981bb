"""Tests of which growth of memory scripts/soak accepts as none."""

import importlib.machinery
import importlib.util
import pathlib
import random

import pytest

SAMPLES = 300
"""As many samples are taken in fifteen minutes."""
CONNECTIONS = 5000
"""Each of the two nodes gets half of the 10,000 `peercache status`."""
START_MIB = {"node": 8.1, "client": 32.6}


@pytest.fixture(scope="module")
def soak():
    path = pathlib.Path(__file__).resolve().parents[2] / "scripts/soak"
    loader = importlib.machinery.SourceFileLoader("soak", str(path))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("soak", loader))
    loader.exec_module(module)
    return module


def samples(start, leak_kib=0.0, filling_mib=0.0):
    """Returns noisy samples of a process's memory. The process leaks `leak_kib` for each connection, and its caches
    grow by `filling_mib` in the first fifth of the time."""
    noise = random.Random(1)
    leaked = [leak_kib * CONNECTIONS / 1024 * i / SAMPLES for i in range(SAMPLES)]
    filled = [filling_mib * min(1.0, 5 * i / SAMPLES) for i in range(SAMPLES)]
    return [start + each + cache + noise.uniform(-0.4, 0.4) for each, cache in zip(leaked, filled)]


@pytest.mark.parametrize("process", START_MIB)
def test_a_leak_of_a_kibibyte_for_each_connection_is_not_flat(soak, process):
    start = START_MIB[process]
    assert not soak.is_flat(samples(start, leak_kib=1.3))
    assert not soak.is_flat(samples(start, leak_kib=0.65, filling_mib=20.0))
    assert soak.is_flat(samples(start, leak_kib=0.02))


@pytest.mark.parametrize("process", START_MIB)
def test_caches_that_fill_first_are_flat(soak, process):
    assert soak.is_flat(samples(START_MIB[process], filling_mib=40.0))


def test_a_single_peak_is_flat_and_a_short_run_has_a_verdict(soak):
    values = samples(8.1)
    values[-1] += 50
    assert soak.is_flat(values)
    assert soak.growth_of([8.0]) == [8.0, 8.0]
    assert not soak.is_flat([8.0, 8.0, 8.0, 8.0, 10.0])
