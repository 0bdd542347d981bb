"""The wheel around a module that CMake has built. `make_wheel.py` calls it; nobody else needs to."""

import os

from setuptools import Distribution, find_packages, setup


class BuiltElsewhere(Distribution):
    """Its extension module comes as package data, so the wheel belongs to one platform."""

    def has_ext_modules(self) -> bool:
        return True


setup(
    name="peercache",
    version=os.environ["PEERCACHE_WHEEL_VERSION"],
    description="Shared KV cache for LLM inference clusters: client and SGLang HiCache backend",
    license="Apache-2.0",
    packages=find_packages(include=["peercache", "peercache.*"]),
    package_data={"peercache": ["*.so", "*.pyi", "py.typed"]},
    python_requires=">=3.9",
    distclass=BuiltElsewhere,
    zip_safe=False,
)
