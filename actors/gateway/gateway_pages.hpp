#pragma once

#include "actors/gateway/gateway_actor.hpp"

#include <cstdint>
#include <string>

namespace peercache::actors {

// What clients anywhere ask of this node's pages, which the gateway passes on to the pool, the
// promoter and the disk. Threads: the gateway's.

/// Keeps pages from eviction for `for_ms`; 0 ends the holds that only `who` has. The pool answers.
caf::result<std::string> hold_for(gateway_pointer self, const std::string& pages, std::uint32_t who,
                                  std::uint32_t for_ms);
caf::result<std::string> remove_for(gateway_pointer self, const std::string& keys);
/// Asks the promoter for pages on disk. Without a disk tier, or while the node's pages leave the
/// directory, the answer has no location for any page.
caf::result<std::string> promote_for(gateway_pointer self, const std::string& pages,
                                     std::uint32_t within_ms);
/// Lets the promoter bring pages from disk into the pool ahead of need. The promoter answers, so
/// that no more questions wait for it than the look-up server lets be open.
caf::result<std::string> warm(gateway_pointer self, std::string& pages);
/// Tells the pool which of its pages other hosts have READ. The pool answers.
caf::result<std::string> tell_pool(gateway_pointer self, std::string& pages);
caf::result<bool> verify_disk(gateway_pointer self);
caf::result<bool> evict_disk(gateway_pointer self, std::uint64_t bytes);

} // namespace peercache::actors
