#include "rdma/verbs/payload_reads.hpp"

#include "common/assert.hpp"

#include <algorithm>
#include <utility>

namespace peercache::rdma {

void payload_reads::begin(batch_job& job, const sub_request& sub, const remote_region& region,
                          destination_memory::snapshot destinations,
                          const limits& at_most) noexcept {
  PEERCACHE_ASSERT(at_most.message_bytes > 0 && at_most.sge > 0 &&
                   at_most.sge <= payload_read::sge_max);
  job_ = &job;
  region_ = &region;
  destinations_ = std::move(destinations);
  limits_ = at_most;
  at_ = {.position = sub.first};
  end_ = sub.first + sub.count;
}

void payload_reads::drop() noexcept {
  job_ = nullptr;
  destinations_.reset();
}

void payload_reads::next_page() noexcept {
  at_ = {.position = at_.position + 1};
}

bool payload_reads::settle() noexcept {
  for (; at_.position < end_; next_page()) {
    if (page().status != page_status::pending)
      continue;
    for (; at_.part < page().part_count; ++at_.part, at_.part_offset = 0)
      if (at_.part_offset < part().bytes)
        return true;
  }
  return false;
}

std::optional<remote_region::readable> payload_reads::locate(std::uint64_t& address) noexcept {
  std::optional<remote_region::readable> there;
  if (!job_->batch->judged) {
    address = region_->area_address(page().source.address + at_.page_offset);
    there = region_->find_area(address);
  } else if (const auto in_pool = region_->byte_address(page(), at_.page_offset)) {
    address = *in_pool;
    there = region_->find(address);
  } else {
    page().status = page_status::stale;
    return std::nullopt;
  }
  if (!there)
    page().status = page_status::unreachable;
  return there;
}

payload_reads::outcome payload_reads::next(payload_read& read, bounce_memory& bounce) noexcept {
  while (settle()) {
    const auto there = locate(read.remote_address);
    if (!there)
      continue;
    read.rkey = there->rkey;
    read.bytes = read.sge_count = 0;
    read.copy_to = nullptr;
    const auto at_most = std::min<std::uint64_t>(there->bytes, limits_.message_bytes);
    return gather(read, static_cast<std::uint32_t>(at_most), bounce) ? outcome::read
                                                                     : outcome::no_block;
  }
  return outcome::done;
}

bool payload_reads::gather(payload_read& read, std::uint32_t at_most,
                           bounce_memory& bounce) noexcept {
  const auto position = at_.position;
  while (read.sge_count < limits_.sge && read.bytes < at_most && settle() &&
         at_.position == position) {
    if (read.bytes != 0 && at_row_begin() && !bridge(read, at_most, bounce))
      return true;
    auto* to = part().data + at_.part_offset;
    const auto bytes =
        std::min({part().bytes - at_.part_offset, left_of_row(), at_most - read.bytes});
    const auto key = destination_memory::key_of(destinations_, to, bytes);
    if (!key)
      return read.sge_count != 0 || bounce_piece(read, bytes, bounce);
    read.sges[read.sge_count++] = {reinterpret_cast<std::uint64_t>(to), bytes, *key};
    read.bytes += bytes;
    advance(bytes);
  }
  return true;
}

bool payload_reads::at_row_begin() noexcept {
  return strided() && at_.page_offset % page().source.row_bytes == 0;
}

std::uint32_t payload_reads::left_of_row() noexcept {
  const auto row_bytes = page().source.row_bytes;
  return strided() ? row_bytes - at_.page_offset % row_bytes
                   : page().length_bytes - at_.page_offset;
}

bool payload_reads::bridge(payload_read& read, std::uint32_t at_most,
                           bounce_memory& bounce) noexcept {
  const auto& rows = page().source;
  const auto gap = rows.stride_bytes - rows.row_bytes;
  // A gap needs a piece of its own, and is READ only when bytes of the next row follow it in the
  // same READ.
  if (rows.stride_bytes > shared_stride_max || read.sge_count + 2 > limits_.sge ||
      read.bytes + gap >= at_most)
    return false;
  const auto bytes = static_cast<std::uint32_t>(gap);
  read.sges[read.sge_count++] = {reinterpret_cast<std::uint64_t>(bounce.discard()), bytes,
                                 bounce.local_key()};
  read.bytes += bytes;
  return true;
}

bool payload_reads::bounce_piece(payload_read& read, std::uint32_t bytes,
                                 bounce_memory& bounce) noexcept {
  const auto block = bounce.take();
  if (!block)
    return false;
  bytes = std::min(bytes, bounce_memory::block_bytes);
  read.block = *block;
  read.copy_to = part().data + at_.part_offset;
  read.sges[0] = {reinterpret_cast<std::uint64_t>(bounce.address(*block)), bytes,
                  bounce.local_key()};
  read.sge_count = 1;
  read.bytes = bytes;
  advance(bytes);
  return true;
}

void payload_reads::advance(std::uint32_t bytes) noexcept {
  at_.part_offset += bytes;
  at_.page_offset += bytes;
}

} // namespace peercache::rdma
