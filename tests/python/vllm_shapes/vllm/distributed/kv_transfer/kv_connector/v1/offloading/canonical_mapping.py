"""The canonical format of chunks."""


def canonical_format_id(kv_cache_layout):
    return f"v1-{kv_cache_layout.lower()}"
