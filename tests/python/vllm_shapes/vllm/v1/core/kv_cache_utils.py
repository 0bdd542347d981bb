"""The hash that the first blocks have for a parent. vLLM makes it after its tiers."""

NONE_HASH = b"the seed of a test's block hashes"
