#include "stress_ledger.hpp"

#include <fmt/format.h>

namespace peercache::stress {

void stress_ledger::report_wrong(std::uint32_t key, const bench::page_check& check,
                                 std::uint64_t bytes, client::page_origin origin) {
  wrong_bytes += bytes;
  wrong_pages += 1;
  std::lock_guard guard(lock_);
  if (examples_.size() < examples_max)
    examples_.push_back(
        fmt::format("key {}: {} wrong bytes, found key {} version {}, newest {}, from {}", key,
                    bytes, check.found_id, check.version, newest_version(key), to_string(origin)));
}

std::vector<std::string> stress_ledger::examples() const {
  std::lock_guard guard(lock_);
  return examples_;
}

} // namespace peercache::stress
