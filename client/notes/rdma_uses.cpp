#include "client/notes/rdma_uses.hpp"

#include "common/assert.hpp"
#include "link/protocol/pool_wire.hpp"

#include <algorithm>

namespace peercache::client {
namespace {

static_assert(rdma_uses::records_max <= link::used_pages_max);

/// The mixer of SplitMix64: neighbouring numbers give unrelated results.
std::uint64_t mixed(std::uint64_t number) noexcept {
  number *= 0x9e3779b97f4a7c15;
  number = (number ^ (number >> 30)) * 0xbf58476d1ce4e5b9;
  number = (number ^ (number >> 27)) * 0x94d049bb133111eb;
  return number ^ (number >> 31);
}

} // namespace

void rdma_uses::add(const incarnation& holder, slot_id slot, generation gen) {
  if (mixed(hits_.fetch_add(1, std::memory_order_relaxed)) % sample_one_in != 0)
    return;
  std::lock_guard guard{lock_};
  if (records_ == records_max)
    return;
  ++records_;
  auto found = std::find_if(uses_.begin(), uses_.end(),
                            [&](const of_holder& each) { return each.first == holder; });
  if (found == uses_.end())
    found = uses_.insert(uses_.end(), {holder, {}});
  link::append_record(found->second, link::used_page{.gen = gen, .slot = slot});
}

std::vector<rdma_uses::of_holder> rdma_uses::take() {
  std::lock_guard guard{lock_};
  PEERCACHE_ASSERT(records_ <= records_max && (records_ > 0 || uses_.empty()));
  records_ = 0;
  return std::exchange(uses_, {});
}

} // namespace peercache::client
