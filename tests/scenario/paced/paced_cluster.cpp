// Runs a random cluster of the simulator at the pace of the program that started it, which plays
// the engines of its hosts: paced_cluster SEED.
//
// Commands are lines on standard input:
//   ask HOST KEY...     the engine of this host asks the directory where these keys are
//   set HOST KEY...     a client of this host sets pages of these keys
//   remove HOST KEY...  a client of this host removes these keys
//   calm                the faults end, and the clients' random calls
//   run MS              this much simulated time passes
// Each `run` is answered by a line of JSON, which class Cluster of
// tests/python/test_kv_event_seeds.py describes. Exit status: 0 at the end of input, 1 when the
// simulator's oracle has found a fault, 2 for a line that is not a command.

#include "tests/scenario/cluster.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <iterator>
#include <map>
#include <set>
#include <span>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

namespace peercache::scenario {
namespace {

/// Longest wait for an answer to `ask`, as of an engine's events (ASK_SECONDS).
constexpr auto ask_limit = std::chrono::seconds(1);

bool is_certain(const client::lookup_answer& told) {
  return told.status == page_status::hit || told.status == page_status::not_found;
}

/// The tiers of a key as bits, as the Python package's `tiers` returns them: bit 0 memory, bit 1
/// disk; bits 2 and 3 the same at the process `home`; bit 7: no owner of the key has answered.
int tiers_of(const client::lookup_answer& told, const incarnation& home) {
  if (!is_certain(told))
    return 0x80;
  int tiers = 0;
  for (std::size_t i = 0; i < told.count; ++i) {
    const int tier = told.locations[i].where == directory::tier::memory ? 1 : 2;
    tiers |= tier | (told.locations[i].holder == home ? tier << 2 : 0);
  }
  return tiers;
}

class paced_cluster {
public:
  explicit paced_cluster(std::uint64_t seed);
  void ask(const std::string& host_name, const std::vector<std::size_t>& keys);
  /// Calls `call` with the process of this host and each key; nothing when it does not run.
  template <class Call>
  void each(const std::string& host_name, const std::vector<std::size_t>& keys, Call call) {
    if (auto* by = running(host_name))
      for (const auto key : keys)
        call(*by, cluster_.key(key));
  }
  void calm() { cluster_.calm(); }
  /// Returns the faults that the simulator's oracle has found: wrong bytes and impossible views.
  const std::vector<std::string>& faults() { return cluster_.judge().faults(); }
  /// Returns what has happened meanwhile, as JSON.
  std::string run(duration time);

private:
  /// A question of an engine that was not answered yet.
  struct question {
    std::uint64_t number = 0;
    time_point until;
  };
  /// What a client finds: for each key the hosts that have it, in JSON; "?" where no owner of the
  /// key has answered.
  using finding = std::string;
  finding found(std::span<const client::lookup_answer> told) const;

  /// Returns the process on the host of this name; null when none runs there that could be called.
  process* running(const std::string& host_name) const;
  /// Returns the name of the host whose last process this is, else the process.
  std::string host_of(const incarnation& inc) const;
  /// Whether all shards that know a page know the same holders of it: its owners and former owners.
  bool shards_agree(const page_key& key) const;
  void ask_exists(const host& at);
  void answered(const std::string& host_name, std::uint64_t number, const incarnation& home,
                std::span<const client::lookup_answer> told);
  void give_up_late();
  std::string described(const host& at) const;

