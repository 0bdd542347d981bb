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
  switch (request.what) {
  case disk_request::kind::read:
    ++reads_on_way_;
    reads_.push_back(request);
    break;
  case disk_request::kind::write:
    writes_.push_back(request);
    break;
  case disk_request::kind::sync:
  case disk_request::kind::sync_folder:
    // A sync goes to the front of the line: it covers only writes that are done, and many pages
    // wait for it.
    writes_.push_front(request);
    break;
  }
}

void bucket_requests::start() {
  if (start_all(reads_))
    start_all(writes_);
}

bool bucket_requests::start_all(std::deque<disk_request>& line) {
  for (; !line.empty(); line.pop_front())
    if (!io_.submit(line.front()))
      return false;
  return true;
}

std::vector<std::uint64_t> bucket_requests::cancel() {
  std::vector<std::uint64_t> tags;
  for (auto* line : {&reads_, &writes_}) {
    for (const auto& request : *line)
      tags.push_back(request.tag);
    line->clear();
  }
  return tags;
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
