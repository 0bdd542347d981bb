#pragma once

#include "common/page_key.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace peercache::python {

/// Makes the keys of a prompt's pages, each from all tokens up to the page's end: key 0 is BLAKE3
/// of the space and the first page's tokens, each further key of the space, the key before it and
/// its own page's tokens. Equal keys mean equal prefixes. Only full pages have a key. `page_tokens`
/// is at least 1. Each key is 64 hex digits. Threads: any, without the GIL.
std::vector<std::string> chain_keys(const key_space& space, std::span<const std::uint32_t> tokens,
                                    std::size_t page_tokens);

} // namespace peercache::python
