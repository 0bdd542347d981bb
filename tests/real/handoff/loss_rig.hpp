#pragma once

#include "tests/client/handoff/worker_rig.hpp"

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <sys/types.h>

namespace peercache::client::test {

/// Longest times until a worker knows that its peer has died, and that its peer is silent. `margin`
/// is added to them because other programs use the machine, too; `margin_of_cuts` is shorter than
/// the interval of beats, so that a loss which is only found by a beat that nobody acknowledges is
/// too late.
inline constexpr auto death_is_seen_within = std::chrono::milliseconds(100);
inline constexpr auto silence_is_seen_within = std::chrono::milliseconds(2000);
inline constexpr auto margin = std::chrono::milliseconds(900);
inline constexpr auto margin_of_cuts = std::chrono::milliseconds(400);

enum class side { prefill, decode };

/// Shared memory by which the test's process and a victim's process tell each other their state.
struct shared_state {
  std::atomic<std::uint16_t> prefill_port{0};
  std::atomic<handoff::room_state> victims{
      handoff::room_state::bootstrapping}; ///< The state of the victim's room.
  /// Set by the test: how many of the room's two chunks a victim that is prefill shall send.
  std::atomic<std::uint32_t> chunks{1};
  /// Set by the test: a victim that sees another number gives its rooms up and begins them again.
  std::atomic<std::uint32_t> round{0};
  std::atomic<std::uint32_t> begun{0}; ///< The `round` that the victim has begun.
  /// Whether the victim, as decode, has seen a success with the right bytes.
  std::atomic<bool> right{false};
};
shared_state& map_shared();

/// A prefill worker with two rooms; only the first one ever gets its pages, in two chunks.
class prefill_side {
public:
  explicit prefill_side(const worker_options& options = tcp_options(), std::uint32_t required = 1);
  std::uint16_t port() const { return worker_->port(); }
  handoff::room_state poll() const { return room_.state.poll(); }
  /// Gives both rooms up, whatever became of them, and opens them again for one decode each.
  void open_again();
  /// Sends the room's first `chunks` chunks, as far as the room allows. True when all are sent.
  bool send(std::uint32_t chunks);
  bool has_all_joined() const { return worker_->prefix_pages(behind_.id).has_value(); }

private:
  worker_memory memory_;
  std::unique_ptr<prefill_worker> worker_;
  prefill_room room_;
  /// A room that decode joins after `room_`, over the same connection: a prefill that has got its
  /// join has got both joins.
  prefill_room behind_;
  std::uint32_t sent_ = 0;
};

/// A decode worker that joins the rooms, and allocates pages for them.
class decode_side {
public:
  explicit decode_side(const worker_options& options = tcp_options());
  void connect(const handoff::worker_address& prefill);
  /// Returns the state of the first room; allocates pages as soon as it waits for them.
  handoff::room_state poll();
  bool has_pages() const;

private:
  worker_memory memory_;
  std::unique_ptr<decode_worker> worker_;
  room_watch state_; ///< The state of the first room.
  bool allocated_ = false;
};

/// A worker in a child process, which the test kills, freezes or cuts off. Its prefill listens at
/// `options.host`, and its decode connects to there at `shared.prefill_port`.
class victim {
public:
  /// @param enter called in the child before the worker begins
  victim(
      side which, shared_state& shared, const worker_options& options = tcp_options(),
      const std::function<void()>& enter = [] {});
  ~victim();
  victim(const victim&) = delete;
  victim& operator=(const victim&) = delete;

  void kill();
  void freeze() const;
  void wake() const;

private:
  pid_t pid_;
};

/// Waits until `holds` returns true. Returns how long that took.
std::chrono::milliseconds time_until(const std::function<bool()>& holds);

/// Expects that a whole hand-over from `prefill` in this process to a new room of `decode` works.
void expect_works(prefill_side& prefill, decode_side& decode);

} // namespace peercache::client::test
