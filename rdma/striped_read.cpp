#include "rdma/striped_read.hpp"

#include "common/assert.hpp"
#include "common/interruption.hpp"

#include <algorithm>
#include <numeric>
#include <sched.h>

namespace peercache::rdma {
namespace {

bool another_lane_may_help(page_status status) noexcept {
  return status == page_status::unreachable || status == page_status::breaker_open;
}

} // namespace

std::int32_t current_numa_node() noexcept {
  unsigned cpu = 0;
  unsigned node = 0;
  return ::getcpu(&cpu, &node) == 0 ? static_cast<std::int32_t>(node) : -1;
}

bool striped_read::usable(std::size_t lane) const noexcept {
  const auto& one = *lanes_[lane];
  if (failed_[lane] || (one.how == read_lane::kind::rail && whole_.peer.rails == 0) ||
      (one.how == read_lane::kind::tcp && !whole_.judged))
    return false;
  return one.usable == nullptr || one.usable->load(std::memory_order_relaxed);
}

bool striped_read::better(const read_lane& one, const read_lane& other) const noexcept {
  if (one.how != other.how)
    return one.how == read_lane::kind::rail;
  const auto bytes = one.outstanding_bytes.load(std::memory_order_relaxed);
  const auto others = other.outstanding_bytes.load(std::memory_order_relaxed);
  if (bytes != others)
    return bytes < others;
  return one.numa_node == numa_node_ && other.numa_node != numa_node_;
}

read_lane* striped_read::choose() const noexcept {
  read_lane* best = nullptr;
  for (std::size_t i = 0; i < lanes_.size(); ++i)
    if (usable(i) && (best == nullptr || better(*lanes_[i], *best)))
      best = lanes_[i].get();
  return best;
}

void striped_read::start() {
  std::vector<std::uint32_t> all(whole_.pages.size());
  std::iota(all.begin(), all.end(), 0u);
  send(all);
}

void striped_read::start_alone() {
  alone_ = true;
  start();
}

void striped_read::finish() {
  do
    for (const auto& one : pieces_)
      await(one->batch);
  while (!advance());
}

void striped_read::await(const read_batch& piece) {
  while (!cancelled_ && interruption::possible()) {
    if (interruption::look())
      cancel();
    else if (piece.wait_until(interruption::next_look(clock::time_point::max())))
      return;
  }
  piece.wait();
}

bool striped_read::advance() {
  if (!std::all_of(pieces_.begin(), pieces_.end(),
                   [](const auto& one) { return one->batch.complete(); }))
    return false;
  const auto again = collect();
  if (again.empty() || cancelled_ || choose() == nullptr || clock::now() >= whole_.deadline)
    return true;
  send(again);
  return false;
}

void striped_read::cancel() {
  cancelled_ = true;
  for (const auto& one : pieces_)
    one->lane->cancel(one->batch);
}

striped_read::piece& striped_read::piece_on(read_lane& lane) {
  const auto found = std::find_if(pieces_.begin(), pieces_.end(),
                                  [&](const auto& one) { return one->lane == &lane; });
  if (found != pieces_.end())
    return **found;
  auto& made = *pieces_.emplace_back(std::make_unique<piece>());
  made.lane = &lane;
  made.batch.peer = whole_.peer;
  made.batch.deadline = whole_.deadline;
  made.batch.listener = whole_.listener;
  made.batch.judged = whole_.judged;
  return made;
}

void striped_read::send(std::span<const std::uint32_t> pages) {
  try {
    cut(pages);
  } catch (...) {
    // No lane has a piece yet, so none is waited for.
    for (const auto& one : pieces_)
      one->lane->outstanding_bytes.fetch_sub(one->bytes, std::memory_order_relaxed);
    pieces_.clear();
    throw;
  }
  submit_pieces();
}

void striped_read::cut(std::span<const std::uint32_t> pages) {
  read_lane* lane = nullptr;
  std::uint64_t stripe = 0;
  for (const auto index : pages) {
    auto& page = whole_.pages[index];
    if (lane == nullptr || stripe >= stripe_bytes) {
      lane = choose();
      stripe = 0;
    }
    if (lane == nullptr) {
      page.status = page_status::unreachable;
      continue;
    }
    auto& on = piece_on(*lane);
    auto copy = page;
    copy.first_part = static_cast<std::uint32_t>(on.batch.parts.size());
    // Pages that come over a rail may stay unverified. For a peer with rails, pages that take the
    // TCP lane are verified all the same, because software carries their bytes. Memory under a
    // lease has no checksum.
    copy.verify |= lane->how == read_lane::kind::tcp && whole_.peer.rails != 0 &&
                   whole_.peer.service == data_service::pool;
    const auto parts = std::span(whole_.parts).subspan(page.first_part, page.part_count);
    on.batch.parts.insert(on.batch.parts.end(), parts.begin(), parts.end());
    on.batch.pages.push_back(copy);
    on.pages.push_back(index);
    on.bytes += page.length_bytes;
    stripe += page.length_bytes;
    lane->outstanding_bytes.fetch_add(page.length_bytes, std::memory_order_relaxed);
  }
}

void striped_read::submit_pieces() {
  const bool one_short =
      alone_ && pieces_.size() == 1 && pieces_[0]->bytes <= alone_bytes && !cancelled_;
  for (auto& one : pieces_) {
    PEERCACHE_ASSERT(one->pages.size() == one->batch.pages.size() && !one->pages.empty());
    one_short ? one->lane->submit_short(one->batch) : one->lane->submit(one->batch);
  }
}

std::vector<std::uint32_t> striped_read::collect() {
  std::vector<std::uint32_t> again;
  for (auto& one : pieces_) {
    const auto before =
        one->lane->outstanding_bytes.fetch_sub(one->bytes, std::memory_order_relaxed);
    PEERCACHE_ASSERT(before >= one->bytes);
    const auto lane = std::find_if(lanes_.begin(), lanes_.end(),
                                   [&](const auto& each) { return each.get() == one->lane; });
    PEERCACHE_ASSERT(lane != lanes_.end());
    for (std::size_t i = 0; i < one->pages.size(); ++i) {
      const auto status = one->batch.pages[i].status;
      whole_.pages[one->pages[i]].status = status;
      carriers_[one->pages[i]] = one->lane->how;
      if (!another_lane_may_help(status))
        continue;
      failed_[static_cast<std::size_t>(lane - lanes_.begin())] = true;
      again.push_back(one->pages[i]);
    }
  }
  pieces_.clear();
  return again;
}

} // namespace peercache::rdma
