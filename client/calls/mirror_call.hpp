#pragma once

#include "client/calls/client_impl.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace peercache::client {

/// After a `get`: copies pages that came from other hosts into this host's pool, so that the next
/// reader on this host needs no network and readers elsewhere have one more place to read from. The
/// node says which pages (`pool.mirror`); the pool limits their room.
///
/// Only pages with a checksum are copied, and the copy's checksum is compared: no wrong byte is
/// stored. Slots are waited for only briefly, and pages without a slot are not mirrored.
/// Threads: one object per call.
class mirror_call {
public:
  mirror_call(client_impl& client, own_pool_ptr pool, deadline until);

  /// Decides whether to mirror a page that was read from another host, whose record has this
  /// checksum.
  void consider(const get_page& page, std::uint32_t length_bytes, std::uint64_t checksum);
  /// Copies and commits the pages that `consider` chose.
  void run();

  /// Copies a page's parts one behind the other. False: the copied bytes have another checksum.
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

  /// Gets a slot for each candidate; drops those that get none.
  void take_slots();

  client_impl& client_;
  own_pool_ptr pool_;
  const deadline until_;
  std::uint64_t bytes_ = 0;
  std::vector<candidate> chosen_;
};

} // namespace peercache::client
