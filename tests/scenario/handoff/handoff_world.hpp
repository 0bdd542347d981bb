#pragma once

#include "handoff/receiver_rooms.hpp"
#include "handoff/sender_rooms.hpp"
#include "rdma/served_spans.hpp"
#include "tests/scenario/handoff/handoff_memory.hpp"

#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace peercache::handoff::test {

/// One prefill and one decode engine of one or several ranks each, with schedulers that take and
/// give back memory as SGLang's do, a network and a data plane, all in one thread and from one
/// seed.
///
/// - Real: `sender_rooms`, `receiver_rooms`, the messages' codec, `lease_table`, `transfer_plan`,
///   and `served_spans`, which judges leases and keeps memory that a server is reading.
/// - Memory that an engine gives back is overwritten at once, as by a new owner.
/// - Faults: aborts on either side at any step, engines that are killed, ranks that are frozen,
///   connections that are cut, reads that fail, memory that is unmapped.
/// - Room numbers are used again: after a success at decode at once, else when neither engine still
///   has a room of that number. Messages about an earlier room of a number may still be under way.
///
/// The guards (common/guards.hpp) that are off in the test's process are off here, too.
class handoff_world {
public:
  explicit handoff_world(std::uint64_t seed);

  /// Runs steps with faults, then steps without faults until all requests are over. Returns the
  /// first fault of the code under test; empty when there was none.
  std::string run();

  struct counts {
    std::uint64_t succeeded = 0, failed = 0;
    /// Requests that started with the number of a request that had just succeeded.
    std::uint64_t retracted = 0;
    /// Rooms that the prefill or the decode engine ended by its time-out.
    std::uint64_t timed_out = 0;
    /// Successes with a model that has states (of mamba or a sliding window), with several pipeline
    /// stages of prefill, and with pages shared out over prefill's context-parallel ranks; a model
    /// has stages or shares, never both.
    std::uint64_t with_states = 0, with_stages = 0, with_cp_shares = 0;

    counts& operator+=(const counts& more);
  };
  const counts& counted() const noexcept { return counts_; }

private:
  enum class progress { going_on, failed, done };
  /// For each turn (one use of a room number) of a decode process: its request's serial number.
  using turn_serials = std::map<join_id, std::uint64_t>;
  /// One batch of reads as the data plane carries it out, over a channel that no other batch uses.
  struct read {
    read_order order;
    std::size_t source = 0;     ///< Index of the prefill rank that is read.
    incarnation source_process; ///< The process of that prefill rank when the read was ordered.
    /// For each piece that has left the source: its words.
    std::vector<std::vector<std::uint64_t>> fetched;
    std::size_t written = 0; ///< Pieces that have arrived at the decode rank.
    bool begun = false, cancelled = false;
    /// The hold of the server that is sending a piece.
    std::optional<rdma::served_spans::reading> sending;
    std::optional<bool> stands; ///< Whether the lease stands; empty until the lease was judged.
    progress came = progress::going_on;
  };
  struct prefill_rank {
    prefill_rank(const small_model& model, std::uint32_t rank, incarnation process);
    void serve_memory();
    /// Takes the memory out of service, but for buffers that a server is reading; whether all of it
    /// is out of service.
    bool stop_serving();

