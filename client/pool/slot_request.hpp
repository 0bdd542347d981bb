#pragma once

#include "client/pool/own_pool.hpp"
#include "client/values/pages.hpp"
#include "common/assert.hpp"
#include "common/page_status.hpp"

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

namespace peercache::client {

/// A caller's request for slots, which the session's actor carries to the node. When the answer
/// comes after the caller has gone, the slots are handed back: otherwise nobody could use them
/// until the process ends. Threads: the caller and the session's actor.
class slot_request {
public:
  slot_request(own_pool_ptr from, std::string packed_lengths)
      : pool(std::move(from)), lengths(std::move(packed_lengths)) {
    PEERCACHE_ASSERT(!lengths.empty() && lengths.size() % sizeof(std::uint32_t) == 0);
  }

  const own_pool_ptr pool;
  const std::string lengths; ///< Packed u32, one length per page.

  /// For the session's actor: the slots, or why there are none; the first answer counts. False when
  /// it is not the first or the caller has given up: abandon the slots.
  bool answer(std::string packed_slots, page_status why_not = page_status::pending);

  struct outcome {
    std::string slots; ///< Packed slot_ids; empty when refused.
    page_status why_not = page_status::pending;
  };
  /// For the caller: waits for the answer; `timed_out` gives the request up, at the deadline or
  /// when the thread is interrupted.
  outcome wait(deadline until);

private:
  std::mutex lock_;
  std::condition_variable answered_;
  std::optional<outcome> outcome_; ///< Guarded by lock_.
  bool given_up_ = false;          ///< Guarded by lock_.
};
using slot_request_ptr = std::shared_ptr<slot_request>;

} // namespace peercache::client
