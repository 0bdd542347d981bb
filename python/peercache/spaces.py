"""The names of the spaces that `clear` withdraws: the first fields of key spaces."""

from __future__ import annotations


def space_name(model: str, space: str = "") -> str:
    """The space of all pages of a model: those of HiCache and of the connector, of every rank, pool
    and layout. Pages of a tenant that names a `space` are in a space of their own."""
    return f"{space}:{model}" if space else model