    incarnation process;
    rank_memory memory;
    std::array<slot_entry, 8> entries{};
    rdma::served_spans spans{entries};
    lease_table leases;
    sender_rooms rooms;
    std::map<send_id, room_state> told; ///< State that `poll` gave when `take_changes` named the
                                        ///< room last.
    bool frozen = false;
  };
  struct decode_rank {
    decode_rank(const small_model& model, std::uint32_t rank, incarnation process);
    incarnation process;
    rank_memory memory;
    join_id next_turn{1};
    receiver_rooms rooms;
    std::map<room_id, room_state> told; ///< State that `poll` gave when `take_changes` named the
                                        ///< room last.
    std::vector<read> reads;
    std::shared_ptr<turn_serials> serials = std::make_shared<turn_serials>();
    bool frozen = false;
  };
  struct connection {
    peer_id id; ///< Id of the connection, by which both workers know it.
    std::size_t prefill = 0, decode = 0;
    incarnation source; ///< The prefill rank's process to which the connection was made.
    bool up = true;
    /// The turns of the decode rank's process.
    std::shared_ptr<const turn_serials> serials;
    /// Turns whose join has come to prefill over this connection, and was not refused.
    std::set<join_id> joined{};
    bool prefill_has_it = true,
         decode_has_it = true; ///< Whether each side still counts the connection as its own: false
                               ///< once the side has learnt that the connection has ended.
    std::deque<std::string> to_prefill{}, to_decode{};
  };
  enum class phase { waiting, running, ending, over };
  struct request {
    room_id number;
    std::uint64_t serial = 0; ///< Unique number of the request; room numbers repeat.
    std::uint32_t prefix = 0, length = 0;
    /// Pages of the sliding window at decode; prefill's window may have one page more.
    std::uint32_t window = 0;
    struct at_decode {
      phase at = phase::waiting;
      bool connected = false, allocated = false;
      std::set<peer_id> over; ///< Connections to the ranks of prefill.
      bool told = false;      ///< Whether prefill has told decode of the room's end.
      std::vector<std::uint32_t> pages;
      std::uint32_t age = 0;
    } decode;
    struct at_prefill {
      phase at = phase::waiting;
      std::vector<send_id> ids; ///< The room's id at each rank of prefill.
      std::vector<std::uint32_t> pages;
      std::uint32_t first = 0; ///< Place of the first page in the sequence.
      std::uint32_t sent = 0;
      bool last = false;
      std::uint32_t age = 0;
      /// Whether a decode rank that had joined the room has told prefill of its end.
      bool told = false;
      std::set<std::pair<std::size_t, std::size_t>> done{}; ///< Ranks of prefill and of decode of
                                                            ///< each `done` that came to prefill.
    } prefill;
  };

  void step();
  void start_request();
  void start_again(room_id number);
  void add_request(room_id number);
  void check_changes();
  void finish_all();
  void check_rest();

  // -- methods that inject faults
  void inject_faults();
  void kill_prefill();
  void kill_decode();
  void freeze_or_wake();
  void give_memory_back();
  void unmap_when_unused();

  // -- methods that play the engines' schedulers
  void step_decode(request& at);
  room_state poll_decode(const request& at) const;
  void connect_decode(request& at);
  void allocate_decode(request& at);
  void end_decode(request& at);
  void leave_decode(request& at, bool good);
  void check_bytes(const request& at);
  void step_prefill(request& at);
  room_state poll_prefill(const request& at) const;
  void open_prefill(request& at);
  void init_prefill(request& at);
  void send_chunk(request& at);
  void end_prefill(request& at, const std::string& reason);
  void leave_prefill(request& at);

  // -- methods that play the network
  std::uint32_t receivers_of(std::size_t prefill) const;
  void connect_workers();
  connection* connection_of(peer_id id);
  request* request_of(const connection& at, join_id turn);
  const connection* known_to_decode(std::size_t prefill, std::size_t decode) const;
  void cut(connection& at);
  void step_connection(connection& at);
  void deliver_to_prefill(connection& at);
  void hear_end(connection& at, join_id turn);
  bool must_have_ended(const request& at) const;
  void deliver_to_decode(connection& at);
  void carry_out();
  void carry_out_decode(decode_rank& from);

  // -- methods that play the data plane
  void step_reads(decode_rank& by);
  progress step_read(decode_rank& by, read& at);
  progress begin_read(read& at);
  progress fetch_piece(read& at);
  void judge(read& at, const prefill_rank& from);
  void write_piece(decode_rank& by, read& at);

  void wrong(const std::string& what) {
    if (wrong_.empty())
      wrong_ = what;
  }
  bool chance(unsigned one_in) { return random_() % one_in == 0; }
  incarnation next_process() { return {1, ++processes_}; }

  std::mt19937_64 random_;
  small_model model_;
  bool one_sided_; ///< Whether reads need no help of the process that they read from, as with RDMA.
  bool ending_ = false;
  std::uint64_t processes_ = 0;
  std::vector<std::unique_ptr<prefill_rank>> prefill_;
  std::vector<std::unique_ptr<decode_rank>> decode_;
  page_owners prefill_pages_, decode_pages_;
  enum class mapping { mapped, unmapping, unmapped } mapping_ = mapping::mapped;
  std::deque<connection> connections_;
  std::uint64_t next_connection_ = 1;
  std::deque<request> requests_;
  std::uint64_t next_serial_ = 1;
  counts counts_;
  std::string wrong_;
};

} // namespace peercache::handoff::test
