"""Kinds of host pools by name: every layout of MHA and of MLA, and SGLang's other pools."""

import pytest
from host_pools import MHA_LAYOUTS, MLA_LAYOUTS, AsymmetricPool, FlatOnlyPool, MhaPool, MlaPool

POOLS = {
    **{f"mha-{layout}": (MhaPool, layout, False) for layout in MHA_LAYOUTS},
    **{f"mla-{layout}": (MlaPool, layout, True) for layout in MLA_LAYOUTS},
    "asymmetric-page_first": (AsymmetricPool, "page_first", False),
    "asymmetric-page_first_direct": (AsymmetricPool, "page_first_direct", False),
    "flat-only": (FlatOnlyPool, "page_first", True),
}
SHAPES = pytest.mark.parametrize("shape", POOLS)
FLAT_SHAPES = pytest.mark.parametrize("shape", [s for s in POOLS if not s.startswith("asymmetric")])
"""A parameter for tests of flat pages, with all shapes but those whose K and V differ: SGLang has no flat pages of
these."""
NODES = pytest.mark.parametrize("there", [0, 1], ids=["one-node", "two-nodes"])


def pool_of(shape, **sizes):
    """Returns a pool of this shape, and the config of an engine with this pool."""
    kind, layout, mla = POOLS[shape]
    return kind(layout, **sizes), {"is_mla_model": mla, "model_name": shape}
