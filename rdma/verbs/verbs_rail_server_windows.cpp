#include "common/assert.hpp"
#include "rdma/verbs/verbs_rail_server.hpp"

#include <algorithm>
#include <utility>

// Functions of a rail server that bind the memory windows of its sessions, and end them.

namespace peercache::rdma {

namespace {

/// Windows and sessions that one turn ends: each takes a system call, while readers wait.
constexpr std::size_t ended_per_turn = 64;
constexpr auto say_no_window_every = std::chrono::minutes(1);
/// After which time a session that serves is tried again for a window that could not be made.
constexpr auto try_again_after = std::chrono::seconds(1);

} // namespace

bool verbs_rail_server::bind_windows(std::uint64_t id, verbs_server_session& session,
                                     clock::time_point now) {
  auto& windows = session.windows();
  if (windows.failed())
    return false;
  if (windows.size() < announced_.size() && !windows.is_put_off(now))
    unbound_.enter(id);
  if (unbound_.first() != id)
    return true;
  const auto before = windows.under_way();
  const auto most = std::min<std::size_t>(completions_.room(), unbound_.left());
  const auto bound = session.bind(announced_, static_cast<std::uint32_t>(most), id, now);
  completions_.posted(windows.under_way() - before);
  unbound_.used(windows.under_way() - before, now);
  // Windows of sessions that have ended take room at the device until `bury` has ended them.
  if (!bound && !retired_.empty())
    return true;
  if (!bound) {
    note_no_window(now, to_string(bound.error()));
    if (!session.answered())
      return false;
    // The reader READs what it was told of; a chunk that came later is not worth its session.
    windows.put_off(now + try_again_after);
  }
  if (!bound || windows.size() == announced_.size())
    forget_unbound(id);
  else
    pass_turn(now);
  return true;
}

/// Lets the next session have its windows.
void verbs_rail_server::forget_unbound(std::uint64_t id) {
  if (unbound_.leave(id))
    wake_unbound();
}

/// Lets the next session have windows if the turn of the one before is over.
void verbs_rail_server::pass_turn(clock::time_point now) {
  if (unbound_.pass(now))
    wake_unbound();
}

void verbs_rail_server::wake_unbound() {
  if (const auto first = unbound_.first())
    ready_.push_back(*first);
}

bool verbs_rail_server::take_bindings(clock::time_point now) {
  const bool any = completions_.take([&](std::uint64_t id, ibv_wc_status status) {
    const auto found = sessions_.find(id);
    if (found == sessions_.end())
      return; // The session has ended; `bury` subtracts its bindings.
    auto& windows = found->second.session->windows();
    if (status == IBV_WC_SUCCESS && !windows.failed()) {
      windows.bound(now);
      completions_.over(1);
    } else if (!windows.failed()) {
      // The bindings behind it fail as well, and all are subtracted when the session is buried.
      windows.fail();
      // Memory that went while it was bound is in the news, and its sessions end with that.
      const bool removed = status == IBV_WC_MW_BIND_ERR && spans_.has_news();
      if (status != IBV_WC_WR_FLUSH_ERR && !removed)
        note_no_window(now, std::string("a memory window cannot be bound: ") +
                                verbs::status_name(status));
    }
    ready_.push_back(id);
  });
  if (any)
    wake_unbound();
  return any;
}

/// Answers that have waited for long enough are sent as they are, or as a refusal when no window is
/// bound: that comes before the reader's connect time-out, so it reads elsewhere at once.
void verbs_rail_server::look_at_waiting(clock::time_point now) {
  pass_turn(now);
  if (waiting_.empty())
    return;
  std::vector<std::uint64_t> in_vain;
  for (const auto id : waiting_) {
    const auto& session = *sessions_.at(id).session;
    if (session.waits_in_vain(now))
      in_vain.push_back(id);
    else if (!session.waits(now))
      ready_.push_back(id);
  }
  for (const auto id : in_vain) {
    note_no_window(now,
                   "no window was bound in time, because readers that came before took longer");
    turn_away(id, verbs_verdict::busy);
  }
}

/// Ends a session that can have no window; a reader that waits for its answer is told why.
void verbs_rail_server::turn_away(std::uint64_t id, verbs_verdict why) {
  auto& session = *sessions_.at(id).session;
  if (!session.answered()) {
    --stats_.verdicts[static_cast<std::size_t>(verbs_verdict::accepted)];
    ++stats_.verdicts[static_cast<std::size_t>(why)];
    session.turn_away(answer_of(why));
  }
  end(id, session_end::no_window);
}

/// Stops a session's queue pair at once, and leaves its windows to `bury`.
void verbs_rail_server::retire(std::unique_ptr<verbs_server_session> session) {
  session->retire();
  const auto bindings = session->windows().under_way();
  if (bindings != 0)
    retired_.push_front({std::move(session), bindings}); // Sessions that live wait for their room.
  else
    retired_.push_back({std::move(session), 0});
}

/// Ends some windows of the sessions that have ended, and the sessions that have none left. Returns
/// whether there was one.
bool verbs_rail_server::bury(clock::time_point now) {
  const bool any = !retired_.empty();
  for (auto left = ended_per_turn; left > 0 && !retired_.empty();) {
    auto& windows = retired_.front().session->windows();
    left -= std::max<std::size_t>(windows.end_some(left), 1);
    if (windows.size() != 0)
      break;
    const auto bindings = retired_.front().bindings;
    retired_.pop_front();
    if (bindings == 0)
      continue;
    completions_.over(bindings);
    take_bindings(now); // Completions of what has ended would take the room of others.
  }
  if (any)
    wake_unbound();
  return any;
}

void verbs_rail_server::note_no_window(clock::time_point now, const std::string& why) {
  ++stats_.windows_failed;
  stats_.window_failure = why;
  changed_ = true;
  if (now < say_no_window_at_ || !options_.on_no_window)
    return;
  say_no_window_at_ = now + say_no_window_every;
  options_.on_no_window(why);
}

} // namespace peercache::rdma
