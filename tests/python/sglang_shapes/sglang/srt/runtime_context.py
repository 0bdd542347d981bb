"""The ranks of this process in its engine. In SGLang a process has one set of ranks; tests set other ranks before they
make each of several managers."""

from dataclasses import dataclass


@dataclass
class Parallel:
    attn_tp_rank: int = 0
    attn_tp_size: int = 1
    attn_cp_rank: int = 0
    attn_cp_size: int = 1
    attn_dp_rank: int = 0
    attn_dp_size: int = 1


_parallel = Parallel()


def get_parallel():
    return _parallel


def set_parallel(parallel):
    global _parallel
    _parallel = parallel
