#pragma once

#include "common/page_key.hpp"
#include "common/page_status.hpp"
#include "directory/page_location.hpp"
#include "tests/scenario/script.hpp"

#include <cstddef>
#include <functional>
#include <memory>
#include <vector>

namespace peercache::scenario {

class cluster;
class process;

/// One page on its way to a reader: the data plane of the simulated cluster, in steps of its time,
/// so that the holder's slots may change between any two steps.
struct page_fetch {
  page_key key;
  directory::page_location from;
  time_point until;
  std::vector<std::byte> bytes; ///< The bytes of the page, after a `hit`.
  /// The reader's callback: called once, by the deadline, unless the reader's process has ended
  /// before.
  std::function<void(page_status)> done;
};
using page_fetch_ptr = std::shared_ptr<page_fetch>;

/// Copies a page out of the pool of the reader's own host: checks the slot, copies, checks the slot
/// again.
void copy_own(cluster& in, process& reader, const page_fetch_ptr& page);
/// Fetches a page over the network: one-sided, or from a holder that pins the page and sends it in
/// parts.
void fetch(cluster& in, process& reader, const page_fetch_ptr& page);

} // namespace peercache::scenario
