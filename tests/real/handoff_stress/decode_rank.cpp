#include "client/handoff/decode_worker.hpp"
#include "handoff_ranks.hpp"

#include <array>
#include <cstdio>

namespace peercache::handoff_stress {

namespace {

using client::decode_worker;
using handoff::room_state;

/// A rank of the decode engine: allocates pages for rooms, and compares every byte of a room that
/// has succeeded.
class decode_rank final : public engine_rank {
public:
  decode_rank(const handoff_plan& plan, handoff_board& board, std::uint32_t rank,
              std::uint64_t begun)
      : engine_rank(plan, board, rank, begun),
        worker_(started(decode_worker::start(options_of(plan), memory_.layout()))) {}

private:
  struct receiving {
    std::optional<client::room_watch> state;
    bool connected = false, allocated = false;
  };

  void open(open_room& room, std::uint32_t cell) override {
    auto& mine = receiving_[cell] = {};
    auto opened = worker_->open({room.serial});
    if (!opened)
      return end(room, cell, outcome::failed, opened.error().message);
    mine.state = *opened;
  }

  bool step(open_room& room, std::uint32_t cell) override {
    auto& mine = receiving_[cell];
    switch (mine.state->poll()) {
    case room_state::success:
      succeed(room, cell);
      return true;
    case room_state::failed:
      fail(room, cell);
      return true;
    case room_state::bootstrapping:
      return !mine.connected && connect(room, mine);
    case room_state::waiting_for_input:
      return !mine.allocated && allocate(room, mine);
    case room_state::transferring:
      // Decode cannot see when prefill has sent everything, so the room counts as `sent` at once.
      if (room.at < planned_abort::step::sending)
        reach(room, planned_abort::step::sent);
      return false;
    }
    return false;
  }

  bool connect(open_room& room, receiving& mine) {
    std::vector<handoff::worker_address> sources;
    for (std::uint32_t source = 0; source < plan_.prefill_ranks; ++source) {
      const auto port = board_.ranks[source].port.load(std::memory_order_acquire);
      if (port == 0)
        return false;
      if (are_partners(source))
        sources.push_back({"127.0.0.1", port});
    }
    mine.connected = true;
    return static_cast<bool>(worker_->connect({room.serial}, std::move(sources)));
  }

  bool are_partners(std::uint32_t source) const noexcept {
    const auto p = plan_.prefill_ranks;
    const auto d = plan_.decode_ranks;
    return p >= d ? source / (p / d) == own_rank() : own_rank() / (d / p) == source;
  }

  bool allocate(open_room& room, receiving& mine) {
    mine.allocated = true;
    reach(room, planned_abort::step::joined);
    handoff::allocated_pages pages;
    pages.prefix_pages = room.items->prefix_pages;
    pages.pages = room.items->pages;
    pages.states = room.items->states;
    pages.aux_row = room.items->aux_row;
    return static_cast<bool>(worker_->allocate({room.serial}, std::move(pages)));
  }

  void succeed(open_room& room, std::uint32_t cell) {
    const auto wrong = memory_.wrong_items(*room.items, room.serial);
    own_cell().wrong_pages += wrong;
    if (wrong != 0)
      std::fprintf(stderr, "stress: room %llu: %llu of its items are wrong\n",
                   static_cast<unsigned long long>(room.serial),
                   static_cast<unsigned long long>(wrong));
    end(room, cell, outcome::success, "");
  }

  /// Gives a room's memory back as soon as this rank sees that the room has failed, as SGLang's
  /// scheduler does.
  void fail(open_room& room, std::uint32_t cell) {
    give_back(room);
    const auto failure = worker_->end({room.serial}, "the room is no longer open");
    end(room, cell, outcome::failed, failure ? failure->reason : "");
  }

  void abort(open_room& room, std::uint32_t cell, const std::string& reason,
             handoff::failure_kind kind) override {
    if (!receiving_[cell].state)
      return;
    if (room.serial % 2 == 0)
      return worker_->abort({room.serial}, reason, kind);
    // `end` returns once no transfer can write into the room's memory, so the engine may use this
    // memory again.
    if (worker_->end({room.serial}, reason, kind))
      give_back(room);
  }

  void end(open_room& room, std::uint32_t cell, outcome how, const std::string& why) {
    give_back(room);
    worker_->clear({room.serial});
    tell(room, cell, how, why);
  }

  std::uint64_t rooms_left() const override { return worker_->stats().turns; }

  std::unique_ptr<decode_worker> worker_;
  std::array<receiving, cells_max> receiving_;
};

} // namespace

std::unique_ptr<engine_rank> make_decode_rank(const handoff_plan& plan, handoff_board& board,
                                              std::uint32_t rank, std::uint64_t begun) {
  return std::make_unique<decode_rank>(plan, board, rank, begun);
}

void run_rank(const handoff_plan& plan, handoff_board& board, std::uint32_t rank,
              std::uint64_t begun) {
  const auto made = rank < plan.prefill_ranks ? make_prefill_rank(plan, board, rank, begun)
                                              : make_decode_rank(plan, board, rank, begun);
  made->run();
}

} // namespace peercache::handoff_stress
