#include "client/handoff/room_reads.hpp"

#include "common/assert.hpp"

#include <utility>

namespace peercache::client {
namespace {

/// The piece as a page that the data plane reads under the lease. Only the lease says whether the
/// bytes that have arrived are the room's; a piece has no checksum.
rdma::page_read read_of(const handoff::piece& piece, const handoff::lease& under) {
  rdma::page_read page;
  page.key = under.key;
  page.slot = under.slot;
  page.gen = under.gen;
  page.source = {piece.source.address, piece.source.stride_bytes, piece.source.rows,
                 piece.source.row_bytes};
  page.length_bytes = piece.bytes;
  page.first_part = piece.first_part;
  page.part_count = piece.part_count;
  page.verify = false;
  return page;
}

/// Whether this status says that the lease had ended, or that its entry has another lease.
bool is_refusal(page_status status) noexcept {
  return status == page_status::stale || status == page_status::wrong_key;
}

/// The status that says most about the batch: that of a piece which its lease has refused, else of
/// another bad piece, else `hit`.
page_status worst_of(const rdma::read_batch& batch) noexcept {
  auto worst = page_status::hit;
  for (const auto& page : batch.pages)
    if (page.status != page_status::hit && (worst == page_status::hit || is_refusal(page.status)))
      worst = page.status;
  return worst;
}

handoff::read_end end_of(page_status worst) noexcept {
  if (worst == page_status::hit)
    return handoff::read_end::good;
  return is_refusal(worst) ? handoff::read_end::refused : handoff::read_end::failed;
}

} // namespace

void room_reads::start(handoff::read_order order, const rdma::peer_endpoint& from,
                       rdma::clock::time_point deadline) {
  auto made = std::make_unique<read>();
  made->turn = order.turn;
  made->bytes = order.bytes;
  auto& batch = made->batch;
  batch.peer = from;
  batch.deadline = deadline;
  batch.listener = &listener_;
  batch.parts = std::move(order.parts);
  batch.pages.reserve(order.pieces.size());
  for (const auto& piece : order.pieces)
    batch.pages.push_back(read_of(piece, order.under));
  made->striped = std::make_unique<rdma::striped_read>(lanes_, batch, rdma::current_numa_node());
  auto& started = *reads_.emplace(order.id, std::move(made)).first->second;
  started.striped->start();
}

void room_reads::cancel(handoff::join_id turn) {
  for (auto& [id, each] : reads_)
    if (each->turn == turn)
      each->striped->cancel();
}

std::vector<room_reads::finished> room_reads::take_finished() {
  std::vector<finished> all;
  for (auto at = reads_.begin(); at != reads_.end();) {
    auto& [id, each] = *at;
    if (!each->striped->advance()) {
      ++at;
      continue;
    }
    const auto worst = worst_of(each->batch);
    all.push_back({id, end_of(worst), each->bytes,
                   worst == page_status::hit ? std::string() : std::string(to_string(worst))});
    at = reads_.erase(at);
  }
  return all;
}

} // namespace peercache::client
