#include "storage/disk/bucket/bucket_requests.hpp"

#include "common/assert.hpp"

namespace peercache::storage {

void bucket_requests::add(const bucket_operation& operation, disk_request request) {
  if (free_.empty()) {
    free_.push_back(static_cast<std::uint32_t>(operations_.size()));
    operations_.emplace_back();
  }
  request.tag = free_.back();
  free_.pop_back();
  operations_[request.tag] = operation;
  if (request.what == disk_request::kind::read)
    ++reads_on_way_;
  line_.add(request);
}

bucket_operation bucket_requests::take(std::uint64_t tag) {
  PEERCACHE_ASSERT(tag < operations_.size() && operations_[tag].in != nullptr);
  auto operation = operations_[tag];
  operations_[tag].in = nullptr;
  free_.push_back(static_cast<std::uint32_t>(tag));
  if (operation.what == bucket_operation::kind::read) {
    PEERCACHE_ASSERT(reads_on_way_ > 0);
    --reads_on_way_;
  }
  return operation;
}

} // namespace peercache::storage
