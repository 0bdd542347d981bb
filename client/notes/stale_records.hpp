#pragma once

#include "directory/owner_batches.hpp"
#include "directory/wire.hpp"
#include "discovery/hash_ring.hpp"

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <vector>

namespace peercache::client {

/// Directory records that a reader found to be false: the fill of the slot that they name is gone.
/// Their owners are told now and then (client/session/session_actor.cpp), because a withdrawal may
/// have been lost, and a record that nobody withdraws makes its key uncacheable: `set` finds a
/// duplicate, `get` finds nothing. Late messages are safe: an owner forgets exactly (key,
/// incarnation, generation), and a fill that is gone does not come back (invariant I2 of
/// docs/architecture.md).
///
/// Threads: any. Bound: `records_max`; further records are left to the next reader.
class stale_records {
public:
  static constexpr std::size_t records_max = 4096;

  void add(const directory::withdraw_record& record);
  /// Takes out the records that were added since the last call.
  std::vector<directory::withdraw_record> take();
  /// Takes out these records, packed as withdrawals for the owners of their keys.
  std::vector<directory::owner_batch> take_batches(const discovery::hash_ring& ring,
                                                   std::uint32_t replicas);

private:
  std::mutex lock_;
  std::vector<directory::withdraw_record> records_; ///< Guarded by lock_.
};

} // namespace peercache::client
