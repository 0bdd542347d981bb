// Methods of `memory_disk_io` by which tests damage and inspect the disk.

#include "common/assert.hpp"
#include "tests/fakes/memory_disk_io.hpp"

#include <algorithm>

namespace peercache::storage {

using std::chrono::nanoseconds;

nanoseconds memory_disk_io::now() const {
  const std::lock_guard lock(mutex_);
  return time();
}

void memory_disk_io::advance(nanoseconds by) {
  PEERCACHE_ASSERT(!options_.real_time);
  const std::lock_guard lock(mutex_);
  now_ += by;
}

void memory_disk_io::fail_once(disk_operation what, std::uint64_t skip, int error_number) {
  const std::lock_guard lock(mutex_);
  faults_.fail_once(what, skip, error_number);
}

void memory_disk_io::fail_share(disk_operation what, double share, int error_number) {
  const std::lock_guard lock(mutex_);
  faults_.fail_share(what, share, error_number);
}

void memory_disk_io::fail_all(int error_number) {
  const std::lock_guard lock(mutex_);
  faults_.fail_all(error_number);
}

bool memory_disk_io::heal() {
  const std::lock_guard lock(mutex_);
  return faults_.heal();
}

void memory_disk_io::set_delay(disk_operation what, nanoseconds delay, nanoseconds jitter) {
  const std::lock_guard lock(mutex_);
  faults_.set_delay(what, delay, jitter);
}

void memory_disk_io::set_short_transfers(double share) {
  const std::lock_guard lock(mutex_);
  faults_.set_short_transfers(share);
}

void memory_disk_io::set_capacity(std::uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  capacity_bytes_ = bytes;
}

void memory_disk_io::set_hanging(bool hangs) {
  const std::lock_guard lock(mutex_);
  hanging_ = hangs;
  woken_ = true;
  woken_up_.notify_one();
}

std::uint64_t memory_disk_io::operations() const {
  const std::lock_guard lock(mutex_);
  return operations_;
}

void memory_disk_io::stop_at(std::uint64_t operation) {
  const std::lock_guard lock(mutex_);
  stop_at_ = operation;
}

bool memory_disk_io::stopped() const {
  const std::lock_guard lock(mutex_);
  return stopped_;
}

std::unique_ptr<memory_disk_io> memory_disk_io::after_power_cut(std::uint64_t seed,
                                                                survivors what) const {
  const std::lock_guard lock(mutex_);
  // Writes on their way may have reached the disk before the power cut, so the copy of the disk may
  // have them. `perhaps` does not change what programs see on this disk.
  if (!stopped_)
    for (const auto& one : flights_)
      if (one.request.what == disk_request::kind::write)
        file_of(one.request.file)
            ->perhaps(++order_, one.request.offset_bytes, bytes_to_move(one.request), one.bytes);
  auto options = options_;
  options.seed = seed;
  options.capacity_bytes = capacity_bytes_;
  auto after = std::make_unique<memory_disk_io>(options);
  std::mt19937_64 random(seed);
  after->names_ = names_.after_power_cut(random, what);
  return after;
}

// -- methods for the contents of the disk

std::vector<std::string> memory_disk_io::files() const {
  const std::lock_guard lock(mutex_);
  return names_.files();
}

memory_disk_io::file_ptr memory_disk_io::named(const std::string& file) const {
  auto found = names_.find(file);
  PEERCACHE_ASSERT(found);
  return found;
}

std::vector<std::byte> memory_disk_io::contents(const std::string& file) const {
  const std::lock_guard lock(mutex_);
  const auto found = named(file);
  std::vector<std::byte> bytes(found->bytes());
  found->read(0, bytes);
  return bytes;
}

void memory_disk_io::overwrite(const std::string& file, std::uint64_t offset_bytes,
                               std::span<const std::byte> bytes) {
  const std::lock_guard lock(mutex_);
  named(file)->overwrite(offset_bytes, bytes);
}

void memory_disk_io::flip_bit(const std::string& file, std::uint64_t offset_bytes, unsigned bit) {
  const std::lock_guard lock(mutex_);
  const auto found = named(file);
  std::byte one{};
  found->read(offset_bytes, {&one, 1});
  one ^= std::byte{1} << (bit % 8);
  found->overwrite(offset_bytes, {&one, 1});
}

void memory_disk_io::swap_ranges(const std::string& a, std::uint64_t offset_a, const std::string& b,
                                 std::uint64_t offset_b, std::uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  std::vector<std::byte> of_a(bytes);
  std::vector<std::byte> of_b(bytes);
  named(a)->read(offset_a, of_a);
  named(b)->read(offset_b, of_b);
  named(a)->overwrite(offset_a, of_b);
  named(b)->overwrite(offset_b, of_a);
}

void memory_disk_io::swap_files(const std::string& a, const std::string& b) {
  const std::lock_guard lock(mutex_);
  names_.swap(a, b);
}

} // namespace peercache::storage
