// The end of a simulated run: ends all faults, waits until the cluster has healed, and checks the
// invariants.

#include "discovery/quorum.hpp"
#include "tests/scenario/cluster.hpp"

#include <algorithm>
#include <array>
#include <numeric>
#include <set>

namespace peercache::scenario {

using namespace std::chrono_literals;
using directory::page_location;
using directory::tier;
using phase = discovery::membership::phase;

namespace {

/// Longest time from the end of the faults until all nodes have one view, if a majority of the
/// masters runs. `outcome::healed` says how long a run took.
constexpr auto heal_limit = 3 * heartbeat;
/// Longest time until all nodes have one view, if a majority of the masters does not run.
constexpr auto rest_limit = 15s;
/// Time from the first comparison after the faults, which takes 8 s or more, to the reads. A call
/// may have failed as late as a second after the faults, and its breaker then refuses an owner for
/// 8 s (common/circuit_breaker.hpp). By the end of this time all owners are asked again.
constexpr auto breakers_rest = 1500ms;
/// Time for two comparisons of a producer that has published its pages.
constexpr auto two_passes = 4s;
/// A missed page that was on disk is read once more after this time.
constexpr auto disk_retry = 4s;
/// Time from the first read of the last page of `read_everything` until the page was read again
/// after a miss and no holder still pins it: the wait before the second read, two deadlines of a
/// get, and the time of a slow reader of page_fetch.cpp.
constexpr auto reads_end = disk_retry + 2 * 1000ms + 500ms;

/// Whether the process is giving away its records, in order to leave or to give up all its keys.
bool departs(const host& at) {
  return at.running && at.running->departs() && at.running->machine().state() != phase::left;
}

} // namespace

void cluster::calm() {
  next_step_ = script_.steps.size();
  healing_ = true;
  clients_work_ = false;
  end_faults();
}

/// Ends all faults. Hosts that are down come back, except those that are leaving and not needed.
void cluster::heal() {
  calm();
  // What a process said of its leaving while packets were lost may have been heard by nobody: then
  // it goes like one that is lost.
  expect_one_view(leaver_is_member() ? duration(expiry) : duration::zero());
  // Waits until the nodes that were about to leave or to drain have given away their records.
  for (const auto end = world_.now() + 30s;
       world_.now() < end && std::any_of(hosts_.begin(), hosts_.end(), departs);)
    run_until(world_.now() + 10ms);
  if (std::any_of(hosts_.begin(), hosts_.end(), departs))
    oracle_.fault("somebody has not given away its keys in 30 s");
  expect_one_view();
  repair(8s);
  if (!converged(all_hosts()))
    oracle_.fault("did not stay together");
  check_directory();
  run_until(world_.now() + breakers_rest);
  read_everything();
  repair(reads_end);
  check_directory();
}

void cluster::end_faults() {
  world_.mend();
  world_.loss_percent = 0;
  world_.repeat_percent = 0;
  for (auto& slowness : world_.slowness)
    slowness = {};
  for (auto& at : hosts_) {
    freeze(at, false);
    if (!at.running)
      start(at);
  }
}

const discovery::view* cluster::newest_view() const {
  const discovery::view* newest = nullptr;
  for (const auto& at : hosts_)
    if (at.running && (newest == nullptr || at.running->view().newer_than(*newest)))
      newest = &at.running->view();
  return newest;
}

std::vector<std::size_t> cluster::all_hosts() const {
  std::vector<std::size_t> all(hosts_.size());
  std::iota(all.begin(), all.end(), 0);
  return all;
}

/// Whether the newest view has a process that has left.
bool cluster::leaver_is_member() {
  const auto* newest = newest_view();
  return newest != nullptr &&
         std::any_of(newest->members.begin(), newest->members.end(), [this](const auto& member) {
           const auto& at = *find(member.name);
           return at.running && at.self.inc == member.inc &&
                  at.running->machine().state() == phase::left;
         });
}

/// Expects that all running nodes get one view: within `heal_limit` if a majority of the newest
/// view's masters runs, else within `rest_limit`. @param for_leavers time on top of `heal_limit`
void cluster::expect_one_view(duration for_leavers) {
  const auto* newest = newest_view();
  const auto runs = [this](const std::string& name) {
    const auto& at = *find(name);
    return at.running && at.running->machine().state() != phase::left;
  };
  const bool has_majority =
      newest == nullptr || static_cast<std::size_t>(std::count_if(newest->masters.begin(),
                                                                  newest->masters.end(), runs)) >=
                               discovery::votes_needed(newest->masters.size());
  const auto since = world_.now();
  expect_one_view(all_hosts(), has_majority ? heal_limit + for_leavers : rest_limit);
  outcome_.healed = std::max(outcome_.healed, world_.now() - since);
  // A view may stay a fragment (a view made without a majority) only while most of the masters
  // before it are missing. Once most of them are members again, another view must replace the
  // fragment within a heartbeat.
  const auto most_are_missing = [&] {
    const auto* now = newest_view();
    return now == nullptr || now->former_masters.size() - now->masters_lost() <
                                 discovery::votes_needed(now->former_masters.size());
  };
  const auto until = world_.now() + heartbeat;
  while (newest_view() != nullptr && newest_view()->fragment() && !most_are_missing() &&
         world_.now() < until)
    run_until(world_.now() + 10ms);
  if (newest_view() != nullptr && newest_view()->fragment() && !most_are_missing())
    oracle_.fault("most of the lost masters are back, and the view is a fragment");
}

/// Expects that the running nodes of the hosts `side` have one view within `limit`.
void cluster::expect_one_view(const std::vector<std::size_t>& side, duration limit) {
  const auto since = world_.now();
  while (!converged(side) && world_.now() < since + 30s)
    run_until(world_.now() + 10ms);
  if (const auto took = world_.now() - since; took > limit)
    oracle_.fault("one view only after " + to_text(took));
}

/// Runs for `least`, and then until every producer has compared its pages twice with the whole
/// directory, at most 100 ms for each host. A comparison asks each node at least once, so it takes
/// longer with more nodes. Where pages wait to be published again, for as long as that takes, it is
/// longer; 30 s at most.
void cluster::repair(duration least) {
  std::map<incarnation, std::uint64_t> wanted;
  for (const auto& at : hosts_)
    if (at.running)
      wanted[at.self.inc] = at.running->repair_passes() + 2;
  const auto late = [&](const host& at) {
    return at.running && script_.repair && at.running->joined() &&
           at.running->repair_passes() < wanted[at.self.inc];
  };
  std::size_t unpublished = 0;
  for (const auto& at : hosts_)
    if (at.running)
      unpublished = std::max(unpublished, at.running->unpublished());
  const auto published = std::min<duration>(unpublished * duration(1s) / script_.republish, 30s);
  const auto end =
      world_.now() + std::max<duration>(least, published + two_passes) + hosts_.size() * 100ms;
  run_until(world_.now() + least);
  while (world_.now() < end && std::any_of(hosts_.begin(), hosts_.end(), late))
    run_until(world_.now() + 100ms);
  for (const auto& at : hosts_)
    if (late(at))
      oracle_.fault(at.name + " has not compared its pages with the directory");
}

bool cluster::converged(const std::vector<std::size_t>& side) const {
  const discovery::view* first = nullptr;
  std::size_t running = 0;
  for (auto index : side) {
    const auto& at = hosts_[index];
    if (!at.running)
      continue;
    if (at.running->machine().state() == phase::left) {
      // `end_when_not_needed` starts a last seed again when it has left, so this host must join.
      if (is_last_seed(at))
        return false;
      continue;
    }
    ++running;
    const auto& view = at.running->view();
    if (at.running->machine().state() != phase::joined || !at.running->joined() ||
        (first != nullptr && view != *first))
      return false;
    first = &view;
  }
  return running == 0 || first->members.size() == running;
}

/// Reads each key that some node has, from anywhere: each read must be a hit.
void cluster::read_everything() {
  for (const auto& key : keys_) {
    auto& reader = hosts_[world_.below(hosts_.size())];
    if (reader.running)
      expect_hit(*reader.running, key, /*last=*/false);
    run_until(world_.now() + 5ms);
  }
}

/// Expects that the reader gets the page, in the second attempt at the latest. The first attempt
/// may miss: reads displace pages, so the page may just have left memory, and the directory may not
/// know yet that the page is on disk too. The next comparison of the disk with the directory adds
/// that record.
void cluster::expect_hit(process& reader, const page_key& key, bool last) {
  const auto held = holding_of(key);
  const wanted_page page{key, held ? held->length_bytes : 64};
  reader.get(page, [this, key, held, last, at = &reader](page_status status) {
    if (status == page_status::hit || !held || holding_of(key) != held)
      return;
    if (last)
      return oracle_.fault("a page that is there was not found: " + std::string(to_string(status)));
    const bool on_disk = held->gen == generation{};
    later(*at, on_disk ? duration{disk_retry} : 500ms,
          [this, key](process& again) { expect_hit(again, key, true); });
  });
}

/// Returns a process that has the key, in memory if one does, and the generation; nothing if the
/// processes that have the key have different lengths of it.
std::optional<cluster::holding> cluster::holding_of(const page_key& key) const {
  std::optional<holding> found;
  for (const auto& at : hosts_) {
    const auto held = at.running && at.running->joined() ? at.running->held(key) : std::nullopt;
    if (!held)
      continue;
    if (found && found->length_bytes != held->length_bytes)
      return std::nullopt; // The directory need not know every length.
    if (!found || held->where == tier::memory)
      found = holding{at.running->inc(), held->gen, held->length_bytes};
  }
  return found;
}

void cluster::check_directory() {
  // Nodes publish refused records again with every comparison, which takes milliseconds, so in a
  // large cluster some node always has something to publish. It suffices that each node once had
  // nothing.
  std::set<std::size_t> busy;
  for (const auto& at : hosts_)
    busy.insert(at.index);
  auto settle = [this](std::size_t index) {
    const auto& at = hosts_[index];
    return !at.running || at.running->settled();
  };
  for (auto end = world_.now() + 500ms; world_.now() < end && !busy.empty();) {
    std::erase_if(busy, settle);
    run_until(world_.now() + 5ms);
  }
  for (const auto& key : keys_)
    check_found(key);
  for (auto& at : hosts_) {
    if (!at.running)
      continue;
    if (busy.contains(at.index))
      oracle_.fault(at.name + " has not published everything");
    if (at.running->pins() > 0)
      oracle_.fault(at.name + " has pins that nobody takes away");
    if (at.running->pool().stats().filling > 0)
      oracle_.fault(at.name + " has slots that nobody fills");
    check_shard(*at.running);
  }
}

/// Checks that some owner knows one true location of a page that is in memory somewhere, even if no
/// producer compares. Mirrors are left out, because the pool drops them to make room for other
/// pages.
void cluster::check_found(const page_key& key) {
  bool in_memory = false;
  bool found = false;
  for (const auto& at : hosts_) {
    if (!at.running || !at.running->joined())
      continue;
    const auto held = at.running->held(key);
    in_memory = in_memory || (held && held->where == tier::memory && !at.running->mirrors(key));
    if (!at.running->ring().owns(at.self.id, key, script_.replicas))
      continue;
    std::array<page_location, limits::locations_per_key_max> told;
    for (const auto& place : std::span(told).first(at.running->shard().lookup(key, told))) {
      const auto& holder = hosts_[host_of_.at(place.holder)];
      const auto there = holder.running && holder.self.inc == place.holder
                             ? holder.running->held(key)
                             : std::nullopt;
      found = found || (there && there->where == place.where &&
                        (place.where == tier::disk || there->gen == place.gen));
    }
  }
  if (in_memory && !found)
    oracle_.fault("nobody finds a page that is in memory");
}

/// Checks that a shard knows exactly what the living processes hold of the keys that it owns.
void cluster::check_shard(const process& owner) {
  std::size_t found = 0;
  for (const auto& key : keys_) {
    std::array<page_location, limits::locations_per_key_max> told;
    const auto known = std::span(told).first(owner.shard().lookup(key, told));
    for (const auto& location : known)
      check_location(owner, key, location);
    if (!owner.ring().owns(owner.on().self.id, key, script_.replicas))
      continue;
    found += known.size();
    for (const auto& at : hosts_) {
      auto is_its = [&at](const auto& location) { return location.holder == at.self.inc; };
      if (at.running && at.running->joined() && at.running->held(key) &&
          std::none_of(known.begin(), known.end(), is_its) && known.size() < told.size())
        oracle_.fault(owner.on().name + " does not know a page of " + at.name);
    }
  }
  if (found != owner.shard().locations())
    oracle_.fault(owner.on().name + " keeps keys that it does not own");
}

void cluster::check_location(const process& owner, const page_key& key, const page_location& told) {
  auto at = host_of_.find(told.holder);
  const auto* producer = at != host_of_.end() ? hosts_[at->second].running.get() : nullptr;
  if (producer == nullptr || producer->inc() != told.holder)
    return oracle_.fault(owner.on().name + " remembers a page of a process that is gone");
  auto held = producer->held(key);
  if (!held)
    oracle_.fault(owner.on().name + " remembers a page that " + producer->on().name + " lost");
  else if (held->where != told.where || held->length_bytes != told.length_bytes ||
           (told.where == tier::memory && held->gen != told.gen))
    oracle_.fault(owner.on().name + " has an old record of a page of " + producer->on().name);
}

} // namespace peercache::scenario
