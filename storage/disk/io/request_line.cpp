#include "storage/disk/io/request_line.hpp"

namespace peercache::storage {

void request_line::add(const disk_request& request) {
  switch (request.what) {
  case disk_request::kind::sync:
  case disk_request::kind::sync_folder:
    syncs_.push_back(request);
    break;
  case disk_request::kind::read:
    reads_.push_back(request);
    break;
  case disk_request::kind::write:
    writes_.push_back(request);
    break;
  }
}

void request_line::start() {
  start(syncs_);
  if (start(reads_))
    start(writes_);
}

bool request_line::start(std::deque<disk_request>& line) {
  for (; !line.empty(); line.pop_front()) {
    if (!io_.submit(line.front()))
      return false;
    ++on_device_;
  }
  return true;
}

std::vector<std::uint64_t> request_line::cancel() {
  std::vector<std::uint64_t> tags;
  tags.reserve(waiting());
  for (auto* line : {&syncs_, &reads_, &writes_}) {
    for (const auto& request : *line)
      tags.push_back(request.tag);
    line->clear();
  }
  return tags;
}

} // namespace peercache::storage
