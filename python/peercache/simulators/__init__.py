"""Engines for `peercache bench`: each drives a door of PeerCache's as the engine of its name does."""
