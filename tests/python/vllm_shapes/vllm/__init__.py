"""Fake vLLM modules for tests: the classes that a secondary tier uses, without their behaviour."""

__version__ = "0.31.0"
