"""Fake SGLang modules for tests of `peercache.pd`: what SGLang's prefill and decode schedulers and its Common classes
look like to a transfer backend. Written after notes about SGLang of August 2026; nothing here is SGLang's code, and
nothing of PeerCache is used."""
