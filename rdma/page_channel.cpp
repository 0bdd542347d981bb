#include "rdma/page_channel.hpp"

#include "common/assert.hpp"

namespace peercache::rdma {

void page_channel::attach(batch_job& job) noexcept {
  PEERCACHE_ASSERT(job_ == nullptr && carries_nothing());
  PEERCACHE_ASSERT(phase_ != phase::broken);
  job_ = &job;
  heard_since_attach_ = false;
}

void page_channel::detach(clock::time_point now) noexcept {
  PEERCACHE_ASSERT(job_ != nullptr && carries_nothing());
  job_ = nullptr;
  served_before_ = phase_ == phase::ready;
  idle_since_ = now;
}

} // namespace peercache::rdma
