#include "client/session/session_actor.hpp"

#include "client/session/connect_fault.hpp"
#include "client/session/gpu_telling.hpp"
#include "client/session/session_news.hpp"
#include "client/session/session_views.hpp"
#include "common/assert.hpp"
#include "common/limits.hpp"
#include "common/log.hpp"
#include "common/user_group.hpp"
#include "directory/wire.hpp"
#include "discovery/view_codec.hpp"
#include "link/protocol/pool_wire.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <map>
#include <utility>

namespace peercache::client {
namespace {

using namespace std::chrono_literals;
using namespace peercache::link;
using session_pointer = session_actor::stateful_pointer<session_actor_state>;

/// Pause between beats without a node, and after news for other members.
constexpr auto beat_interval = 250ms;
constexpr auto rest_interval = 500ms; ///< Time between two beats without news.
constexpr auto tell_uses_every = 500ms;
constexpr auto tell_totals_every = 1000ms;
constexpr auto tell_calls_every = 2000ms;
constexpr auto session_timeout = 1s;
constexpr auto commit_timeout = 10s;

/// Maps the node's pool and takes the lock that says this process lives.
result<own_pool_ptr> map_pool(const session_welcome& welcome, const gateway_actor& gateway,
                              const session_actor_options& options) {
  auto node = discovery::decode_member(welcome.member);
  if (!node)
    return node.error();
  const auto group = group_named(options.group);
  if (!group)
    return error{group.error().code,
                 std::string(node_group_variable) + ": " + group.error().message};
  auto memory = storage::pool_memory::attach(welcome.pool_name, node->inc, *group);
  if (!memory)
    return memory.error();
  if (auto locked = memory->lock_session(welcome.lock_index); !locked)
    return locked.error();
  auto pool = std::make_unique<own_pool>(std::move(*memory));
  if (auto shard = directory::attached_shard::attach(welcome.pool_name, *group))
    pool->shard = std::move(*shard);
  else
    log::debug("client: the node is asked for what its shard has: {}", to_string(shard.error()));
  pool->node = std::move(*node);
  pool->gateway = gateway;
  pool->session = welcome.session;
  if (welcome.mirror < config::words_of<config::mirror_mode>.size())
    pool->mirror = static_cast<config::mirror_mode>(welcome.mirror);
  pool->directory_replicas =
      std::clamp<std::uint32_t>(welcome.directory_replicas, 1, discovery::hash_ring::replicas_max);
  return pool_unmapper::share(std::move(pool), options.board->unmapper);
}

void opened(session_pointer self, const gateway_actor& gateway, const session_welcome& welcome) {
  auto& state = self->state;
  state.connecting = false;
  state.told.reset();
  auto pool = map_pool(welcome, gateway, state.options);
  if (!pool) {
    log::warn("client: the pool of this host's node cannot be mapped: {}", to_string(pool.error()));
    state.options.board->set_fault(
        {pool.error().code, "its pool cannot be mapped, which takes a process of the same host and "
                            "user: " +
                                pool.error().message});
    self->send(gateway, leave_atom_v, welcome.session);
    return;
  }
  self->monitor(gateway);
  state.options.board->set_pool(std::move(*pool));
  begin_to_tell_gpu(self);
  if (auto view = discovery::decode_view(welcome.view)) // A node that joins has none yet.
    state.nodes_view = std::move(*view);
  self->send(state.options.links, view_atom_v, welcome.view, from_here{});
}

void failed(session_pointer self, const caf::error& why) {
  auto fault = fault_of(why);
  log::debug("client: no session: {}", fault.message);
  self->state.connecting = false;
  self->state.options.board->set_fault(std::move(fault));
}

void open_session(session_pointer self, const gateway_actor& gateway) {
  session_listener events = caf::actor_cast<session_listener>(self);
  self->request(gateway, session_timeout, session_atom_v, self->state.options.client_name, events)
      .then([self, gateway](const session_welcome& welcome) { opened(self, gateway, welcome); },
            [self](const caf::error& why) { failed(self, why); });
}

/// Says hello before it opens a session: only a hello has the cluster's name in it, and a node of
/// another cluster must be able to refuse.
void greet(session_pointer self, const gateway_actor& gateway) {
  const auto& own = self->state.options;
  self->request(gateway, session_timeout, hello_atom_v, wire_version, own.cluster, own.client_name)
      .then([self, gateway](const peer_welcome&) { open_session(self, gateway); },
            [self](const caf::error& why) { failed(self, why); });
}

void connect(session_pointer self) {
  auto& state = self->state;
  state.connecting = true;
  self->request(state.options.connector, 30s, dial_atom_v, state.options.node_host,
                state.options.node_port, std::string(), from_here{})
      .then([self](const gateway_actor& gateway) { greet(self, gateway); },
            [self](const caf::error& why) { failed(self, why); });
}

/// Whether each slot of an answer lies in the pool, or is `no_slot`. This process will write to the
/// memory of these slots, so a wrong one must not pass.
bool within_pool(const own_pool& pool, const std::string& slots, const std::string& lengths) {
  auto count = record_count<slot_id>(slots);
  if (!count || *count > record_count<std::uint32_t>(lengths).value_or(0))
    return false;
  for (std::size_t i = 0; i < *count; ++i)
    if (auto slot = record_at<slot_id>(slots, i);
        slot != no_slot && !pool.slots.in_range(slot, record_at<std::uint32_t>(lengths, i)))
      return false;
  return true;
}

/// Keeps the slots that came with an acknowledgement (none came with an error) and gives back slots
/// that are of no use.
void keep_leases(session_pointer self, const pending_commit& job, const std::string& slots) {
  auto asked = record_count<std::uint32_t>(job.next_lengths).value_or(0);
  if (asked == 0)
    return;
  std::vector<slot_id> leased;
  auto usable = within_pool(*job.pool, slots, job.next_lengths);
  for (std::size_t i = 0; usable && i < slots.size() / sizeof(slot_id); ++i)
    if (auto slot = record_at<slot_id>(slots, i); slot != no_slot)
      leased.push_back(slot);
  PEERCACHE_ASSERT(leased.size() <= asked);
  auto granules = limits::granules_of(record_at<std::uint32_t>(job.next_lengths, 0));
  std::string unused;
  for (auto slot : job.pool->leases.add(granules, static_cast<std::uint32_t>(asked), leased))
    append_record(unused, slot);
  if (!unused.empty())
    self->send(job.pool->gateway, abandon_atom_v, job.pool->session, std::move(unused));
}

void send_next(session_pointer self);

/// Counts the outcomes of a commit's pages. A page without a status has failed.
flush_result outcome_of(const pending_commit& job, const std::string& statuses) {
  flush_result outcome;
  if (job.mode == commit_mode::mirror)
    return outcome; // A flush is told nothing: no `set` made these pages.
  outcome.failed = job.filled.size() / sizeof(filled_slot);
  for (std::size_t i = 0; i < statuses.size() && outcome.failed > 0; ++i) {
    auto status = static_cast<page_status>(statuses[i]);
    outcome.failed -= is_success(status) ? 1 : 0;
    outcome.duplicates += status == page_status::duplicate ? 1 : 0;
    outcome.unpublished += status == page_status::unreachable ? 1 : 0;
  }
  return outcome;
}

void committed(session_pointer self, const pending_commit_ptr& job, const std::string& slots,
               const flush_result& outcome) {
  auto& state = self->state;
  if (state.in_flight != job)
    return; // The commit was given up when its node went.
  PEERCACHE_ASSERT(job->sets > 0 && job->pool);
  job->pool->leases.commit_answered();
  keep_leases(self, *job, slots);
  state.options.board->window.leave(job->bytes, job->sets, outcome);
  send_next(self);
}

/// Returns the next commit for the current node. Commits for a node that is gone are ended: their
/// slots are gone too, and a wait for their answers would hold up all later commits.
pending_commit_ptr next_for_this_node(session_board& board) {
  auto pool = board.pool();
  auto job = board.commits.next();
  for (; job && job->pool != pool; job = board.commits.next())
    board.window.leave(job->bytes, job->sets, outcome_of(*job, {}));
  return job;
}

/// Sends the next commit. CAF keeps the handlers of a request to a node that is gone until the
/// request's time has passed. These handlers therefore hold no reference to a pool, whose memory
/// would be kept as long.
void send_next(session_pointer self) {
  auto job = next_for_this_node(*self->state.options.board);
  self->state.in_flight = job;
  if (!job)
    return;
  auto answered = [self, asked = std::weak_ptr(job)](const std::string& statuses,
                                                     const std::string& slots) {
    if (auto open = asked.lock())
      committed(self, open, slots, outcome_of(*open, statuses));
  };
  self->request(job->pool->gateway, commit_timeout, commit_atom_v, job->pool->session, job->filled,
                static_cast<std::uint8_t>(job->mode), job->next_lengths)
      .then(answered, [answered](const caf::error&) { answered({}, {}); });
}

/// Ends the requests that were on their way to a node that is gone.
void node_lost(session_pointer self) {
  auto& state = self->state;
  state.options.board->set_pool(nullptr);
  state.beats.plan(self, beat_interval);
  for (const auto& request : std::exchange(state.reserving, {}))
    request->answer({}, page_status::unreachable);
  if (auto job = state.in_flight)
    committed(self, job, {}, outcome_of(*job, {}));
}

void take_slots(session_pointer self, slot_request& request, const std::string& slots) {
  bool usable = within_pool(*request.pool, slots, request.lengths);
  if (!usable)
    request.answer({}, page_status::refused);
  if (!usable || !request.answer(slots))
    self->send(request.pool->gateway, abandon_atom_v, request.pool->session, slots);
}

void reserve(session_pointer self, const slot_request_ptr& request) {
  const auto& pool = request->pool;
  PEERCACHE_ASSERT(pool && !self->state.reserving.contains(request));
  if (pool != self->state.options.board->pool()) {
    request->answer({}, page_status::unreachable);
    return;
  }
  self->state.reserving.insert(request);
  // The handler may outlive its node until the request's time has passed, so it holds no reference
  // to the pool. The caller may have given up, so only requests in `reserving` count.
  auto finish = [self, asked = std::weak_ptr(request)](const std::string* slots) {
    auto open = asked.lock();
    if (!open || self->state.reserving.erase(open) == 0)
      return;
    if (slots != nullptr)
      take_slots(self, *open, *slots);
    else
      open->answer({}, page_status::refused);
  };
  self->request(pool->gateway, commit_timeout, reserve_atom_v, pool->session, request->lengths)
      .then([finish](const std::string& slots) { finish(&slots); },
            [finish](const caf::error&) { finish(nullptr); });
}

/// Remembers where an owner says that pages are, and has those on disks brought into memory.
void take_places(session_pointer self, const std::string& request, const std::string& answer) {
  self->state.options.board->prefetches.give_back(
      static_cast<std::uint32_t>(record_count<page_key>(request).value_or(0)));
  directory::answer_reader reader{answer};
  std::array<directory::page_location, limits::locations_per_key_max> found;
  std::size_t count = 0;
  const auto asked = record_count<page_key>(request).value_or(0);
  promote_plan cold;
  for (std::uint32_t i = 0; i < asked && reader.next(found, count); ++i) {
    if (count == 0)
      continue;
    const auto key = record_at<page_key>(request, i);
    self->state.options.remember(key, found[0]);
    if (found[0].where == directory::tier::disk)
      cold.add(i, key, found[0]);
  }
  warm(cold, *self->state.options.board->topology(), self->state.options.ask);
}

/// Asks the owners where these pages are, and remembers the answers.
void prefetch(session_pointer self, const std::string& keys) {
  auto& board = *self->state.options.board;
  const auto count = static_cast<std::uint32_t>(record_count<page_key>(keys).value_or(0));
  auto cluster = board.topology();
  std::map<node_id, std::string> requests;
  for (std::size_t i = 0; i < count; ++i) {
    auto key = record_at<page_key>(keys, i);
    std::array<node_id, 1> owner;
    if (cluster->ring.owners(key, owner) == 1)
      directory::append_lookup(requests[owner[0]], key);
  }
  auto unasked = count;
  for (auto& [id, request] : requests) {
    const auto* owner = cluster->find(id);
    if (owner == nullptr || !owner->linked())
      continue;
    const auto asked = static_cast<std::uint32_t>(record_count<page_key>(request).value_or(0));
    unasked -= asked;
    member_request question{
        member_question::look_up, request, std::chrono::steady_clock::now() + session_timeout, {}};
    question.take = [asker = session_actor{self}, request = request](member_answer answer) mutable {
      caf::anon_send(asker, lookup_atom_v, std::move(request), std::move(answer.body), from_here{});
    };
    self->state.options.ask(owner->self.inc, std::move(question));
  }
  board.prefetches.give_back(unasked);
}

/// Tells the node what calls asked for of late, if there were any since the last time.
void send_calls(session_pointer self, const own_pool& pool) {
  auto* calls = self->state.options.calls;
  if (calls == nullptr)
    return;
  if (auto said = calls->take_report(std::chrono::steady_clock::now()))
    self->send(pool.gateway, calls_atom_v, pool.session, std::move(*said));
}

void say_goodbye(session_pointer self) {
  send_news(self->state.options);
  if (auto pool = self->state.options.board->pool()) {
    send_calls(self, *pool);
    self->send(pool->gateway, report_atom_v, pool->session, self->state.options.report_totals());
    self->send(pool->gateway, leave_atom_v, pool->session);
  }
}

/// Whether two totals of this client are equal. Histograms are compared by their counts, which only
/// grow.
bool same(const metrics::samples& one, const metrics::samples& other) {
  return one.values() == other.values() &&
         std::ranges::equal(one.latencies(), other.latencies(), [](const auto& a, const auto& b) {
           return a.first == b.first && a.second.count == b.second.count;
         });
}

/// Tells the node the totals of this client, unless it knows them.
void send_totals(session_pointer self, const own_pool& pool) {
  auto& state = self->state;
  auto totals = state.options.report_totals();
  if (state.told && same(*state.told, totals))
    return;
  state.told = totals;
  self->send(pool.gateway, report_atom_v, pool.session, std::move(totals));
}

/// Whether a report that is told once per `every` is due; if so, sets `at` to the time of the next
/// one.
bool is_time(caf::actor_clock::time_point now, std::chrono::milliseconds every,
             caf::actor_clock::time_point& at) {
  if (now < at)
    return false;
  at = next_beat(now, every);
  return true;
}

void beat(session_pointer self) {
  auto& state = self->state;
  const auto now = self->clock().now();
  if (!state.beats.due(now))
    return;
  bool news = send_news(state.options);
  if (is_time(now, tell_uses_every, state.tell_uses_at)) {
    news |= send_uses(state.options);
    give_back_idle_slots(state.options);
  }
  tell_gpu(self);
  const auto pool = state.options.board->pool();
  if (!pool && !state.connecting)
    connect(self);
  if (pool && is_time(now, tell_totals_every, state.tell_totals_at))
    send_totals(self, *pool);
  if (pool && is_time(now, tell_calls_every, state.tell_calls_at))
    send_calls(self, *pool);
  state.beats.plan(self, news || !pool ? beat_interval : rest_interval);
}

} // namespace

session_actor::behavior_type run_session_actor(session_pointer self,
                                               session_actor_options options) {
  self->state.options = std::move(options);
  self->set_default_handler(caf::drop);
  self->set_down_handler([self](const caf::down_msg& down) {
    if (auto pool = self->state.options.board->pool();
        pool && pool->gateway.address() == down.source)
      node_lost(self);
  });
  self->send(self, beat_atom_v, from_here{});
  return {
      [self](view_atom, const std::string& told) { hear_view(self, told); },
      [self](beat_atom, from_here) { beat(self); },
      [self](commit_atom, from_here) { send_next(self); },
      [self](gpu_atom, from_here) { self->state.beats.plan(self, gpu_pause); },
      [self](reserve_atom, const slot_request_ptr& request) { reserve(self, request); },
      [self](lookup_atom, const std::string& keys, from_here) { prefetch(self, keys); },
      [self](lookup_atom, const std::string& keys, const std::string& answer, from_here) {
        take_places(self, keys, answer);
      },
      [self](leave_atom, from_here) {
        say_goodbye(self);
        return true;
      },
  };
}

} // namespace peercache::client
