#include "tests/fakes/memory_disk_faults.hpp"

namespace peercache::storage {

void memory_disk_faults::fail_once(disk_operation what, std::uint64_t skip, int error_number) {
  once_.push_back({what, skip, error_number});
}

void memory_disk_faults::fail_share(disk_operation what, double part, int error_number) {
  shares_[static_cast<std::size_t>(what)] = {part, error_number};
}

bool memory_disk_faults::heal() {
  const bool all_failed = once_.empty();
  once_.clear();
  shares_ = {};
  all_ = 0;
  return all_failed;
}

void memory_disk_faults::set_delay(disk_operation what, std::chrono::nanoseconds least,
                                   std::chrono::nanoseconds jitter) {
  delays_[static_cast<std::size_t>(what)] = {least, jitter};
}

int memory_disk_faults::next(disk_operation what) {
  int failed = all_;
  std::erase_if(once_, [&](nth& one) {
    if (one.what != what || one.left-- != 0)
      return false;
    failed = one.error_number;
    return true;
  });
  const auto& some = shares_[static_cast<std::size_t>(what)];
  if (failed == 0 && happens(some.part))
    failed = some.error_number;
  return failed;
}

std::chrono::nanoseconds memory_disk_faults::delay_of(disk_operation what) {
  const auto& one = delays_[static_cast<std::size_t>(what)];
  if (one.jitter.count() <= 0)
    return one.least;
  return one.least + std::chrono::nanoseconds(random_() % (one.jitter.count() + 1));
}

bool memory_disk_faults::happens(double part) {
  return part > 0 && static_cast<double>(random_() >> 11) * 0x1p-53 < part;
}

} // namespace peercache::storage
