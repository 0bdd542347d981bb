#pragma once

#include "common/slot_entry.hpp"
#include "handoff/transfers.hpp"

#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

namespace peercache::handoff::transfers_test {

/// Two transfer workers in one thread, with a network and data planes that a seed drives: messages
/// come late, connections are cut, some peers stay connected and stop answering, reads copy their
/// bytes one piece after the other and go on for a while after they were cancelled. Memory consists
/// of cells, each used by one call at a time; a cell that a call gives back is filled with other
/// bytes at once, and a later call may use it.
class transfer_world {
public:
  explicit transfer_world(std::uint64_t seed);

  /// Takes one random step, such as a call, a delivery or a cut.
  void step();
  /// Begins no more calls, and runs until all running calls have ended.
  void finish();
  /// Returns the first fault of the code under test so far; empty when there is none.
  const std::string& fault() const noexcept { return fault_; }

  struct counts {
    std::size_t done = 0, failed = 0, timed_out = 0, cuts = 0, dropped = 0, unregistered = 0;
  };
  const counts& counted() const noexcept { return counts_; }

private:
  static constexpr std::size_t cells = 24;
  static constexpr std::size_t cell_bytes = 16;
  static constexpr std::size_t regions = 3; ///< Pieces of memory that each worker registers.
  using cell = std::array<std::uint8_t, cell_bytes>;
  enum class use { free, of_call, in_doubt };
  /// State of a piece of memory: `in`, registered; `leaving`, unregistered while a read of the
  /// worker may still write to it; `out`, its owner's again.
  enum class registration { in, leaving, out };

  struct running_call {
    call_id id;
    transfer_direction direction = transfer_direction::write;
    std::vector<std::size_t> own, others; ///< Cells at the worker that calls, and at its peer.
    std::uint8_t value = 0;
    bool lost = false;  ///< Whether the connection was cut during the call.
    bool taken = false; ///< Whether the peer has unregistered some of its memory during the call.
  };
  struct running_read {
    read_order order;
    std::size_t copied = 0; ///< Number of pieces whose bytes have arrived.
    bool cancelled = false;
  };
  struct worker {
    std::vector<slot_entry> entries = std::vector<slot_entry>(4);
    std::vector<cell> memory = std::vector<cell>(cells);
    std::vector<use> uses = std::vector<use>(cells, use::free);
    std::array<registration, regions> registered{};
    std::optional<lease_table> leases;
    std::unique_ptr<transfers> machine;
    std::vector<running_call> calls;
    std::vector<running_read> reads;
  };
  /// A connection between the two workers, begun by either.
  struct connection {
    std::size_t dialer = 0;
    std::array<peer_id, 2> name;               ///< Id that each worker has for the other.
    std::array<std::deque<std::string>, 2> to; ///< Messages on their way to each worker.
    /// Whether each worker knows of the connection's begin, and of its end.
    std::array<bool, 2> joined{}, told{};
    bool cut = false;
    bool mute = false; ///< Whether nothing further arrives at the worker that began the connection.
  };

  std::size_t roll(std::size_t below) { return random_() % below; }
  worker_address address_of(std::size_t at) const {
    return {"worker", static_cast<std::uint16_t>(1 + at)};
  }
  memory_range region(worker& at, std::size_t index) const;
  bool may_use(const worker& at, std::size_t index) const {
    return at.uses[index] == use::free &&
           at.registered[index / (cells / regions)] == registration::in;
  }

  void harm_connection();
  void begin_call(std::size_t at);
  void give_up_call(std::size_t at);
  void change_registration(std::size_t at);
  void deliver(connection& over, std::size_t to);
  void move_read(std::size_t at, running_read& read);
  void run(std::size_t at);
  void send(std::size_t at, const outgoing& message);
  void lose(connection& over, std::size_t at, const std::string& why);
  void drop_silent(std::size_t at);
  void take_ended(std::size_t at);
  void end_call(std::size_t at, const running_call& call, call_state state);
  void take_back(std::size_t at, std::size_t index, bool in_doubt);
  void check_given_back(std::size_t at);
  void check_unregistered(std::size_t at);
  bool all_cuts_are_told() const;
  void wrong(const std::string& what);

  std::mt19937_64 random_;
  std::array<worker, 2> workers_;
  std::vector<std::unique_ptr<connection>> connections_;
  std::uint64_t next_peer_ = 1;
  std::uint8_t next_value_ = 1;
  transfers::time_point now_ = transfers::time_point{} + std::chrono::hours(1);
  bool finishing_ = false;
  counts counts_;
  std::string fault_;
};

} // namespace peercache::handoff::transfers_test