  cluster cluster_;
  std::map<page_key, std::size_t> number_of_;
  std::uint64_t questions_ = 0;
  std::map<std::string, question> open_;       ///< By host.
  std::map<std::string, std::string> answers_; ///< JSON, by host.
  std::map<std::string, finding> exists_;      ///< By host.
  std::vector<std::string> sets_, mirrors_;    ///< JSON.
  std::uint64_t runs_ = 0;                     ///< Calls of `run`.
};

paced_cluster::paced_cluster(std::uint64_t seed) : cluster_(random_script(seed)) {
  for (std::size_t i = 0; i < cluster_.settings().keys; ++i)
    number_of_[cluster_.key(i)] = i;
  cluster_.on_set = [this](const host& at, const page_key& key, bool mirror) {
    auto& made = mirror ? mirrors_ : sets_;
    made.push_back(fmt::format(R"(["{}",{}])", at.name, number_of_.at(key)));
  };
}

std::string paced_cluster::host_of(const incarnation& inc) const {
  const auto& hosts = cluster_.hosts();
  const auto at = std::find_if(hosts.begin(), hosts.end(),
                               [&](const host& one) { return one.self.inc == inc; });
  return at != hosts.end() ? at->name : to_string(inc);
}

process* paced_cluster::running(const std::string& host_name) const {
  const auto& hosts = cluster_.hosts();
  const auto at = std::find_if(hosts.begin(), hosts.end(),
                               [&](const host& one) { return one.name == host_name; });
  return at != hosts.end() && !at->frozen ? at->running.get() : nullptr;
}

void paced_cluster::ask(const std::string& host_name, const std::vector<std::size_t>& keys) {
  const auto number = ++questions_;
  open_[host_name] = {number, cluster_.time().now() + ask_limit};
  auto* by = running(host_name);
  if (by == nullptr)
    return;
  std::vector<page_key> wanted;
  for (const auto key : keys)
    wanted.push_back(cluster_.key(key));
  by->look_up(std::move(wanted), open_[host_name].until,
              [this, host_name, number, home = by->inc()](auto told) {
                answered(host_name, number, home, told);
              });
}

void paced_cluster::answered(const std::string& host_name, std::uint64_t number,
                             const incarnation& home, std::span<const client::lookup_answer> told) {
  const auto asked = open_.find(host_name);
  if (asked == open_.end() || asked->second.number != number)
    return;
  open_.erase(asked);
  std::vector<int> tiers;
  for (const auto& one : told)
    tiers.push_back(tiers_of(one, home));
  answers_[host_name] = fmt::format("[{}]", fmt::join(tiers, ","));
}

void paced_cluster::give_up_late() {
  for (auto asked = open_.begin(); asked != open_.end();) {
    if (cluster_.time().now() < asked->second.until) {
      ++asked;
      continue;
    }
    answers_[asked->first] = "null";
    asked = open_.erase(asked);
  }
}

paced_cluster::finding paced_cluster::found(std::span<const client::lookup_answer> told) const {
  std::vector<std::string> each;
  for (const auto& one : told) {
    std::set<std::string> holders;
    for (std::size_t i = 0; i < one.count; ++i)
      holders.insert(host_of(one.locations[i].holder));
    each.push_back(is_certain(one) ? fmt::format("\"{}\"", fmt::join(holders, " ")) : "\"?\"");
  }
  return fmt::format("[{}]", fmt::join(each, ","));
}

bool paced_cluster::shards_agree(const page_key& key) const {
  std::set<std::set<incarnation>> told;
  for (const auto& at : cluster_.hosts()) {
    std::array<directory::page_location, limits::locations_per_key_max> known;
    std::set<incarnation> holders;
    if (at.running)
      for (const auto& one : std::span(known).first(at.running->shard().lookup(key, known)))
        holders.insert(one.holder);
    if (!holders.empty())
      told.insert(holders);
  }
  return told.size() <= 1;
}

void paced_cluster::ask_exists(const host& at) {
  std::vector<page_key> all;
  for (std::size_t i = 0; i < cluster_.settings().keys; ++i)
    all.push_back(cluster_.key(i));
  at.running->exists(std::move(all), [this, name = at.name, asked_in = runs_](auto told) {
    if (asked_in == runs_)
      exists_[name] = found(told);
  });
}

std::string paced_cluster::described(const host& at) const {
  if (!at.running)
    return fmt::format(R"("{}":null)", at.name);
  std::vector<std::string> side;
  for (const auto index : cluster_.whole_side_of(at))
    side.push_back(cluster_.hosts()[index].name + " " +
                   to_string(cluster_.hosts()[index].self.inc));
  std::sort(side.begin(), side.end());
  const auto says = exists_.find(at.name);
  return fmt::format(R"("{}":{{"inc":"{}","side":"{}","exists":{}}})", at.name,
                     to_string(at.self.inc), fmt::join(side, ", "),
                     says == exists_.end() ? "null" : says->second);
}

std::string paced_cluster::run(duration time) {
  ++runs_;
  exists_.clear();
  for (const auto& at : cluster_.hosts())
    if (at.running && !at.frozen)
      ask_exists(at);
  cluster_.advance(time);
  give_up_late();
  std::vector<std::string> hosts;
  for (const auto& at : cluster_.hosts())
    hosts.push_back(described(at));
  std::vector<std::string> answers;
  for (const auto& [name, answer] : std::exchange(answers_, {}))
    answers.push_back(fmt::format(R"("{}":{})", name, answer));
  std::vector<std::size_t> disputed;
  for (const auto& [key, number] : number_of_)
    if (!shards_agree(key))
      disputed.push_back(number);
  return fmt::format(
      R"({{"hosts":{{{}}},"sets":[{}],"mirrors":[{}],"answers":{{{}}},"disputed":[{}]}})",
      fmt::join(hosts, ","), fmt::join(std::exchange(sets_, {}), ","),
      fmt::join(std::exchange(mirrors_, {}), ","), fmt::join(answers, ","),
      fmt::join(disputed, ","));
}

/// Carries out a command. False: it is none.
bool obey(paced_cluster& cluster, std::istringstream words) {
  std::string verb;
  words >> verb;
  if (verb == "calm") {
    cluster.calm();
    return true;
  }
  if (verb == "run") {
    std::int64_t ms = 0;
    if (!(words >> ms))
      return false;
    std::cout << cluster.run(std::chrono::milliseconds(ms)) << std::endl;
    return true;
  }
  std::string host_name;
  words >> host_name;
  const std::vector<std::size_t> keys{std::istream_iterator<std::size_t>(words), {}};
  if (verb == "ask")
    cluster.ask(host_name, keys);
  else if (verb == "set")
    cluster.each(host_name, keys, [](process& by, const auto& key) { by.put(key, true); });
  else if (verb == "remove")
    cluster.each(host_name, keys, [](process& by, const auto& key) { by.remove(key); });
  else
    return false;
  return true;
}

int serve(paced_cluster& cluster) {
  for (std::string line; std::getline(std::cin, line);)
    if (!obey(cluster, std::istringstream{line})) {
      std::cerr << "paced_cluster: not a command: " << line << '\n';
      return 2;
    }
  for (const auto& fault : cluster.faults())
    std::cerr << "paced_cluster: " << fault << '\n';
  return cluster.faults().empty() ? 0 : 1;
}

} // namespace
} // namespace peercache::scenario

int main(int count, char** words) {
  if (count != 2) {
    std::cerr << "paced_cluster SEED\n";
    return 2;
  }
  peercache::scenario::paced_cluster cluster{std::strtoull(words[1], nullptr, 10)};
  return peercache::scenario::serve(cluster);
}
