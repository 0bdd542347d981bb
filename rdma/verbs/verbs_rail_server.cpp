#include "rdma/verbs/verbs_rail_server.hpp"

#include "common/assert.hpp"
#include "rdma/tcp/tcp_protocol.hpp"

#include <algorithm>
#include <iterator>
#include <tuple>
#include <utility>

namespace peercache::rdma {

namespace {

constexpr std::uint64_t device_id = 0;
static_assert(static_cast<std::size_t>(session_end::no_window) + 1 == session_ends);
constexpr auto reap_every = std::chrono::milliseconds(100);
constexpr auto publish_every = std::chrono::milliseconds(100);
/// How often answers that wait for windows are looked at.
constexpr auto waiting_every = std::chrono::milliseconds(10);

result<void> check(const verbs_server_options& options, const served_region& pool,
                   const verbs::port_report& port) {
  PEERCACHE_ASSERT(options.rail < options.rails && options.hellos_per_turn > 0);
  PEERCACHE_ASSERT(pool.granules > 0 &&
                   (pool.pages == nullptr || pool.pages >= pool.region.data()));
  if (options.windows && !port.can.windows)
    return {errc::incompatible,
            "rdma.windows = true, but " + port.device +
                " has no memory windows of type 2B: set rdma.windows = false, or leave the device "
                "out of rdma.devices, or set data_plane = tcp"};
  return verbs::check(options.path);
}

verbs::region_use use_of(const verbs_server_options& options) noexcept {
  return options.windows ? verbs::region_use::windows : verbs::region_use::remote_read;
}

/// What the memory is that is added while the rail serves.
chunk_kind added_kind(const served_region& pool) noexcept {
  return pool.service() == data_service::pool ? chunk_kind::area : chunk_kind::region;
}

} // namespace

// Functions for the begin, the turns of the loop and the end of a rail server.

result<std::unique_ptr<verbs_rail_server>>
verbs_rail_server::create(std::unique_ptr<verbs::device> device,
                          const verbs_server_options& options, const served_region& pool) {
  if (auto sensible = check(options, pool, device->port()); !sensible)
    return sensible.error();
  device->own();
  auto plan = plan_for(*device, pool.region, options.chunk_bytes, use_of(options));
  if (!plan)
    return plan.error();
  auto events = net::event_poll::create();
  if (!events)
    return events.error();
  if (!events->add(device->async_fd(), device_id))
    return {errc::io_failed, "epoll refuses the events of " + device->port().device};
  auto completions = rail_completions::create(*device, options.windows, *events);
  if (!completions)
    return completions.error();
  return std::unique_ptr<verbs_rail_server>(new verbs_rail_server(
      std::move(device), std::move(*completions), std::move(*events), options, pool, *plan));
}

verbs_rail_server::verbs_rail_server(std::unique_ptr<verbs::device> device,
                                     rail_completions completions, net::event_poll events,
                                     const verbs_server_options& options, const served_region& pool,
                                     const chunk_plan& plan)
    : device_(std::move(device)), options_(options), cluster_(cluster_digest(options.cluster)),
      pool_(pool), events_(std::move(events)),
      regions_(*device_, plan,
               {options.on_registered, [this] { wake(); }, options.on_not_registered},
               use_of(options)),
      spans_(*device_, added_kind(pool),
             added_kind(pool) == chunk_kind::area ? area_chunks_max
                                                  : region_chunks_max - regions_.chunks(),
             options.chunk_bytes, use_of(options), [this] { wake(); }),
      inbox_(options.inbox_max), completions_(std::move(completions)) {
  stats_.regions = regions_.progress();
}

verbs_rail_server::~verbs_rail_server() {
  // The thread that owned the device has ended, so this thread may destroy its verbs objects.
  device_->own();
}

result<void> verbs_rail_server::add_area(std::span<std::byte> memory) {
  if (added_kind(pool_) != chunk_kind::area)
    return {errc::invalid_argument, "areas are served beside a pool only"};
  if (memory.data() < pool_.region.data() + pool_.region.size() &&
      pool_.region.data() < memory.data() + memory.size())
    return {errc::refused, "this memory, or a part of it, belongs to the pool"};
  const std::lock_guard lock(areas_mutex_);
  const auto begin = reinterpret_cast<std::uintptr_t>(memory.data());
  missing_areas_.insert_or_assign(begin, memory);
  result<void> outcome;
  for (auto each = missing_areas_.begin(); each != missing_areas_.end();) {
    auto added = add_missing_area(*each);
    if (each->first == begin)
      outcome = added;
    each = added ? missing_areas_.erase(each) : std::next(each);
  }
  return outcome;
}

/// @pre `areas_mutex_` is held, and all missing areas below this one were tried
result<void> verbs_rail_server::add_missing_area(const missing_area& one) {
  const auto lowest = missing_areas_.begin()->first;
  if (lowest < lowest_area_ && lowest < one.first)
    return {errc::refused,
            "no area is served before the lowest one, which could not be registered"};
  auto added = spans_.add(one.second);
  if (added)
    lowest_area_ = std::min(lowest_area_, one.first);
  else if (one.first < lowest_area_)
    return {added.error().code, "no area is served before the lowest one, which could not be "
                                "registered: " +
                                    added.error().message};
  return added;
}

bool verbs_rail_server::poll(clock::time_point now) {
  if (!std::exchange(owns_device_, true))
    device_->own();
  bool moved = take_events(now);
  moved |= take_regions();
  moved |= admit(now);
  look_at_waiting(now);
  moved |= run_sessions(now);
  if (now >= reap_at_) {
    reap_at_ = now + reap_every;
    reap(now);
  }
  moved |= bury(now);
  changed_ |= moved;
  stats_.turns += moved;
  if (changed_ && now >= publish_at_)
    publish(now);
  return moved;
}

void verbs_rail_server::wait(clock::duration at_most) {
  if (!ready_.empty() || !collected_.empty() || !inbox_.empty() || !retired_.empty())
    return;
  const bool timers = changed_ || !sessions_.empty();
  const auto tick = waiting_.empty() ? reap_every : waiting_every;
  const auto sleep = timers ? std::min<clock::duration>(at_most, tick) : at_most;
  collected_ = events_.collect(std::max(sleep, clock::duration::zero()));
}

// Functions that move sessions on, watch them and end them.

bool verbs_rail_server::take_regions() {
  bool any = regions_.take_registered(announced_);
  if (spans_.has_news()) {
    any = true;
    // Readers keep the chunks that were announced to them, so their sessions end: readers that come
    // again are told of the chunks that are left.
    if (spans_.take(announced_))
      end_all(session_end::memory_removed);
  }
  if (!any)
    return false;
  std::tie(stats_.area_chunks, stats_.area_bytes) = announced_.of_kind(chunk_kind::area);
  for (const auto& each : sessions_)
    ready_.push_back(each.first);
  return true;
}

bool verbs_rail_server::take_events(clock::time_point now) {
  auto events = std::exchange(collected_, {});
  if (events.empty())
    events = events_.collect(std::chrono::nanoseconds(0));
  for (const auto& event : events) {
    // `id` is a copy, because the packed epoll_event does not align its member.
    const std::uint64_t id = event.data.u64;
    if (id == device_id) {
      take_device_events();
    } else if (id == rail_completions::event_id) {
      take_bindings(now);
    } else if (const auto found = sessions_.find(id); found != sessions_.end()) {
      found->second.session->on_events(event.events);
      ready_.push_back(id);
    }
  }
  return !events.empty();
}

void verbs_rail_server::take_device_events() {
  for (auto event = device_->next_event(); !event.name.empty(); event = device_->next_event()) {
    ++stats_.device_events;
    stats_.device_event = event.name;
    if (event.fatal) {
      stats_.serving = false;
      stats_.why_not = event.name;
      end_all(session_end::rail_down);
    } else if (event.port_is_back) {
      stats_.serving = true;
      stats_.why_not.clear();
    }
  }
}

bool verbs_rail_server::run_sessions(clock::time_point now) {
  bool moved = false;
  for (const auto id : std::exchange(ready_, {}))
    moved |= step(id, now);
  return moved;
}

bool verbs_rail_server::step(std::uint64_t id, clock::time_point now) {
  using progress = verbs_server_session::progress;
  const auto found = sessions_.find(id);
  if (found == sessions_.end())
    return false;
  auto& session = *found->second.session;
  if (options_.windows && !bind_windows(id, session, now)) {
    turn_away(id, verbs_verdict::no_device);
    return true;
  }
  const bool was_established = session.established();
  const auto outcome = session.step(now, announced_.chunks());
  PEERCACHE_ASSERT(session.established() || !was_established);
  if (session.answered())
    waiting_.erase(id);
  if (!was_established && session.established()) {
    PEERCACHE_ASSERT(stats_.half_open > 0);
    --stats_.half_open;
    ++stats_.established;
  }
  if (outcome == progress::closed || outcome == progress::violated)
    end(id, outcome == progress::closed ? session_end::closed : session_end::violation);
  return outcome != progress::blocked;
}

void verbs_rail_server::reap(clock::time_point now) {
  std::vector<std::pair<std::uint64_t, session_end>> over;
  auto looks_left = options_.looks_per_turn;
  take_bindings(now);
  for (auto& [id, each] : sessions_) {
    if (options_.windows && each.session->windows().size() < announced_.size())
      ready_.push_back(id); // A window that could not be made is tried again.
    if (const auto why = each.session->overdue(now, options_)) {
      over.emplace_back(id, *why);
    } else if (looks_left > 0 && each.session->wants_look(now, options_)) {
      --looks_left;
      if (each.session->look(now, options_))
        over.emplace_back(id, session_end::idle);
    }
  }
  for (const auto& [id, why] : over)
    end(id, why);
}

void verbs_rail_server::end(std::uint64_t id, session_end why) {
  const auto found = sessions_.find(id);
  PEERCACHE_ASSERT(found != sessions_.end());
  ++stats_.ended[static_cast<std::size_t>(why)];
  if (!found->second.session->established())
    --stats_.half_open;
  const auto of_reader = readers_.find(found->second.reader);
  PEERCACHE_ASSERT(of_reader != readers_.end());
  const auto erased = std::erase(of_reader->second.sessions, id);
  PEERCACHE_ASSERT(erased == 1); // A session is in its reader's list, and ends once.
  if (of_reader->second.sessions.empty())
    readers_.erase(of_reader);
  auto session = std::move(found->second.session);
  sessions_.erase(found);
  waiting_.erase(id);
  forget_unbound(id);
  if (options_.windows)
    retire(std::move(session));
  changed_ = true;
}

void verbs_rail_server::end_all(session_end why) {
  stats_.ended[static_cast<std::size_t>(why)] += sessions_.size();
  stats_.half_open = 0;
  readers_.clear();
  if (options_.windows)
    for (auto& each : sessions_)
      retire(std::move(each.second.session));
  sessions_.clear();
  waiting_.clear();
  unbound_.clear();
}

void verbs_rail_server::end_older(const std::string& name, const incarnation& reader) {
  const auto found = readers_.find(name);
  // A reader without a name ends no older session, since nothing says that the session is its own.
  if (name.empty() || name.front() == '\0' || found == readers_.end() ||
      found->second.inc == reader)
    return;
  for (const auto id : std::vector(found->second.sessions))
    end(id, session_end::replaced);
}

void verbs_rail_server::publish(clock::time_point now) {
  PEERCACHE_ASSERT(stats_.half_open <= sessions_.size() && readers_.size() <= sessions_.size());
  changed_ = false;
  publish_at_ = now + publish_every;
  snapshot made;
  made.stats = stats_;
  made.stats.sessions = static_cast<std::uint32_t>(sessions_.size());
  const auto overflows = inbox_overflows_.load(std::memory_order_relaxed);
  made.stats.hellos += overflows;
  made.stats.verdicts[static_cast<std::size_t>(verbs_verdict::busy)] += overflows;
  made.stats.regions = regions_.progress();
  for (const auto& [name, each] : readers_)
    made.readers.push_back({name.substr(0, name.find('\0')), each.inc,
                            static_cast<std::uint32_t>(each.sessions.size())});
  latest_.store(std::move(made));
}

} // namespace peercache::rdma
