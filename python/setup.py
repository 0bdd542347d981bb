"""Makes the wheel around a module that CMake has built. Only `make_wheel.py` calls it."""

import os

from setuptools import Distribution, find_packages, setup


class BuiltElsewhere(Distribution):
    """A distribution whose extension module comes as package data; it tells setuptools that the wheel belongs to one
    platform."""

    def has_ext_modules(self) -> bool:
        return True


setup(
    name="peercache",
    version=os.environ["PEERCACHE_WHEEL_VERSION"],
    description="Shared KV cache for LLM inference clusters: client, SGLang HiCache backend, vLLM tier, LMCache L2",
    license="Apache-2.0",
    packages=find_packages(include=["peercache", "peercache.*"]),
    package_data={"peercache": ["*.so", "libs/*", "*.pyi", "py.typed", "as_mooncake/mooncake/*.py"]},
    entry_points={
        "sglang.srt.plugins": ["peercache = peercache.pd.plugin:load"],
        "vllm.general_plugins": ["peercache = peercache.vllm.plugin:register"],
    },
    python_requires=">=3.10",
    distclass=BuiltElsewhere,
    zip_safe=False,
)
