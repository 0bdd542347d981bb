// Applies the steps of a script to the cluster.

#include "tests/scenario/cluster.hpp"

#include <algorithm>
#include <set>

namespace peercache::scenario {

using namespace std::chrono_literals;
using phase = discovery::membership::phase;

namespace {

/// Whether one of the locations that the directory told is at the process `inc`.
bool names(const client::lookup_answer& told, const incarnation& inc) {
  const auto end = told.locations.begin() + told.count;
  return told.status == page_status::hit &&
         std::any_of(told.locations.begin(), end, [&](const auto& l) { return l.holder == inc; });
}

wanted_page of(const storage::resident_page& page) {
  return {page.key, page.length_bytes};
}

} // namespace

outcome cluster::run() {
  auto start = world_.now();
  auto end = start + script_.run;
  for (const auto& next : script_.steps) {
    if (!run_within_limit(std::min(start + next.when, end)))
      // The limit of events is reached, and simulated time stands still: the remaining steps would
      // all happen at one moment.
      break;
    apply(next);
  }
  auto is_expectation = [](const step& what) { return what.verb == "expect"; };
  if (!run_within_limit(end) &&
      std::any_of(script_.steps.begin(), script_.steps.end(), is_expectation))
    oracle_.fault("its events are used up before its end: nobody knows what was expected");
  heal();
  lose_some();
  outcome_.trace = world_.trace();
  outcome_.events = world_.events();
  outcome_.faults = oracle_.faults();
  return outcome_;
}

void cluster::advance(duration by) {
  const auto end = world_.now() + by;
  for (; next_step_ < script_.steps.size(); ++next_step_) {
    const auto& next = script_.steps[next_step_];
    if (begin_ + next.when > end)
      break;
    run_until(begin_ + next.when);
    apply(next);
  }
  run_until(end);
}

std::vector<std::size_t> cluster::whole_side_of(const host& one) const {
  const auto hears = [this](std::size_t a, std::size_t b) {
    return world_.open(a, b) || world_.open(b, a);
  };
  std::vector<std::size_t> side{one.index};
  for (std::size_t i = 0; i < side.size(); ++i)
    for (const auto& other : hosts_)
      if (other.running && hears(side[i], other.index) &&
          std::find(side.begin(), side.end(), other.index) == side.end())
        side.push_back(other.index);
  const bool fault_free =
      world_.loss_percent == 0 && std::all_of(side.begin(), side.end(), [&](auto a) {
        return !hosts_[a].frozen && world_.slowness[a] == duration{} &&
               std::all_of(side.begin(), side.end(), [&](auto b) { return world_.open(a, b); });
      });
  return fault_free && converged(side) ? side : std::vector<std::size_t>{};
}

bool cluster::run_within_limit(time_point end) {
  while (world_.events() < script_.events_max)
    if (!world_.step(end))
      return true;
  return false;
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

void cluster::split(const std::vector<std::string>& names) {
  auto inside = [&](const host& h) {
    return std::find(names.begin(), names.end(), h.name) != names.end();
  };
  for (const auto& a : hosts_)
    for (const auto& b : hosts_)
      if (inside(a) != inside(b))
        world_.cut(a.index, b.index);
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
  if (is("split"))
    return split(arguments);
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
    at.running->set_drained(is("drain"));
  if (is("leave"))
    at.running->leave();
}

/// Carries out the step `expect WHAT NODE…` of a script.
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
                                              "leads", "joined",    "serves",  "found",
                                              "whole", "fragment"};
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
  else if (what.verb == "fragment" && !view.fragment())
    wrong("its view is none");
  else if (what.verb == "whole" && view.fragment())
    wrong("its view is a fragment");
  else if (what.verb == "leads" && !machine.leads())
    wrong("it does not lead");
  else if (what.verb == "joined" && machine.state() != phase::joined)
    wrong("it is in no view");
  else if (what.verb == "serves")
    expect_served(at, wrong);
  else if (what.verb == "found")
    expect_found(at, wrong);
}

