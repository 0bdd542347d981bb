// What a script does to the cluster, and what must hold in the end.

#include "tests/scenario/cluster.hpp"

#include <algorithm>
#include <array>
#include <set>

namespace peercache::scenario {

using namespace std::chrono_literals;
using phase = discovery::membership::phase;

namespace {

/// One view takes three heartbeats; but where all masters of the newest view are gone, those who
/// have a view of their own wait two expiries for them. `outcome::healed` says how long it took.
constexpr auto heal_limit = 2 * expiry + 3 * heartbeat;

/// Whether one of the locations is that process's.
bool names(const client::lookup_answer& told, const incarnation& inc) {
  const auto end = told.locations.begin() + told.count;
  return told.status == page_status::hit &&
         std::any_of(told.locations.begin(), end, [&](const auto& l) { return l.owner == inc; });
}

} // namespace

outcome cluster::run() {
  auto start = world_.now();
  auto end = start + script_.run;
  for (const auto& next : script_.steps) {
    auto when = std::min(start + next.when, end);
    while (world_.events() < script_.events_max && world_.step(when))
      ;
    apply(next);
  }
  while (world_.events() < script_.events_max && world_.step(end))
    ;
  heal();
  outcome_.trace = world_.trace();
  outcome_.events = world_.events();
  outcome_.faults = oracle_.faults();
  return outcome_;
}

void cluster::run_until(time_point end) {
  while (world_.step(end))
    ;
}

void cluster::apply(const step& what) {
  world_.note(std::hash<std::string>{}(what.verb));
  auto* at = what.arguments.empty() ? nullptr : find(what.arguments[0]);
  if (what.verb == "join" && at == nullptr) {
    std::vector<std::string> seeds(what.arguments.begin() + 1, what.arguments.end());
    add_host(what.arguments[0], seeds.empty() ? script_.seeds : seeds);
  } else if (what.verb == "mark") {
    for (auto& one : hosts_)
      if (one.running)
        one.marked = one.running->view().stamp();
  } else if (what.verb == "quiet") {
    clients_work_ = false;
  } else if (what.verb == "expect") {
    expect(what);
  } else if (at != nullptr) {
    apply_to_host(what, *at);
  } else {
    apply_to_network(what);
  }
}

void cluster::apply_to_network(const step& what) {
  auto number = what.arguments.empty() ? 0 : std::strtoull(what.arguments[0].c_str(), nullptr, 10);
  if (what.verb == "mend")
    world_.mend();
  else if (what.verb == "loss")
    world_.loss_percent = number;
  else if (what.verb == "repeat")
    world_.repeat_percent = number;
}

void cluster::apply_to_host(const step& what, host& at) {
  const auto& arguments = what.arguments;
  auto is = [&what](const char* verb) { return what.verb == verb; };
  if (is("kill"))
    return kill(at, arguments.size() > 1 && arguments[1] == "wiped");
  if (is("restart")) {
    kill(at, arguments.size() > 1 && arguments[1] == "wiped");
    return start(at);
  }
  if (is("freeze") || is("thaw"))
    return freeze(at, is("freeze"));
  if (is("split")) {
    auto inside = [&](const host& h) {
      return std::find(arguments.begin(), arguments.end(), h.name) != arguments.end();
    };
    for (const auto& a : hosts_)
      for (const auto& b : hosts_)
        if (inside(a) != inside(b))
          world_.cut(a.index, b.index);
    return;
  }
  if (is("cut")) {
    if (auto* to = find(arguments[1]))
      world_.cut(at.index, to->index);
    return;
  }
  for (const auto& other : hosts_) {
    if (is("deaf"))
      world_.cut(other.index, at.index);
    if (is("mute"))
      world_.cut(at.index, other.index);
  }
  if (is("slow"))
    world_.slowness[at.index] = parse_duration(arguments[1]).value_or(duration{});
  if (is("jump"))
    at.jumped += parse_duration(arguments[1]).value_or(duration{});
  if (!at.running || at.frozen)
    return;
  if (is("drain") || is("undrain"))
    at.running->set_draining(is("drain"));
  if (is("leave")) {
    at.running->leave();
    // It still votes while it finishes its reads.
    world_.at(world_.now() + 500ms, [this, index = at.index, inc = at.self.inc] {
      if (hosts_[index].self.inc == inc)
        kill(hosts_[index], false);
    });
  }
}

/// `expect WHAT NODE…`
void cluster::expect(const step& what) {
  for (std::size_t i = 1; i < what.arguments.size(); ++i) {
    auto* at = find(what.arguments[i]);
    if (at == nullptr)
      oracle_.fault("expect names nobody: " + what.arguments[i]);
    else
      expect_of({what.when, what.arguments[0], {what.arguments[i]}}, *at);
  }
}

void cluster::expect_of(const step& what, host& at) {
  auto wrong = [this, place = to_text(what.when) + " expected " + what.verb + " " + at.name +
                              ": "](const std::string& why) { oracle_.fault(place + why); };
  static const std::set<std::string> known = {"gone",  "unchanged", "changed", "frozen",
                                              "leads", "joined",    "serves",  "found"};
  if (known.count(what.verb) == 0)
    return wrong("nobody knows what that is");
  if (what.verb == "gone")
    return expect_gone(at, wrong);
  if (!at.running)
    return wrong("it does not run");
  const auto& machine = at.running->machine();
  const auto& view = at.running->view();
  if (what.verb == "unchanged" && view.stamp() != at.marked)
    wrong("its view changed");
  else if (what.verb == "changed" && view.stamp() <= at.marked)
    wrong("its view stands still");
  else if (what.verb == "frozen" && !machine.frozen(local_now(at)))
    wrong("a majority answers");
  else if (what.verb == "leads" && !machine.leads())
    wrong("it does not lead");
  else if (what.verb == "joined" && machine.state() != phase::joined)
    wrong("it is in no view");
  else if (what.verb == "serves")
    expect_served(at, wrong);
  else if (what.verb == "found")
    expect_found(at, wrong);
}

/// Nobody finds a page of the process that ran there.
void cluster::expect_gone(const host& who, const wrong_call& wrong) {
  for (auto& other : hosts_)
    for (const auto& key : keys_)
      if (other.running && !other.frozen && other.index != who.index)
        other.running->exists({key}, [wrong, inc = who.self.inc](const auto& told) {
          if (names(told[0], inc))
            wrong("exists still finds it");
        });
}

/// Every client is told of each page of its pool.
void cluster::expect_found(const host& of, const wrong_call& wrong) {
  of.running->pool().for_each_page([&](const storage::resident_page& page) {
    for (auto& reader : hosts_)
      if (reader.running && !reader.frozen)
        reader.running->exists({page.key}, [wrong, inc = of.self.inc](const auto& told) {
          if (!names(told[0], inc))
            wrong("a page was not found");
        });
  });
}

/// Its clients get pages of its own pool.
void cluster::expect_served(host& by, const wrong_call& wrong) {
  auto hits = std::make_shared<std::size_t>(0);
  by.running->pool().for_each_page([&](const storage::resident_page& page) {
    by.running->get(page.key, [hits](bool hit) { *hits += hit ? 1 : 0; });
  });
  world_.at(world_.now() + 1100ms, [hits, wrong] {
    if (*hits == 0)
      wrong("nothing could be read");
  });
}

/// Everything works again; what is down comes back, but for those who left.
void cluster::heal() {
  clients_work_ = false;
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
  auto since = world_.now();
  while (!converged() && world_.now() < since + 30s)
    run_until(world_.now() + 10ms);
  outcome_.healed = world_.now() - since;
  if (!converged())
    return oracle_.fault("no one view after 30 s");
  if (outcome_.healed > heal_limit)
    oracle_.fault("one view only after " + to_text(outcome_.healed));
  run_until(world_.now() + 8s);
  if (!converged())
    oracle_.fault("did not stay together");
  read_everything();
  run_until(world_.now() + 4s);
  check_directory();
}

bool cluster::converged() const {
  const discovery::view* first = nullptr;
  std::size_t running = 0;
  for (const auto& at : hosts_) {
    if (!at.running || at.running->machine().state() == phase::left)
      continue;
    ++running;
    const auto& view = at.running->view();
    if (at.running->machine().state() != phase::joined || !at.running->joined() ||
        (first != nullptr && view != *first))
      return false;
    first = &view;
  }
  return first != nullptr && first->members.size() == running;
}

/// Each page that stays in some pool can be had from everywhere. Records that are not true are told
/// to their owners on the way.
void cluster::read_everything() {
  for (int round = 0; round < 2; ++round) {
    for (const auto& key : keys_) {
      auto held = holding(key);
      auto& reader = hosts_[world_.below(hosts_.size())];
      if (reader.running)
        reader.running->get(key, [this, key, held, round, at = reader.index](bool hit) {
          if (!hit && round == 1 && held)
            read_again(key, *held, at, 1);
        });
      run_until(world_.now() + 5ms);
    }
    run_until(world_.now() + 3s);
  }
}

/// Each record that is not true may cost one miss, and a key has only so many records.
void cluster::read_again(const page_key& key, const std::pair<incarnation, generation>& held,
                         std::size_t reader, std::size_t misses) {
  auto again = [this, key, held, reader, misses](bool hit) {
    if (hit || holding(key) != held)
      return;
    if (misses >= limits::locations_per_key_max)
      oracle_.fault("a page that is in a pool was not found");
    else
      read_again(key, held, reader, misses + 1);
  };
  later(*hosts_[reader].running, 500ms, [key, again](process& asking) { asking.get(key, again); });
}

/// Some process that has the key in memory, and which filling; of pages that the directory took.
std::optional<std::pair<incarnation, generation>> cluster::holding(const page_key& key) const {
  for (const auto& at : hosts_)
    if (at.running && !at.running->was_refused(key))
      if (auto page = at.running->pool().find(key))
        return std::pair(at.running->inc(), page->gen);
  return std::nullopt;
}

void cluster::check_directory() {
  for (auto& at : hosts_) {
    if (!at.running)
      continue;
    if (!at.running->settled())
      oracle_.fault(at.name + " has not published everything");
    if (at.running->pins() > 0)
      oracle_.fault(at.name + " has pins that nobody takes away");
    if (at.running->pool().stats().filling > 0)
      oracle_.fault(at.name + " has slots that nobody fills");
    check_pool(*at.running);
    check_shard(*at.running);
  }
}

/// Each owner of a page knows it, unless it knew as many others as it may.
void cluster::check_pool(const process& producer) {
  producer.pool().for_each_page([&](const storage::resident_page& page) {
    std::array<node_id, discovery::hash_ring::replicas_max> owners;
    auto count = producer.ring().owners(page.key, std::span(owners).first(script_.replicas));
    for (std::size_t i = 0; i < count; ++i) {
      const auto& owner = *hosts_[host_of_.at(producer.ring().incarnation_of(owners[i]))].running;
      std::array<directory::page_location, limits::locations_per_key_max> told;
      auto known = owner.shard().lookup(page.key, told);
      bool there = std::any_of(told.begin(), told.begin() + known, [&](const auto& location) {
        return location.owner == producer.inc() && location.gen == page.gen;
      });
      if (!there && !producer.was_refused(page.key))
        oracle_.fault(owner.on().name + " does not know a page of " + producer.on().name);
    }
  });
}

/// A shard knows only what is there, of those who live, and only keys that it owns.
void cluster::check_shard(const process& owner) {
  std::size_t found = 0;
  for (const auto& key : keys_) {
    std::array<directory::page_location, limits::locations_per_key_max> told;
    auto known = owner.shard().lookup(key, told);
    if (owner.ring().owns(owner.on().self.id, key, script_.replicas))
      found += known;
    for (std::size_t i = 0; i < known; ++i) {
      auto at = host_of_.find(told[i].owner);
      const auto* producer = at != host_of_.end() ? hosts_[at->second].running.get() : nullptr;
      if (producer == nullptr || producer->inc() != told[i].owner) {
        oracle_.fault(owner.on().name + " remembers a page of a process that is gone");
        continue;
      }
      auto page = producer->pool().find(key);
      bool in_memory = page && page->gen == told[i].gen;
      bool on_disk = told[i].where == directory::tier::disk && producer->on().disk.count(key) > 0;
      if (!in_memory && !on_disk)
        // Its withdrawal was lost: its generation keeps readers safe, a reader that meets it
        // repairs it.
        if (!in_memory && !on_disk)
          ++outcome_.stale_records;
    }
  }
  if (found != owner.shard().locations())
    oracle_.fault(owner.on().name + " keeps keys that it does not own");
}

} // namespace peercache::scenario
