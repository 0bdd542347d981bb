"""Makes a secondary tier of its entry in the configuration."""

import importlib

from vllm.v1.kv_offload.tiering.base import SecondaryTierManager


class SecondaryTierFactory:
    registry: dict = {}

    @classmethod
    def register_tier(cls, tier_type, module_path, class_name):
        if tier_type in cls.registry:
            raise ValueError(f"{tier_type} is registered")
        cls.registry[tier_type] = module_path, class_name

    @classmethod
    def create_secondary_tier(cls, tier_config, primary_kv_view, offloading_spec):
        config = dict(tier_config)
        tier_type, module_path = config.pop("type"), config.pop("module_path", None)
        module_path, name = cls.registry.get(tier_type, (module_path, tier_type))
        made = getattr(importlib.import_module(module_path), name)
        assert issubclass(made, SecondaryTierManager)
        return made(offloading_spec=offloading_spec, primary_kv_view=primary_kv_view, tier_type=tier_type, **config)
