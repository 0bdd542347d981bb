// Makes a random script from a seed: the cluster and its faults.

#include "tests/scenario/script.hpp"

#include <algorithm>
#include <array>
#include <random>

namespace peercache::scenario {
namespace {

using std::chrono::milliseconds;

class script_maker {
public:
  explicit script_maker(std::uint64_t seed) : random_(seed * 0x9e3779b97f4a7c15ull + 1) {
    made_.seed = seed;
    // With this limit nine in ten random clusters reach the end of their faults.
    made_.events_max = 30'000;
  }

  script make() {
    auto size = below(100);
    made_.nodes = static_cast<std::uint32_t>(size < 85   ? 3 + below(7)
                                             : size < 98 ? 10 + below(11)
                                                         : 21 + below(30));
    if (below(2) == 0)
      made_.seeds.push_back("node2");
    made_.masters = below(10) == 0 ? 5 : 3;
    made_.replicas = below(5) == 0 ? 1 : 2;
    made_.disk = below(3) == 0;
    auto faults = 3 + below(30);
    for (std::uint64_t i = 0; i < faults; ++i)
      add_fault(milliseconds(below(static_cast<std::uint64_t>(made_.run / milliseconds(1)))));
    if (below(2) == 0)
      add_loss();
    add_bounds();
    std::stable_sort(made_.steps.begin(), made_.steps.end(),
                     [](const step& a, const step& b) { return a.when < b.when; });
    return made_;
  }

private:
  std::uint64_t below(std::uint64_t limit) { return random_() % limit; }
  std::string any_node() { return "node" + std::to_string(1 + below(made_.nodes)); }

  void add(duration when, std::string verb, std::vector<std::string> arguments = {}) {
    made_.steps.push_back({when, std::move(verb), std::move(arguments)});
  }

  void add_split(duration when) {
    std::vector<std::string> side;
    for (std::uint32_t i = 1; i <= made_.nodes; ++i)
      if (below(2) == 0)
        side.push_back("node" + std::to_string(i));
    if (!side.empty())
      add(when, "split", std::move(side));
  }

  /// Gives some clusters a low rate of republishing, room for few waiting records, or small disks.
  void add_bounds() {
    if (below(4) == 0)
      made_.republish = static_cast<std::uint32_t>(8 + below(120));
    if (below(6) == 0)
      made_.waiting_max = static_cast<std::uint32_t>(8 + below(24));
    if (below(2) == 0)
      made_.disk_pages = static_cast<std::uint32_t>(4 + below(30));
  }

  /// Chooses the nodes that are lost at the end, each with the same random probability; at least
  /// one goes and one stays.
  void add_loss() {
    const auto percent = 10 + below(85);
    const bool two_sides = below(3) == 0;
    for (std::uint32_t i = 1; i <= made_.nodes; ++i) {
      const auto name = "node" + std::to_string(i);
      if (below(100) < percent && made_.lost.size() + 1 < made_.nodes)
        made_.lost.push_back(name);
      else if (two_sides && below(2) == 0)
        made_.apart.push_back(name);
    }
    if (made_.lost.empty())
      made_.lost.push_back(any_node());
  }

  /// Kills a random share of the nodes at once. Most restart only after the other nodes have given
  /// them up.
  void add_kills(duration when) {
    const auto later = when + milliseconds(2000 + below(12000));
    const auto percent = 20 + below(70);
    for (std::uint32_t i = 1; i <= made_.nodes; ++i)
      if (below(100) < percent) {
        const auto name = "node" + std::to_string(i);
        add(when, "kill", {name});
        add(later + milliseconds(below(1000)), "restart", {name});
      }
  }

  void add_fault(duration when) {
    auto later = when + milliseconds(100 + below(6000));
    auto who = any_node();
    switch (below(13)) {
    case 0:
    case 1:
    case 2:
      add(when, "kill", {who});
      add(later, "restart",
          below(3) == 0 ? std::vector<std::string>{who, "wiped"} : std::vector<std::string>{who});
      break;
    case 3:
      add(when, "freeze", {who});
      add(later, "thaw", {who});
      break;
    case 4:
    case 5:
      add_split(when);
      add(below(3) == 0 ? later + milliseconds(below(9000)) : later, "mend");
      break;
    case 6:
      add(when, "cut", {who, any_node()});
      add(later, "mend");
      break;
    case 7:
      add(when, below(2) == 0 ? "deaf" : "mute", {who});
      add(later, "mend");
      break;
    case 8:
      add(when, "slow", {who, std::to_string(20 + below(400)) + "ms"});
      add(later, "slow", {who, "0ms"});
      break;
    case 9:
      add(when, "loss", {std::to_string(below(30))});
      add(when, "repeat", {std::to_string(below(20))});
      break;
    case 10:
      add(when, "jump", {who, std::to_string(below(4000)) + "ms"});
      break;
    case 11:
      add_kills(when);
      break;
    default:
      add_change_of_size(when, later, who);
    }
  }

  void add_change_of_size(duration when, duration later, const std::string& who) {
    switch (below(3)) {
    case 0:
      add(when, "join", {"extra" + std::to_string(++extras_)});
      break;
    case 1:
      add(when, "leave", {who});
      add(later, "restart", {who});
      break;
    default:
      add(when, "drain", {who});
      add(later, "undrain", {who});
    }
  }

  std::mt19937_64 random_;
  script made_;
  int extras_ = 0;
};

} // namespace

script random_script(std::uint64_t seed) {
  return script_maker(seed).make();
}

} // namespace peercache::scenario
