#include "client/handoff/prefill_worker.hpp"
#include "handoff_ranks.hpp"
#include "late_relay.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <optional>

namespace peercache::handoff_stress {

namespace {

using client::prefill_worker;
using handoff::room_state;

/// A rank of the prefill engine: writes pages chunk by chunk, and offers them to decode.
class prefill_rank final : public engine_rank {
public:
  prefill_rank(const handoff_plan& plan, handoff_board& board, std::uint32_t rank,
               std::uint64_t begun)
      : engine_rank(plan, board, rank, begun),
        worker_(started(prefill_worker::start(options_of(plan), memory_.layout()))) {
    auto port = worker_->port();
    if (plan.messages_later.count() != 0)
      port = relay_.emplace(port, plan.messages_later).port();
    own_cell().port.store(port, std::memory_order_release);
  }

private:
  struct sending {
    std::optional<client::prefill_room> room;
    bool joined = false;
    std::uint32_t sent = 0;
    bool last = false;
  };

  void open(open_room& room, std::uint32_t cell) override {
    auto& mine = sending_[cell] = {};
    const auto required = std::max(1u, plan_.decode_ranks / plan_.prefill_ranks);
    auto opened = worker_->open({room.serial}, required);
    if (!opened)
      return end(room, cell, outcome::failed, opened.error().message);
    mine.room = *opened;
  }

  bool step(open_room& room, std::uint32_t cell) override {
    auto& mine = sending_[cell];
    const auto state = mine.room->state.poll();
    if (state == room_state::success || state == room_state::failed) {
      const auto failure = worker_->failure(mine.room->id);
      own_cell().bytes += state == room_state::success ? worker_->metric(mine.room->id).bytes : 0;
      end(room, cell, state == room_state::success ? outcome::success : outcome::failed,
          failure ? failure->reason : "");
      return true;
    }
    if (!mine.joined)
      return join(room, mine);
    if (mine.last)
      return false;
    send_chunk(room, mine);
    return true;
  }

  bool join(open_room& room, sending& mine) {
    const auto prefix = worker_->prefix_pages(mine.room->id);
    if (!prefix)
      return false;
    mine.joined = true;
    reach(room, planned_abort::step::joined);
    return static_cast<bool>(worker_->init(mine.room->id, room.plan.pages));
  }

  void send_chunk(open_room& room, sending& mine) {
    const auto& pages = room.items->pages;
    const auto count = std::min(room.plan.chunk_pages, room.plan.pages - mine.sent);
    memory_.fill(*room.items, room.serial, mine.sent, count);
    const auto chunk = std::span(pages).subspan(mine.sent, count);
    mine.sent += count;
    mine.last = mine.sent == room.plan.pages;
    if (mine.last)
      memory_.fill_last(*room.items, room.serial);
    // An error is ignored, because a room that has failed tells it at the next `poll`.
    (void)worker_->send(mine.room->id, chunk, mine.last,
                        mine.last ? room.items->states : std::vector<handoff::state_items>{},
                        room.items->aux_row);
    reach(room, mine.last ? planned_abort::step::sent : planned_abort::step::sending);
  }

  /// Aborts the room, and gives its pages to others at once, before decode can have heard of the
  /// abort.
  void abort(open_room& room, std::uint32_t cell, const std::string& reason,
             handoff::failure_kind kind) override {
    auto& mine = sending_[cell];
    if (!mine.room)
      return;
    worker_->abort(mine.room->id, reason, kind);
    if (mine.room->state.poll() == room_state::failed)
      give_back(room);
  }

  void end(open_room& room, std::uint32_t cell, outcome how, const std::string& why) {
    give_back(room);
    if (auto& mine = sending_[cell]; mine.room)
      worker_->clear(mine.room->id);
    tell(room, cell, how, why);
  }

  std::uint64_t rooms_left() const override { return worker_->stats().rooms; }

  std::unique_ptr<prefill_worker> worker_;
  std::optional<late_relay> relay_; ///< The relay to which decode connects when messages are to
                                    ///< come late.
  std::array<sending, cells_max> sending_;
};

} // namespace

std::unique_ptr<engine_rank> make_prefill_rank(const handoff_plan& plan, handoff_board& board,
                                               std::uint32_t rank, std::uint64_t begun) {
  return std::make_unique<prefill_rank>(plan, board, rank, begun);
}

} // namespace peercache::handoff_stress
