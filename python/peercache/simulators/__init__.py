"""Engines for `peercache bench`: each drives the connector ("door") of PeerCache as the engine of
its name does."""
