"""Tests of how `peercache._native` takes calls: positional and named arguments, conversions, lifetimes of objects."""

import copy
import gc
import pickle
import sys
import weakref

import numpy as np
import pytest
from peercache import _native


def rows(**more):
    return _native.PageRows(**{"firsts": [4096], "steps": [64], "page_tokens": 2, "pages": 8, **more})


def test_arguments_go_by_place_by_name_and_by_default():
    tokens = np.arange(8, dtype=np.int64)
    at = int(tokens.ctypes.data)
    wanted = [4096 + 64 * page for page in range(4)]
    assert rows().addresses(at, 4) == rows().addresses(indices=at, pages=4) == rows().addresses(at, pages=4) == wanted
    assert _native.PageRows([4096], [64], pages=8, page_tokens=2).addresses(at, 4) == wanted


@pytest.mark.parametrize("call, sentence", [
    (lambda: rows().addresses(1), "addresses() lacks the argument 'pages'"),
    (lambda: rows().addresses(1, 2, 3), "addresses() takes at most 2 arguments, and not 3"),
    (lambda: rows().addresses(1, 2, pages=3), "addresses() has the argument 'pages' twice"),
    (lambda: rows().addresses(1, page=3), "addresses() has no argument 'page'"),
    (lambda: rows().addresses("1", 2), "the argument 'indices' of addresses(): an integer is wanted"),
    (lambda: rows().addresses(-1, 2), "the argument 'indices' of addresses(): an integer of at least 0"),
    (lambda: rows(firsts="12"), "the argument 'firsts' of PageRows(): a sequence is wanted"),
    (lambda: rows(firsts=[1.5]), "the argument 'firsts' of PageRows(): an integer is wanted"),
    (lambda: rows(firsts={1}), "a sequence is wanted"),
    (lambda: _native.LentMemory().lend(bytearray(1), "no"), "the argument 'writable' of lend(): a bool is wanted"),
    (lambda: _native.chain_keys(rows(), np.zeros(4, np.uint32), 2), "the argument 'space' of chain_keys(): a KeySpace is wanted"),
    (lambda: _native.Client({"a": 1}), "the argument 'options' of Client(): a str is wanted"),
    (lambda: _native.Client([("a", "b")]), "a dict of str is wanted"),
    (lambda: _native.Results(), "only calls make a Results"),
])
def test_what_does_not_fit_is_a_type_error_that_says_what(call, sentence):
    with pytest.raises(TypeError) as raised:
        call()
    assert sentence in str(raised.value)


class Index:
    """An object that is usable as an integer, or not."""

    def __init__(self, value):
        self.value = value

    def __index__(self):
        if isinstance(self.value, Exception):
            raise self.value
        return self.value


def test_numbers_of_other_types_are_numbers():
    assert rows(firsts=[np.uint64(4096)], page_tokens=Index(2)).addresses(np.int64(0), 0) == []
    lent = _native.LentMemory()
    memory = bytearray(16)
    address, size = lent.lend(memory, np.bool_(True))
    assert (address > 0, size) == (True, 16)


def test_what_code_of_python_s_raises_meanwhile_is_raised():
    with pytest.raises(ZeroDivisionError, match="of mine"):
        rows(pages=Index(ZeroDivisionError("of mine")))
    with pytest.raises(TypeError, match="an integer is wanted"):
        rows(pages=Index(TypeError("of mine")))


def test_a_list_that_changes_while_it_is_read_is_a_value_error():
    numbers = [1, 2, 3]

    class Shrinking(Index):
        def __index__(self):
            numbers.clear()
            return 1

    numbers[1] = Shrinking(1)
    with pytest.raises(ValueError, match="changed"):
        rows(firsts=numbers, steps=[1, 1, 1])


def test_an_argument_has_as_many_references_after_a_call_as_before():
    space = _native.KeySpace(["a", "b"])
    tokens, name, numbers = np.zeros(64, np.uint32), "k" * 50, list(range(2000, 2100))
    held = [space, tokens, name, numbers, numbers[50], None]
    before = [sys.getrefcount(each) for each in held[:-1]]
    for _ in range(100):
        _native.chain_keys(space, tokens, 2)
        space.key_of(name)
        rows(firsts=numbers, steps=numbers)
        for wrong in (lambda: space.key_of(7), lambda: rows(firsts=[*numbers, "x"]), lambda: space.key_of(name, name)):
            with pytest.raises(TypeError):
                wrong()
    gc.collect()
    assert [sys.getrefcount(each) for each in held[:-1]] == before


def test_objects_live_as_long_as_they_are_referred_to():
    before = sys.getrefcount(_native.KeySpace)
    spaces = [_native.KeySpace([str(i)]) for i in range(100)]
    with_all = sys.getrefcount(_native.KeySpace)
    assert with_all == before + 100, "each object refers to its type"
    seen = [weakref.ref(each) for each in spaces]
    spaces.clear()
    assert all(each() is None for each in seen)
    after = sys.getrefcount(_native.KeySpace)
    assert after == before


def test_memory_that_is_lent_is_given_back_with_its_owner():
    memory, lent = bytearray(16), _native.LentMemory()
    lent.lend(memory, True)
    with pytest.raises(BufferError):
        memory.append(1)
    del lent
    memory.append(1)


def test_objects_cannot_be_copied_pickled_or_derived_from():
    space = _native.KeySpace(["a"])
    for call in (lambda: copy.copy(space), lambda: pickle.dumps(space), lambda: type("Derived", (_native.KeySpace,), {})):
        with pytest.raises((TypeError, pickle.PicklingError)):
            call()


def test_an_object_that_was_never_made_is_a_type_error():
    with pytest.raises(TypeError, match="lacks the argument 'fields'"):
        _native.KeySpace.__new__(_native.KeySpace)
    with pytest.raises(TypeError):
        _native.KeySpace.key_of(rows(), "a")


def test_errors_have_a_code_and_a_module():
    assert _native.Error.__module__ == "peercache._native"
    with pytest.raises(_native.Error) as raised:
        _native.Client({"no.such.option": "1"})
    assert raised.value.code == "invalid argument" and "no.such.option" in str(raised.value)
