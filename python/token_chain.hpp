#pragma once

#include "common/page_key.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace peercache::python {

/// Names the pages of a prompt by all tokens up to and including theirs: key 0 is BLAKE3 of the
/// space and the first page's tokens, each further one of the space, the key before it and its own
/// tokens. Equal keys mean equal prefixes. Only full pages have a key. `page_tokens` is at least 1.
/// Each key is 64 hex digits. Threads: any, without the GIL.
std::vector<std::string> chain_keys(const key_space& space, std::span<const std::uint32_t> tokens,
                                    std::size_t page_tokens);

} // namespace peercache::python
