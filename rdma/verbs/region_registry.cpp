#include "rdma/verbs/region_registry.hpp"

#include "common/assert.hpp"

#include <algorithm>
#include <utility>

namespace peercache::rdma {

result<chunk_plan> chunk_plan::make(std::span<std::byte> region, std::uint64_t wanted_bytes,
                                    std::uint64_t device_bytes_max) {
  if (region.empty())
    return {errc::invalid_argument, "there is no memory to register"};
  if (wanted_bytes == 0 || wanted_bytes % unit_bytes != 0)
    return {errc::invalid_argument, "the size of a registered chunk is a multiple of 2 MiB, not " +
                                        std::to_string(wanted_bytes) + " bytes"};
  chunk_plan plan;
  plan.region_ = region;
  plan.lead_bytes_ = reinterpret_cast<std::uintptr_t>(region.data()) % unit_bytes;
  const auto span_bytes = plan.lead_bytes_ + region.size();
  const auto units = (span_bytes + unit_bytes - 1) / unit_bytes;
  const auto least_bytes = (units + region_chunks_max - 1) / region_chunks_max * unit_bytes;
  const auto most_bytes = device_bytes_max / unit_bytes * unit_bytes;
  if (least_bytes > most_bytes)
    return {errc::invalid_argument,
            "the device registers at most " + std::to_string(device_bytes_max) +
                " bytes at once: a pool of " + std::to_string(region.size()) + " bytes needs " +
                std::to_string(least_bytes) + ", for it has at most " +
                std::to_string(region_chunks_max) + " chunks; make the pool smaller"};
  plan.chunk_bytes_ = std::clamp(wanted_bytes, least_bytes, most_bytes);
  plan.chunks_ =
      static_cast<std::uint32_t>((span_bytes + plan.chunk_bytes_ - 1) / plan.chunk_bytes_);
  PEERCACHE_ASSERT(plan.chunks_ > 0 && plan.chunks_ <= region_chunks_max); // Readers refuse more.
  return plan;
}

std::span<std::byte> chunk_plan::part(std::uint32_t index) const noexcept {
  PEERCACHE_ASSERT(index < chunks_);
  const auto begin = index == 0 ? 0 : index * chunk_bytes_ - lead_bytes_;
  const auto end = std::min((index + 1) * chunk_bytes_ - lead_bytes_, region_.size());
  return region_.subspan(begin, end - begin);
}

result<chunk_plan> plan_for(const verbs::device& on, std::span<std::byte> memory,
                            std::uint64_t wanted_bytes, verbs::region_use use) {
  const auto& can = on.port().can;
  auto plan = chunk_plan::make(memory, wanted_bytes, can.region_bytes);
  if (!plan || use != verbs::region_use::windows)
    return plan;
  const std::string remedy = "; serve less memory, or set rdma.windows = false";
  plan = chunk_plan::make(memory, wanted_bytes,
                          std::min(can.region_bytes, verbs::region_windows::bytes_max));
  if (!plan)
    return {errc::incompatible, "rdma.windows = true, and a memory window has at most 2 GiB: " +
                                    std::to_string(region_chunks_max) + " of them do not cover " +
                                    std::to_string(memory.size()) + " bytes" + remedy};
  if (can.windows_max != 0 && plan->chunks() > can.windows_max)
    return {errc::incompatible, "rdma.windows = true, but " + on.port().device + " has only " +
                                    std::to_string(can.windows_max) +
                                    " memory windows, and each reader takes " +
                                    std::to_string(plan->chunks()) + remedy};
  return plan;
}

region_registry::region_registry(const verbs::device& on, const chunk_plan& plan, callbacks tell,
                                 verbs::region_use use)
    : device_(on), plan_(plan), tell_(std::move(tell)), use_(use), regions_(plan.chunks()),
      left_(plan.chunks()) {
  for (auto index = plan.chunks(); index > 0; --index)
    work_.push_back(index - 1);
  progress_.chunks = plan.chunks();
}

bool region_registry::register_next() {
  std::uint32_t index = 0;
  {
    const std::lock_guard lock(mutex_);
    if (work_.empty())
      return false;
    index = work_.back();
    work_.pop_back();
  }
  note(index, verbs::memory_region::register_memory(device_, plan_.part(index), use_));
  if (tell_.on_done)
    tell_.on_done();
  return true;
}

void region_registry::note(std::uint32_t index, result<verbs::memory_region> made) {
  const std::lock_guard lock(mutex_);
  if (made) {
    ++progress_.registered;
    progress_.registered_bytes += made->bytes();
    PEERCACHE_ASSERT(!regions_[index]);
    regions_[index] = std::move(*made);
    fresh_.add(index, regions_[index]);
    has_news_.store(true, std::memory_order_release);
  } else {
    ++progress_.failed;
    if (progress_.failure.empty()) {
      progress_.failure = to_string(made.error());
      if (tell_.on_failure)
        tell_.on_failure(progress_.failure);
    }
  }
  PEERCACHE_ASSERT(progress_.registered + progress_.failed <= progress_.chunks);
  --left_;
  if (tell_.on_progress)
    tell_.on_progress(plan_.chunks() - left_, plan_.chunks());
}

bool region_registry::take_registered(served_chunks& to) {
  if (!has_news_.load(std::memory_order_acquire))
    return false;
  const std::lock_guard lock(mutex_);
  has_news_.store(false, std::memory_order_relaxed);
  to.add(fresh_);
  const bool any = !fresh_.empty();
  fresh_.clear();
  return any;
}

region_progress region_registry::progress() const {
  const std::lock_guard lock(mutex_);
  return progress_;
}

} // namespace peercache::rdma
