"""Modules in the shape of vLLM's, for tests: the classes that a secondary tier meets, and nothing of what they do."""

__version__ = "0.31.0"
