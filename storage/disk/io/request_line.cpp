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
  while (start_first(syncs_)) {
  }
  while (start_transfer()) {
  }
}

bool request_line::start_transfer() {
  const bool write_is_next = reads_.empty() || reads_since_write_ >= reads_per_write;
  if (write_is_next && start_first(writes_)) {
    reads_since_write_ = 0;
    return true;
  }
  // A device that refuses the write may take a read: it has a limit on the bytes of writes.
  if (!start_first(reads_))
    return false;
  ++reads_since_write_;
  return true;
}

bool request_line::start_first(std::deque<disk_request>& line) {
  if (line.empty() || !io_.submit(line.front()))
    return false;
  line.pop_front();
  ++on_device_;
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
