"""The hash that the first block of a prompt has as its parent. vLLM sets it only after it has made its tiers."""

NONE_HASH = b"the seed of a test's block hashes"
