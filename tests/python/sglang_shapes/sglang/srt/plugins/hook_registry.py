"""Hooks around SGLang functions, which plug-ins register."""

import enum
import functools
import importlib
import sys


class HookType(enum.Enum):
    BEFORE = "before"
    AFTER = "after"
    AROUND = "around"
    REPLACE = "replace"


class HookRegistry:
    _hooks = {}

    @classmethod
    def register(cls, target, hook, hook_type=HookType.AFTER, *, source=None):
        cls._hooks.setdefault(target, []).append((hook_type, hook))

    @classmethod
    def apply_hooks(cls):
        """Wraps the hooked functions, also where other modules have imported them by name."""
        for target, hooks in cls._hooks.items():
            module_name, name = target.rsplit(".", 1)
            module = importlib.import_module(module_name)
            for hook_type, hook in hooks:
                assert hook_type is HookType.AROUND, "this stand-in knows AROUND alone"
                original = getattr(module, name)
                wrapped = functools.wraps(original)(functools.partial(hook, original))
                for each in list(sys.modules.values()):
                    if getattr(each, name, None) is original:
                        setattr(each, name, wrapped)
        cls._hooks = {}
