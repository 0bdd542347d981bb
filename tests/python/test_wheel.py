"""Tests that the wheel needs no package of the machine, no particular interpreter, and no newer glibc than its tag
says."""

import os
import pathlib
import re
import subprocess
import sys
import zipfile

import peercache
import pytest

PACKAGE = pathlib.Path(peercache.__file__).parent
MODULE = PACKAGE / "_native.abi3.so"
OF_EVERY_MACHINE = {"libc.so.6", "libm.so.6", "libpthread.so.0", "libgcc_s.so.1", "libstdc++.so.6", "ld-linux-x86-64.so.2",
                    "ld-linux-aarch64.so.1"}
GLIBC_MIN = (2, 36)
WHEEL_MIB_MAX = 15

IN_PYTHON_3_10 = set("""
PyBool_Type PyBuffer_IsContiguous PyBuffer_Release PyBytes_AsStringAndSize PyBytes_FromStringAndSize PyDict_Items
PyDict_New PyDict_Next PyDict_SetItem PyErr_CheckSignals PyErr_Clear PyErr_ExceptionMatches PyErr_Fetch PyErr_Format
PyErr_NewException PyErr_NoMemory PyErr_Occurred PyErr_Restore PyErr_SetObject PyErr_SetString PyEval_RestoreThread
PyEval_SaveThread PyExc_OverflowError PyExc_RuntimeError PyExc_SystemError PyExc_TypeError PyExc_ValueError
PyFloat_AsDouble PyFloat_FromDouble PyImport_ImportModule PyList_Append PyList_AsTuple PyList_GetItem PyList_New
PyList_Size PyLong_AsLongLong PyLong_AsUnsignedLongLong PyLong_FromLongLong PyLong_FromUnsignedLongLong PyLong_Type
PyModule_AddFunctions PyModule_Create2 PyNumber_Index PyObject_CallFunctionObjArgs PyObject_CallMethod
PyObject_CheckBuffer PyObject_ClearWeakRefs PyObject_GetAttrString PyObject_GetBuffer PyObject_HasAttrString
PyObject_IsTrue PyObject_SetAttrString PySequence_Check PySequence_Tuple PyThread_get_thread_ident PyTuple_GetItem
PyTuple_New PyTuple_SetItem PyTuple_Size PyType_FromSpec PyType_GenericAlloc PyType_GetFlags PyType_GetSlot
PyType_IsSubtype PyUnicode_AsUTF8AndSize PyUnicode_DecodeUTF8 PyUnicode_Type _Py_Dealloc _Py_FalseStruct
_Py_NoneStruct _Py_TrueStruct
""".split())
"""What the module takes of CPython. All of it is in the stable ABI of 3.10 (its Misc/stable_abi.txt), but for the buffer
protocol, which became a part of it in 3.11 as it had been since 3.0. Look a new name up there before it is added."""


def output(*command):
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def glibc_of_its_tag():
    """Returns the version of glibc that the wheel's tag requires, as a pair of numbers."""
    (about,) = PACKAGE.parent.glob("peercache-*.dist-info/WHEEL")
    major, minor = re.search(r"^Tag: .*-manylinux_(\d+)_(\d+)_", about.read_text(), re.MULTILINE).groups()
    return int(major), int(minor)


def files():
    return [MODULE, *sorted((PACKAGE / "libs").iterdir())]


def test_the_module_keeps_to_the_stable_abi_of_python_3_10():
    taken = set(re.findall(r" (_?Py\w+)$", output("nm", "-D", "--undefined-only", str(MODULE)), re.MULTILINE))
    assert taken <= IN_PYTHON_3_10, f"not known to be in 3.10: {sorted(taken - IN_PYTHON_3_10)}"


def test_the_module_exports_what_python_calls_and_nothing_else_of_ours():
    exported = output("nm", "-D", "--defined-only", "-C", str(MODULE))
    assert re.findall(r"^[0-9a-f]+ \w (.*)$", exported, re.MULTILINE) == ["PyInit__native"]


@pytest.mark.parametrize("file", files(), ids=lambda file: file.name.partition(".")[0])
def test_each_library_needs_glibc_and_what_the_wheel_has(file):
    dynamic = output("readelf", "-dW", str(file))
    needed = set(re.findall(r"\(NEEDED\).*\[(.*)\]", dynamic))
    assert needed <= OF_EVERY_MACHINE | {each.name for each in files()}
    assert not re.search(r"\((RPATH|RUNPATH)\).*\[(?!\$ORIGIN)", dynamic)
    versions = re.findall(r"GLIBC_([0-9.]+)", output("objdump", "-T", str(file)))
    assert max(tuple(map(int, each.split("."))) for each in versions) <= glibc_of_its_tag()


def test_its_tag_asks_for_a_glibc_that_this_machine_has():
    """On Debian 12 the tag must require exactly 2.36, its own version, because users have at least this version."""
    here = tuple(map(int, os.confstr("CS_GNU_LIBC_VERSION").split()[1].split(".")))
    assert GLIBC_MIN <= glibc_of_its_tag() <= here


def test_its_name_and_size():
    (wheel,) = (PACKAGE.parents[1] / "dist").glob("*.whl")
    assert re.fullmatch(r"peercache-[0-9.]+-cp310-abi3-manylinux_2_\d+_(x86_64|aarch64)\.whl", wheel.name)
    assert wheel.stat().st_size < WHEEL_MIB_MAX << 20
    names = zipfile.ZipFile(wheel).namelist()
    assert not [name for name in names if "ibverbs" in name], "the host's own fits the host's providers"


def test_it_has_what_engines_load_by_name():
    (wheel,) = (PACKAGE.parents[1] / "dist").glob("*.whl")
    with zipfile.ZipFile(wheel) as files_of_it:
        names = files_of_it.namelist()
        (entry_points,) = [name for name in names if name.endswith("entry_points.txt")]
        said = files_of_it.read(entry_points).decode()
    assert {"peercache/hicache/store.py", "peercache/pd/plugin.py", "peercache/vllm/tier.py",
            "peercache/lmcache/connector.py"} <= set(names)
    for line in ("[vllm.general_plugins]\npeercache = peercache.vllm.plugin:register", "[sglang.srt.plugins]"):
        assert line in said


def test_it_loads_without_libibverbs_and_says_so(tmp_path):
    """The loader finds a broken libibverbs first, as if the machine had none."""
    (tmp_path / "libibverbs.so.1").write_text("no library")
    program = ("import peercache\n"
               "with peercache.Client({'dev': 'true', 'net.control_port': '0', 'net.data_port': '0',\n"
               "        'net.http_port': '0', 'net.lookup_port': '0', 'data_plane': 'auto'}, embedded=True) as client:\n"
               "    print(client.native.data_plane)\n")
    environment = {**os.environ, "LD_LIBRARY_PATH": str(tmp_path)}
    done = subprocess.run([sys.executable, "-B", "-c", program], env=environment, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, check=False)
    assert done.returncode == 0, done.stdout
    assert "tcp" in done.stdout and "libibverbs.so.1 is not there" in done.stdout
