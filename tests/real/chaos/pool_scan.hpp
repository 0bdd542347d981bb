#pragma once

#include "common/ids.hpp"
#include "common/page_key.hpp"
#include "common/result.hpp"

#include <string>
#include <unordered_map>

namespace peercache::chaos {

/// The pages of a pool: each key with the generation of the page's slot.
using pool_pages = std::unordered_map<page_key, generation>;

/// Reads which pages are in another process's pool, from shared memory, without asking that
/// process. Errors: the pool is gone.
result<pool_pages> scan_pool(const std::string& name_prefix, const std::string& node_name,
                             const incarnation& owner);

} // namespace peercache::chaos
