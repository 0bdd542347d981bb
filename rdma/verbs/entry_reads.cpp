#include "rdma/verbs/entry_reads.hpp"

#include "common/assert.hpp"
#include "rdma/verbs/entry_judge.hpp"

#include <algorithm>

namespace peercache::rdma {

namespace {

constexpr std::uint32_t entry_bytes = sizeof(slot_entry);
static_assert(bounce_memory::block_bytes % entry_bytes == 0 &&
                  entry_reads::read_bytes_max <= bounce_memory::block_bytes &&
                  entry_reads::distance_max + entry_bytes <= entry_reads::read_bytes_max,
              "a READ of two neighbours has room, and entries do not wrap around the landing");

} // namespace

entry_reads::entry_reads() : places_(places) {}

void entry_reads::begin(batch_job& job, const sub_request& sub, const remote_region& region,
                        std::uint32_t message_bytes, std::byte* landing) noexcept {
  PEERCACHE_ASSERT(all_judged());
  job_ = &job;
  region_ = &region;
  landing_ = landing;
  bytes_max_ = std::min(read_bytes_max, message_bytes);
  asked_ = judged_ = sub.first;
  end_ = sub.first + sub.count;
  landed_ = 0;
}

std::uint64_t entry_reads::room() noexcept {
  const auto oldest = judged_ == asked_ ? landed_ : place_of(judged_).at;
  const auto free = bounce_memory::block_bytes - (landed_ - oldest);
  const auto to_the_end = bounce_memory::block_bytes - landed_ % bounce_memory::block_bytes;
  return std::min({free, to_the_end, bytes_max_});
}

std::optional<remote_region::readable> entry_reads::readable_at(std::uint64_t entry) noexcept {
  const auto there = region_->find(entry);
  return there && there->bytes >= entry_bytes ? there : std::nullopt;
}

bool entry_reads::settle() noexcept {
  for (; asked_ < end_ && asked_ - judged_ < places; ++asked_) {
    auto& one = page(asked_);
    if (one.status == page_status::pending) {
      if (readable_at(region_->entry_address(one.slot)))
        return true;
      one.status = page_status::unreachable;
    }
    if (judged_ == asked_)
      // A page that is decided already needs no READ, and no page before it waits for one: `judge`,
      // which stops at a page whose READ is not retired, need not visit it.
      ++judged_;
    else
      place_of(asked_) = {0, landed_};
  }
  return false;
}

bool entry_reads::next(entry_read& read, std::uint64_t request) noexcept {
  PEERCACHE_ASSERT(landing_ != nullptr);
  if (!settle() || room() < entry_bytes)
    return false;
  const auto start = region_->entry_address(page(asked_).slot);
  const auto there = readable_at(start);
  const auto bytes_max = std::min(there->bytes, room());
  std::uint64_t last = 0; // Offset from `start` of the last entry that this READ takes.
  auto offset = last;
  do {
    last = offset;
    place_of(asked_++) = {request, landed_ + last};
    if (asked_ == end_ || asked_ - judged_ == places || page(asked_).status != page_status::pending)
      break;
    // A slot below `start` gives a huge offset, as unsigned numbers wrap, so the READ ends before
    // it.
    offset = region_->entry_address(page(asked_).slot) - start;
  } while (offset - last <= distance_max && offset + entry_bytes <= bytes_max);
  read = {start, there->rkey, static_cast<std::uint32_t>(last) + entry_bytes, address(landed_)};
  landed_ += read.bytes;
  return true;
}

void entry_reads::judge(std::uint64_t retired) noexcept {
  for (; judged_ < asked_; ++judged_) {
    auto& one = page(judged_);
    const auto& where = place_of(judged_);
    if (where.request > retired)
      return;
    if (one.status == page_status::pending)
      one.status = judge_page(one, job_->batch->parts, address(where.at));
  }
}

void entry_reads::decide_all(page_status status) noexcept {
  for (; judged_ < end_; ++judged_)
    if (auto& one = page(judged_); one.status == page_status::pending)
      one.status = status;
  asked_ = end_;
}

} // namespace peercache::rdma
