#pragma once

#include "client/client_impl.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace peercache::client {

/// After a `get`: copies of pages that came from other hosts, for this host's own pool, so that the
/// next reader here needs no network and readers elsewhere have one more place to read from. Which
/// pages, the node says (`pool.mirror`); how much room they get is the pool's to say.
///
/// Never a wrong byte: only pages with a checksum are copied, and it is compared in the copy. Never
/// in anybody's way: slots are waited for only briefly, and what has none is left.
/// Threads: one object per call.
class mirror_call {
public:
  mirror_call(cache_client::impl& client, own_pool_ptr pool, deadline until);

  /// The page was read from another host, whose record has this checksum. Decides whether it is
  /// to be mirrored.
  void consider(const get_page& page, std::uint32_t length_bytes, std::uint64_t checksum);
  /// Copies and commits what was decided on.
  void run();

  /// Copies a page's parts one behind the other; false: what was copied has another checksum.
  /// @pre `to` is as long as all parts together
  static bool copy_compared(std::span<const page_part> parts, std::span<std::byte> to,
                            std::uint64_t checksum);

private:
  struct candidate {
    const get_page* page = nullptr;
    std::uint32_t length_bytes = 0;
    std::uint64_t checksum = 0;
    slot_id slot;
  };

  /// Candidates without a slot are dropped.
  void take_slots();

  cache_client::impl& client_;
  own_pool_ptr pool_;
  const deadline until_;
  std::uint64_t bytes_ = 0;
  std::vector<candidate> chosen_;
};

} // namespace peercache::client
