#include "cli/bench/bench_rdma_pages.hpp"

#include "bench/page_content.hpp"
#include "common/assert.hpp"
#include "common/limits.hpp"
#include "common/slot_entry.hpp"
#include "rdma/data_plane.hpp"

#include <algorithm>
#include <new>

namespace peercache::cli {

namespace {

constexpr std::uint64_t filled_once = 2; ///< The generation that every slot has.

page_key key_of(std::uint32_t id) {
  static const key_space space;
  return space.key_of("rdma-" + std::to_string(id));
}

} // namespace

result<rdma_page_plan> rdma_page_plan::make(const std::vector<std::uint64_t>& sizes,
                                            std::uint64_t run_bytes) {
  rdma_page_plan plan;
  for (const auto size : sizes) {
    if (size == 0 || size > limits::page_bytes_max)
      return {errc::invalid_argument, "a page has 1 byte to " +
                                          std::to_string(limits::page_bytes_max) + ", not " +
                                          std::to_string(size)};
    run one;
    one.page_bytes = static_cast<std::uint32_t>(size);
    one.pages = static_cast<std::uint32_t>(
        std::clamp<std::uint64_t>(run_bytes / size, 1, limits::batch_pages_max));
    one.first_granule = plan.granules_;
    plan.granules_ += one.pages * limits::granules_of(one.page_bytes);
    plan.runs_.push_back(one);
  }
  return plan;
}

std::uint64_t rdma_page_plan::table_bytes() const noexcept {
  const auto bytes = std::uint64_t{granules_} * sizeof(slot_entry);
  return (bytes + limits::granule_bytes - 1) / limits::granule_bytes * limits::granule_bytes;
}

std::uint32_t rdma_page_plan::id(const run& of, std::uint32_t index) noexcept {
  PEERCACHE_ASSERT(index < of.pages);
  return of.first_granule + index * limits::granules_of(of.page_bytes);
}

rdma::page_read rdma_page_plan::page(const run& of, std::uint32_t index) {
  rdma::page_read made;
  const auto slot = id(of, index);
  made.key = key_of(slot);
  made.slot = {slot};
  made.gen = {filled_once};
  made.length_bytes = of.page_bytes;
  made.verify = false;
  return made;
}

result<rdma_bench_pool> rdma_bench_pool::make(const rdma_page_plan& plan) {
  const auto bytes = plan.table_bytes() + std::uint64_t{plan.granules()} * limits::granule_bytes;
  auto memory = bench::big_memory::map(bytes, bench::big_memory::kind::shared);
  if (!memory)
    return memory.error();
  return rdma_bench_pool(plan, std::move(*memory));
}

rdma_bench_pool::rdma_bench_pool(const rdma_page_plan& plan, bench::big_memory memory)
    : memory_(std::move(memory)), table_bytes_(plan.table_bytes()), granules_(plan.granules()) {
  for (const auto& run : plan.runs())
    fill(run);
}

void rdma_bench_pool::fill(const rdma_page_plan::run& run) {
  for (std::uint32_t i = 0; i < run.pages; ++i) {
    const auto page = rdma_page_plan::page(run, i);
    const auto at = table_bytes_ + std::uint64_t{page.slot.value} * limits::granule_bytes;
    bench::fill_page(rdma_page_plan::id(run, i), 0, memory_.bytes().subspan(at, run.page_bytes));
    auto* entry = new (memory_.bytes().data() + page.slot.value * sizeof(slot_entry)) slot_entry{};
    entry->key = page.key;
    entry->length_bytes = run.page_bytes;
    entry->generation.store(page.gen.value, std::memory_order_release);
  }
}

rdma::served_region rdma_bench_pool::served() const noexcept {
  return {memory_.bytes(), memory_.bytes().data() + table_bytes_, granules_};
}

} // namespace peercache::cli
