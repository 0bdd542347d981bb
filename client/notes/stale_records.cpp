#include "client/notes/stale_records.hpp"

#include <utility>

namespace peercache::client {

void stale_records::add(const directory::withdraw_record& record) {
  std::lock_guard guard{lock_};
  if (records_.size() < records_max)
    records_.push_back(record);
}

std::vector<directory::withdraw_record> stale_records::take() {
  std::lock_guard guard{lock_};
  return std::exchange(records_, {});
}

std::vector<directory::owner_batch> stale_records::take_batches(const discovery::hash_ring& ring,
                                                                std::uint32_t replicas) {
  directory::owner_batches batches{ring, replicas};
  for (const auto& record : take())
    batches.add(0, record);
  return batches.take();
}

} // namespace peercache::client
