#include "actors/monitoring/cluster_history.hpp"

#include "common/fault_ids.hpp"
#include "link/protocol/pool_wire.hpp"

#include <algorithm>
#include <set>
#include <utility>

namespace peercache::actors {

namespace {

/// Cuts a list to its newest entries.
template <class T>
void keep_newest(std::deque<T>& all, std::size_t most) {
  while (all.size() > most)
    all.pop_front();
}

/// Adds an entry to `all` unless the list has it, or a newer one, already: an answer may come
/// twice.
template <class T>
void add_newer(std::deque<T>& all, const T& one) {
  if (all.empty() || one.number > all.back().number)
    all.push_back(one);
}

template <class Numbers>
void add_each(Numbers& to, const Numbers& more) {
  for (std::size_t i = 0; i < to.size(); ++i)
    to[i] += more[i];
}

template <class Numbers>
void raise_each(Numbers& to, const Numbers& other) {
  for (std::size_t i = 0; i < to.size(); ++i)
    to[i] = std::max(to[i], other[i]);
}

void add_to(history_point& sum, const history_point& more) {
  sum.unix_ms = std::max(sum.unix_ms, more.unix_ms);
  sum.span_ms = std::max(sum.span_ms, more.span_ms);
  add_each(sum.hits, more.hits);
  add_each(sum.misses, more.misses);
  sum.get_bytes += more.get_bytes;
  sum.set_bytes += more.set_bytes;
  sum.sent_bytes += more.sent_bytes;
  sum.evictions += more.evictions;
  sum.disk_evictions += more.disk_evictions;
  sum.pool_bytes += more.pool_bytes;
  sum.disk_queue_bytes += more.disk_queue_bytes;
  add_each(sum.rooms_handed_over, more.rooms_handed_over);
  add_each(sum.bytes_handed_over, more.bytes_handed_over);
  raise_each(sum.get_ns, more.get_ns);
  raise_each(sum.set_ns, more.set_ns);
}

} // namespace

void cluster_history::take(const std::vector<discovery::member>& nodes, const incarnation& self) {
  members_ = nodes.size();
  std::set<incarnation> wanted{self};
  for (const auto& node : nodes)
    if (wanted.size() < nodes_max)
      wanted.insert(node.inc);
  for (const auto& node : nodes)
    if (wanted.contains(node.inc))
      nodes_[node.inc].name = node.name;
  std::erase_if(nodes_, [&](const auto& known) { return !wanted.contains(known.first); });
}

std::vector<cluster_history::question> cluster_history::due(time_point now) {
  std::vector<question> all;
  for (auto& [inc, known] : nodes_) {
    const bool waits = known.asked_once && now - known.asked < ask_every;
    if (known.asking || waits || all.size() == asked_per_turn)
      continue;
    known.asking = known.asked_once = true;
    known.asked = now;
    all.push_back({inc, known.points.empty() ? 0 : known.points.back().number,
                   known.events.empty() ? 0 : known.events.back().number});
  }
  return all;
}

void cluster_history::answered(const incarnation& who, const history_report& said) {
  const auto found = nodes_.find(who);
  if (found == nodes_.end())
    return;
  auto& known = found->second;
  known.asking = known.silent = false;
  known.heard = true;
  const auto count = record_count<history_point>(said.points).value_or(0);
  for (std::size_t i = 0; i < count; ++i)
    add_newer(known.points, record_at<history_point>(said.points, i));
  keep_newest(known.points, history_points_max);
  for (const auto& event : said.events)
    add_newer(known.events, event);
  keep_newest(known.events, events_max);
}

void cluster_history::failed(const incarnation& who) {
  const auto found = nodes_.find(who);
  if (found == nodes_.end())
    return;
  found->second.asking = false;
  found->second.silent = true;
}

cluster_memory cluster_history::memory(const incarnation& self) const {
  cluster_memory all;
  all.members = members_;
  all.complete = !nodes_.empty();
  for (const auto& [inc, known] : nodes_) {
    all.complete = all.complete && (known.heard || known.silent);
    if (!known.heard)
      continue;
    all.points[known.name] = known.points;
    if (known.silent)
      all.silent.insert(known.name);
    for (const auto& event : known.events)
      if (inc == self || fault_ids::is_name(event.kind))
        all.events.push_back(event);
  }
  std::stable_sort(all.events.begin(), all.events.end(),
                   [](const auto& a, const auto& b) { return a.unix_ms > b.unix_ms; });
  if (all.events.size() > events_max)
    all.events.resize(events_max);
  return all;
}

namespace {

/// Most steps that a node may be behind for its newest step to be waited for. The clock of a node
/// that is further behind is wrong.
constexpr std::uint64_t steps_awaited = 3;

/// Returns the newest step that all answering nodes have told. Nodes without steps, and nodes more
/// than `steps_awaited` behind, do not count.
std::uint64_t newest_whole_step(const cluster_memory& memory, std::uint64_t unix_ms) {
  const auto now = unix_ms / history_step_ms;
  auto newest = now;
  for (const auto& [name, points] : memory.points) {
    if (points.empty() || memory.silent.contains(name))
      continue;
    const auto told = points.back().unix_ms / history_step_ms;
    if (told + steps_awaited >= now)
      newest = std::min(newest, told);
  }
  return newest;
}

} // namespace

std::deque<history_point> sum_of(const cluster_memory& memory, std::uint64_t unix_ms) {
  const auto newest = newest_whole_step(memory, unix_ms);
  std::map<std::uint64_t, history_point> steps;
  for (const auto& [name, points] : memory.points)
    for (const auto& point : points)
      if (const auto step = point.unix_ms / history_step_ms; step <= newest)
        add_to(steps[step], point);
  std::deque<history_point> all;
  for (const auto& [step, point] : steps)
    all.push_back(point);
  keep_newest(all, history_points_max);
  return all;
}

} // namespace peercache::actors
