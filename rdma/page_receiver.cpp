#include "rdma/page_receiver.hpp"

#include "common/assert.hpp"
#include "common/guards.hpp"

#include <algorithm>

namespace peercache::rdma {

void page_receiver::begin(batch_job& job, const sub_request& sub, decides what) noexcept {
  PEERCACHE_ASSERT(done());
  job_ = &job;
  decides_ = what;
  at_ = {sub.first, 0, 0};
  end_ = sub.first + sub.count;
  staged_ = goes_to_device();
  if (staged_)
    staging_.resize(staging_bytes);
  if (settle(at_))
    enter_page();
  else
    drop();
}

const page_part& page_receiver::part_at(const cursor& at) const noexcept {
  const auto& page = job_->page(at.position);
  return job_->batch->parts[page.first_part + at.part];
}

bool page_receiver::settle(cursor& at) const noexcept {
  for (; at.position < end_; ++at.position, at.part = 0, at.offset = 0) {
    const auto& page = job_->page(at.position);
    if (page.status != page_status::pending)
      continue;
    for (; at.part < page.part_count; ++at.part, at.offset = 0)
      if (at.offset < part_at(at).bytes)
        return true;
  }
  return false;
}

/// Whether a part of a pending page is device memory.
bool page_receiver::goes_to_device() const noexcept {
  if (device_ == nullptr)
    return false;
  for (auto at = at_; settle(at); at.part += 1, at.offset = 0)
    if (device_->holds(part_at(at).data))
      return true;
  return false;
}

/// The number of payload bytes that are still to come, at most `at_most`.
std::size_t page_receiver::bytes_left(std::size_t at_most) const noexcept {
  std::size_t bytes = 0;
  for (auto at = at_; bytes < at_most && settle(at); at.part += 1, at.offset = 0)
    bytes += part_at(at).bytes - at.offset;
  return std::min(bytes, at_most);
}

std::size_t page_receiver::next(std::span<iovec> out, std::size_t bytes_max) const noexcept {
  PEERCACHE_ASSERT(!done());
  if (staged_) {
    out[0] = {const_cast<std::byte*>(staging_.data()),
              bytes_left(std::min(bytes_max, staging_.size()))};
    return 1;
  }
  std::size_t count = 0;
  auto at = at_;
  while (count < out.size() && bytes_max > 0) {
    const auto& part = part_at(at);
    const auto bytes = std::min<std::size_t>(part.bytes - at.offset, bytes_max);
    out[count++] = {part.data + at.offset, bytes};
    bytes_max -= bytes;
    at.offset += static_cast<std::uint32_t>(bytes);
    if (!settle(at))
      break;
  }
  return count;
}

/// Copies bytes of a part from the staging memory to their place. False when a device's memory
/// could not be written to.
bool page_receiver::place(std::byte* to, std::span<const std::byte> received) noexcept {
  if (device_->holds(to))
    return device_->copy_in(to, received);
  std::copy(received.begin(), received.end(), to);
  return true;
}

bool page_receiver::advance(std::size_t bytes) noexcept {
  std::size_t taken = 0; // Bytes of `staging_` that have reached their parts.
  while (bytes > 0) {
    PEERCACHE_ASSERT(!done());
    const auto& part = part_at(at_);
    const auto here = std::min<std::size_t>(part.bytes - at_.offset, bytes);
    const std::span<std::byte> to{part.data + at_.offset, here};
    const auto received = staged_ ? std::span(staging_).subspan(taken, here) : to;
    if (verifying_)
      digest_.update(received);
    if (staged_ && !place(to.data(), received))
      return false;
    taken += here;
    bytes -= here;
    at_.offset += static_cast<std::uint32_t>(here);
    const auto position = at_.position;
    const bool more = settle(at_);
    if (more && at_.position == position)
      continue;
    leave_page(job_->page(position));
    if (more)
      enter_page();
    else
      drop();
  }
  return true;
}

void page_receiver::enter_page() noexcept {
  verifying_ = job_->page(at_.position).verify && guard_on(guard::checksum);
  if (verifying_)
    digest_.reset();
}

void page_receiver::leave_page(page_read& page) noexcept {
  const bool right = !verifying_ || digest_.digest() == page.checksum;
  if (!right)
    page.status = page_status::corrupt;
  else if (decides_ == decides::hits_and_misses)
    page.status = page_status::hit;
}

} // namespace peercache::rdma
