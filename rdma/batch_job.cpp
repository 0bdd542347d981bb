#include "rdma/batch_job.hpp"

#include "common/assert.hpp"
#include "rdma/peer_counters.hpp"

namespace peercache::rdma {

namespace {

void count(data_plane_stats& stats, const read_batch& batch) noexcept {
  ++stats.batches;
  stats.pages += batch.pages.size();
  for (const auto& page : batch.pages) {
    ++stats.by_status[static_cast<std::size_t>(page.status)];
    if (page.status == page_status::hit)
      stats.bytes += page.length_bytes;
  }
}

void count(peer_counts& counts, const read_batch& batch) noexcept {
  std::uint64_t pages = 0, bytes = 0;
  for (const auto& page : batch.pages)
    if (page.status == page_status::hit) {
      ++pages;
      bytes += page.length_bytes;
    }
  counts.reads.fetch_add(pages, std::memory_order_relaxed);
  counts.bytes.fetch_add(bytes, std::memory_order_relaxed);
}

bool source_fits(const page_read& page, const read_batch& batch) noexcept {
  const bool of_pool = batch.peer.service == data_service::pool;
  if (!batch.judged)
    // The address counts from the lowest area; the channel knows which offsets there are.
    return of_pool && page.source.rows == 1 && page.source.row_bytes == page.length_bytes;
  return of_pool ? page.source.rows == 0 : well_formed(page.source, page.length_bytes);
}

bool well_formed(const page_read& page, const read_batch& batch) noexcept {
  if (!source_fits(page, batch))
    return false;
  if (page.length_bytes == 0 || page.length_bytes > limits::page_bytes_max ||
      page.part_count == 0 || page.part_count > limits::parts_per_page_max ||
      page.first_part > batch.parts.size() ||
      page.part_count > batch.parts.size() - page.first_part)
    return false;
  std::uint64_t sum_bytes = 0;
  for (std::uint32_t i = 0; i < page.part_count; ++i) {
    const auto& part = batch.parts[page.first_part + i];
    if (part.data == nullptr && part.bytes != 0)
      return false;
    sum_bytes += part.bytes;
  }
  return sum_bytes == page.length_bytes;
}

} // namespace

sub_request batch_job::take() noexcept {
  PEERCACHE_ASSERT(has_untaken());
  return subs[next++];
}

void batch_job::put_back(const sub_request& sub) {
  PEERCACHE_ASSERT(sub.count > 0 && std::size_t{sub.first} + sub.count <= order.size());
  subs.push_back(sub);
}

void batch_job::decided() noexcept {
  PEERCACHE_ASSERT(undecided_subs > 0);
  --undecided_subs;
}

std::uint64_t batch_job::report_to(circuit_breaker& breaker, page_status undecided,
                                   clock::time_point now) const noexcept {
  const auto before = breaker.opened_total();
  if (answered)
    breaker.on_success();
  else if (failed)
    breaker.on_failure(now);
  else if (undecided == page_status::closed)
    breaker.on_overdue(now); // The caller has cancelled the batch: others have answered.
  else
    breaker.on_nothing(now);
  return breaker.opened_total() - before;
}

void batch_job::finish(page_status status, data_plane_stats& stats) noexcept {
  PEERCACHE_ASSERT(batch != nullptr && status != page_status::pending);
  for (auto& page : batch->pages)
    if (page.status == page_status::pending)
      page.status = status;
  count(stats, *batch);
  if (counts != nullptr)
    count(*counts, *batch);
  batch->finish();
  batch = nullptr;
}

void plan(batch_job& job, read_batch& batch, const sub_request_limits& limits) {
  PEERCACHE_ASSERT(!batch.complete());
  PEERCACHE_ASSERT(job.batch == nullptr && job.order.empty() &&
                   job.subs.empty()); // Each batch is planned into a fresh job.
  PEERCACHE_ASSERT(limits.pages_max > 0);
  job.batch = &batch;
  job.order.reserve(batch.pages.size());
  sub_request open;
  const auto close = [&] {
    if (open.count != 0)
      job.subs.push_back(open);
    open = {static_cast<std::uint32_t>(job.order.size()), 0, 0};
  };
  for (std::uint32_t i = 0; i < batch.pages.size(); ++i) {
    auto& page = batch.pages[i];
    if (!well_formed(page, batch)) {
      page.status = page_status::bad_size;
      continue;
    }
    page.status = page_status::pending;
    if (open.count == limits.pages_max || open.bytes + page.length_bytes > limits.bytes_max)
      close();
    job.order.push_back(i);
    ++open.count;
    open.bytes += page.length_bytes;
    job.bytes += page.length_bytes;
  }
  close();
  job.undecided_subs = static_cast<std::uint32_t>(job.subs.size());
}

void refuse(read_batch& batch, page_status status, data_plane_stats& stats) noexcept {
  for (auto& page : batch.pages)
    page.status = status;
  count(stats, batch);
  batch.finish();
}

} // namespace peercache::rdma