/// Looks every key up on all other nodes: no answer may name the process that ran on this host.
void cluster::expect_gone(const host& who, const wrong_call& wrong) {
  for (auto& other : hosts_) {
    if (!other.running || other.frozen || other.index == who.index)
      continue;
    auto told_of = std::make_shared<std::size_t>(0);
    for (const auto& key : keys_)
      other.running->exists({key}, [wrong, told_of, inc = who.self.inc](const auto& told) {
        const auto said = told[0].status;
        *told_of += said == page_status::hit || said == page_status::not_found ? 1 : 0;
        if (names(told[0], inc))
          wrong("exists still finds it");
      });
    world_.at(world_.now() + 1100ms, [wrong, told_of, keys = keys_.size()] {
      if (*told_of < keys / 2)
        wrong("somebody was told of " + std::to_string(*told_of) + " keys only");
    });
  }
}

/// Asks the clients of every host that runs and is not frozen for each page of this host's pool:
/// the answer must name this host. Mirrors are left out, because they make room for other pages.
void cluster::expect_found(const host& of, const wrong_call& wrong) {
  std::size_t pages = 0;
  of.running->pool().for_each_page([&](const storage::resident_page& page) {
    if (of.running->mirrors(page.key))
      return;
    ++pages;
    for (auto& reader : hosts_)
      if (reader.running && !reader.frozen)
        reader.running->exists({page.key}, [wrong, inc = of.self.inc](const auto& told) {
          if (!names(told[0], inc))
            wrong("a page was not found");
        });
  });
  if (pages == 0)
    wrong("it has no page that could be found");
}

/// Has the clients of the host `by` get every page of every other host that is connected with `by`
/// in both directions.
std::shared_ptr<cluster::reads> cluster::read_from_others(host& by) {
  auto these = std::make_shared<reads>();
  for (const auto& other : hosts_) {
    const bool near = other.running && !other.frozen && other.index != by.index &&
                      world_.open(by.index, other.index) && world_.open(other.index, by.index);
    if (near)
      other.running->pool().for_each_page([&](const storage::resident_page& page) {
        ++these->asked;
        by.running->get(
            of(page), [these](page_status got) { these->hits += got == page_status::hit ? 1 : 0; });
      });
  }
  return these;
}

/// Expects that the host's clients can put pages into the host's own pool and get these pages, can
/// get pages that were there before, and can get pages of connected hosts.
void cluster::expect_served(host& by, const wrong_call& wrong) {
  constexpr std::size_t writes = 8;
  std::vector<page_key> fresh;
  for (const auto& key : keys_)
    if (fresh.size() < writes && !by.running->pool().find(key))
      fresh.push_back(key);
  auto written = std::make_shared<std::size_t>(0);
  auto read = std::make_shared<std::size_t>(0);
  auto get = [read](process& at, const storage::resident_page& page) {
    at.get(of(page), [read](page_status got) { *read += got == page_status::hit ? 1 : 0; });
  };
  by.running->pool().for_each_page(
      [&](const storage::resident_page& page) { get(*by.running, page); });
  for (const auto& key : fresh)
    by.running->put(key, true);
  // Only some of the written pages must still be found, because other clients of the host evict and
  // remove pages at the same time.
  later(*by.running, 20ms, [fresh, written, get](process& at) {
    for (const auto& key : fresh)
      if (const auto page = at.pool().find(key)) {
        ++*written;
        get(at, *page);
      }
  });
  auto elsewhere = read_from_others(by);
  world_.at(world_.now() + 1100ms, [=] {
    if (*written == 0)
      wrong("nothing could be written");
    if (*read == 0)
      wrong("nothing could be read");
    if (elsewhere->asked > 0 && elsewhere->hits == 0)
      wrong("nothing of another host could be read");
  });
}

} // namespace peercache::scenario
