"""The spaces of `clear`: the first fields of key spaces."""

from __future__ import annotations


def space_name(model: str, space: str = "") -> str:
    """The space of all pages of a model: HiCache's and the connector's, of every rank, pool and layout. Tenants
    that have a space of their own keep it apart."""
    return f"{space}:{model}" if space else model
