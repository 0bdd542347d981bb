#include "bench/page_content.hpp"
#include "cli/bench/bench_rdma.hpp"
#include "rdma/data_plane.hpp"

#include "rdma/data_plane_loop.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace peercache::cli {

namespace {

constexpr rdma::clock::duration read_at_most = std::chrono::seconds(60);
constexpr auto wait_at_most = std::chrono::milliseconds(100);

} // namespace

result<std::unique_ptr<rdma_bench_reader>>
rdma_bench_reader::open(const rdma_bench_options& options, const std::string& device,
                        std::uint16_t port, std::span<std::byte> memory, bool payload_only) {
  rdma::verbs_data_plane_options plane_options;
  plane_options.reader = incarnation::random();
  plane_options.name = "bench";
  plane_options.send_depth = options.depth;
  plane_options.payload_only = payload_only;
  // Connecting may take ten seconds, since emulated machines are slow.
  plane_options.channels.connect_timeout = std::chrono::seconds(10);
  std::unique_ptr<rdma_bench_reader> made(new rdma_bench_reader);
  auto rail = rdma::reader_rail::open(device, {}, plane_options);
  if (!rail)
    return rail.error();
  made->rail_ = std::move(*rail);
  if (auto registered = made->rail_->destinations->add(memory); !registered)
    return registered.error();
  auto plane = rdma::make_verbs_data_plane(*made->rail_);
  if (!plane)
    return plane.error();
  made->plane_ = std::move(*plane);
  made->memory_ = memory;
  made->batch_.peer = {{1}, rdma_bench_life, "127.0.0.1", port, rdma_bench_cluster, 1};
  made->wanted_ = payload_only ? page_status::stale : page_status::hit;
  return made;
}

void rdma_bench_reader::prepare(const rdma_page_plan::run& run, std::uint32_t first,
                                std::uint32_t count) {
  run_ = run;
  first_ = first;
  // A read of one page polls without sleeping, as ib_read_lat does; a read of a batch waits as a
  // client's data_plane_loop does.
  spin_ = count == 1 ? read_at_most : rdma::data_plane_loop_options{}.spin;
  batch_.pages.clear();
  batch_.parts.clear();
  for (std::uint32_t i = 0; i < count; ++i) {
    auto page = rdma_page_plan::page(run, first + i);
    page.first_part = i;
    page.part_count = 1;
    batch_.pages.push_back(page);
    const auto to = memory_.subspan(std::size_t{i} * run.page_bytes, run.page_bytes);
    batch_.parts.push_back({to.data(), run.page_bytes});
  }
}

result<void> rdma_bench_reader::read() {
  batch_.reset();
  batch_.deadline = now_ + read_at_most;
  plane_->submit(batch_);
  auto spin_until = now_ + spin_;
  while (!batch_.complete()) {
    const bool moved = plane_->poll(now_);
    if (++turns_ % rdma::data_plane_loop::turns_per_clock == 0)
      now_ = rdma::clock::now();
    if (moved)
      spin_until = now_ + spin_;
    else if (now_ >= spin_until) {
      plane_->wait(wait_at_most);
      now_ = rdma::clock::now();
    }
  }
  const auto other = std::find_if(batch_.pages.begin(), batch_.pages.end(),
                                  [&](const auto& page) { return page.status != wanted_; });
  if (other != batch_.pages.end())
    return {errc::io_failed, fmt::format("a page of {} bytes ended as '{}'", run_.page_bytes,
                                         to_string(other->status))};
  return {};
}

result<void> rdma_bench_reader::check_bytes() const {
  for (std::uint32_t i = 0; i < batch_.pages.size(); ++i) {
    const auto& part = batch_.parts[i];
    const auto check =
        bench::check_page(rdma_page_plan::id(run_, first_ + i), {part.data, part.bytes});
    if (check.wrong_bytes != 0)
      return {errc::io_failed, fmt::format("page {} of {} bytes has {} wrong bytes", first_ + i,
                                           run_.page_bytes, check.wrong_bytes)};
  }
  return {};
}

} // namespace peercache::cli
