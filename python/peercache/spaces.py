"""What `clear` goes by: the first field of key spaces."""

from __future__ import annotations


def space_name(model: str, space: str = "") -> str:
    """Of all that is kept for a model: by HiCache and by the connector, of every rank, pool and layout. Tenants
    that have a space of their own keep it apart."""
    return f"{space}:{model}" if space else model
