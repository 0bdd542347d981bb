#pragma once

#include "common/assert.hpp"
#include "tests/scenario/disk.hpp"
#include "tests/scenario/oracle.hpp"
#include "tests/scenario/process.hpp"
#include "tests/scenario/script.hpp"
#include "tests/scenario/world.hpp"
#include "tests/support/history.hpp"

#include <any>
#include <chrono>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <type_traits>
#include <typeinfo>
#include <utility>
#include <vector>

namespace peercache::scenario {

/// Heartbeat and expiry of every process.
constexpr auto heartbeat = std::chrono::milliseconds(500);
constexpr auto expiry = std::chrono::seconds(2);

/// What one run of the simulated cluster found and counted.
struct outcome {
  std::vector<std::string> faults; ///< Faults that were found; empty when the run went well.
  std::uint64_t trace = 0;
  std::uint64_t events = 0;
  std::uint64_t hits = 0;
  std::uint64_t misses = 0;
  std::uint64_t puts = 0;
  std::uint64_t handed_over = 0;    ///< Records that owners gave to a key's new owner.
  std::uint64_t sweep_pauses = 0;   ///< Times at which a shard's sweep let other events get in.
  std::uint64_t view_refreshes = 0; ///< Look-ups in which a shard told a client of a newer view.
  duration healed{}; ///< Longest time from the end of the faults until all nodes had one view.
  /// Longest time from the loss of some nodes until the other nodes had one view.
  duration rest_found{};
  /// Groups of nodes that the loss of other nodes left without a majority of masters.
  std::uint64_t fragments = 0;
};

/// A machine: holds the state that outlives the processes on it.
struct host {
  std::string name;
  std::size_t index = 0;
  discovery::member self; ///< The host's running process, or the last one that ran.
  discovery::membership_options options;
  std::unique_ptr<process> running; ///< The process on this host; null while it is dead.
  scenario::disk disk;
  bool frozen = false;
  time_point frozen_since;
  time_point thawed_at;
  std::vector<world::task> waiting; ///< Messages that reached the process while it was frozen.
  double drift = 1;                 ///< Speed of the host's clock.
  duration jumped{};            ///< Time by which the host's clock is ahead of the simulated time.
  discovery::view_stamp marked; ///< Stamp of the process's view at the script's last step `mark`.
};

/// A cluster in one thread: real membership, ring, shards, pools and slot tables on hosts that
/// crash, freeze and cannot hear each other, as a script says.
class cluster {
public:
  /// @param record gets all that happens; may be null, else outlives the cluster
  explicit cluster(const script& what, tests::history* record = nullptr);
  /// Runs the script's faults, then heals the cluster; judges the bytes and views of both phases.
  outcome run();

  // Methods for a caller that sets the pace itself, instead of `run` (paced_cluster.cpp).
  /// Runs for this long, with the steps of the script that come due.
  void advance(duration by);
  /// Ends the script, all faults and the clients' random calls; hosts that are down come back.
  void calm();
  const std::deque<host>& hosts() const noexcept { return hosts_; }
  /// The hosts that this running host can reach, itself among them, by any way; nothing unless all
  /// of them reach each other over a network without faults and have one view.
  std::vector<std::size_t> whole_side_of(const host& one) const;
  /// Called when a client's page can be read: with the host, the key, and whether the page is a
  /// mirror, as a client makes it of a page that it has read.
  std::function<void(const host&, const page_key&, bool)> on_set = [](const auto&, const auto&,
                                                                      bool) {};

  // Methods that processes call.
  world& time() noexcept { return world_; }
  oracle& judge() noexcept { return oracle_; }
  tests::history* record() const noexcept { return record_; }
  const script& settings() const noexcept { return script_; }
  const page_key& key(std::size_t i) const { return keys_[i]; }
  outcome& counts() noexcept { return outcome_; }
  time_point local_now(const host& at) const;
  /// Returns the ring of a view; processes in the same view share it.
  ring_ptr ring_of(const discovery::view& what);
  /// Call when a process has left the cluster: it still votes for as long as its vote may be
  /// needed; then it ends.
  void has_left(const process& who);
  /// Carries a membership packet to the process at its address.
  void send(const process& from, const discovery::send_packet& order);
  /// Asks the process with this incarnation, as an actor makes a request: `serve` is called there
  /// with that process and the arguments. Calls `done` exactly once: with a pointer to the answer,
  /// or with null after the time-out; but not when the asking process has ended by then.
  template <class Done, class Serve, class... Arguments>
  void ask(const process& from, const incarnation& to, duration timeout, Done done, Serve serve,
           Arguments... arguments) {
    using answer = std::invoke_result_t<Serve&, process&, Arguments&...>;
    exchange(
        from, to, timeout,
        [done](const std::any& said) {
          PEERCACHE_ASSERT(!said.has_value() || said.type() == typeid(answer));
          done(std::any_cast<answer>(&said));
        },
        [serve, ... with = std::move(arguments)](process& it) -> std::any {
          return std::invoke(serve, it, with...);
        });
  }
  /// Calls `serve` in the process `to` with the arguments, as an actor sends a message without an
  /// answer; the call may be lost.
  template <class Serve, class... Arguments>
  void tell(const process& from, const incarnation& to, duration timeout, Serve serve,
            Arguments... arguments) {
    ask(
        from, to, timeout, [](const auto*) {}, serve, std::move(arguments)...);
  }
  /// Lets `from` look, one-sided, at the process that runs on the host of the process `to`, which
  /// may be a later process than `to`. The process that is looked at does not take part, and may be
  /// frozen. `done` gets null when no process runs there. When there is no way to that host and
  /// back, or the message is lost, `done` is not called.
  void reach(const process& from, const incarnation& to, std::function<void(process*)> done);
  /// Whether a connection from `from` to the process `to` stands. A connection that was cut may
  /// still count as standing for a while.
  bool is_linked(const process& from, const incarnation& to);
  /// Runs `what` in the process `in` after this time and as soon as the process can, unless it has
  /// ended by then.
  void later(const process& in, duration after, std::function<void(process&)> what);

private:
  void exchange(const process& from, const incarnation& to, duration timeout,
                std::function<void(const std::any&)> done, std::function<std::any(process&)> serve);
  void add_host(const std::string& name, std::vector<std::string> seeds);
  void start(host& on);
  void kill(host& on, bool wiped);
  void freeze(host& on, bool frozen);
  /// Records how long a frozen host has stood still.
  void record_stall(const host& of);
  /// Ends the process of this host when its vote is no longer needed, at `limit` at the latest.
  void end_when_not_needed(std::size_t index, const incarnation& inc, time_point limit);
  void deliver(std::size_t to, const incarnation& expected, std::function<void(process&)> what);
  void beat(std::size_t index, const incarnation& inc);
  void schedule_operation(std::size_t index, const incarnation& inc);
  host* find(const std::string& name);

  void apply(const step& what);
  void apply_to_network(const step& what);
  void apply_to_host(const step& what, host& at);
  /// Whether the host is a seed and no other seed stays. If this host left, too, a host that was
  /// never a member would find nobody to join.
  bool is_last_seed(const host& at) const;
  /// Cuts the network between the hosts of these names and the others.
  void split(const std::vector<std::string>& names);
  void expect(const step& what);
  void expect_of(const step& what, host& at);
  using wrong_call = std::function<void(const std::string&)>;
  void expect_gone(const host& who, const wrong_call& wrong);
  void expect_found(const host& of, const wrong_call& wrong);
  void expect_served(host& by, const wrong_call& wrong);
  struct reads {
    std::size_t asked = 0;
    std::size_t hits = 0;
  };
  std::shared_ptr<reads> read_from_others(host& by);

  void heal();
  void end_faults();
  void repair(duration least);
  void expect_one_view(duration for_leavers = duration::zero());
  bool leaver_is_member();
  void expect_one_view(const std::vector<std::size_t>& side, duration limit);
  bool converged(const std::vector<std::size_t>& side) const;
  const discovery::view* newest_view() const;
  std::vector<std::size_t> all_hosts() const;

  // Methods for the loss of several nodes at once (cluster_loss.cpp).
  void lose_some();
  struct side {
    std::vector<std::size_t> hosts;
    bool has_majority = false;           ///< The side has a majority of the masters.
    std::optional<duration> found_after; ///< Time until the side had one view.
  };
  std::vector<side> sides_left(const discovery::view& before) const;
  void wait_for_rest(std::vector<side>& sides, time_point since);
  void judge_rest(const side& one, duration took);
  /// Clears `has_majority` of a side that must finish a proposal from before the loss and has no
  /// majority of that proposal's masters.
  void follow_proposal(side& one, const discovery::view_stamp& before,
                       const std::set<discovery::view_stamp>& proposed) const;
  void run_until(time_point end);
  /// @return whether the run reached `end` before it reached the script's limit of events
  bool run_within_limit(time_point end);
  void check_directory();
  void check_shard(const process& owner);
  void check_found(const page_key& key);
  void check_location(const process& owner, const page_key& key,
                      const directory::page_location& told);
  void read_everything();
  void expect_hit(process& reader, const page_key& key, bool last);
  struct holding {
    incarnation by;
    generation gen;
    std::uint32_t length_bytes = 0;
    bool operator==(const holding&) const = default;
  };
  std::optional<holding> holding_of(const page_key& key) const;

  const script script_;
  tests::history* const record_;
  world world_;
  const time_point begin_ = world_.now();
  oracle oracle_;
  std::vector<page_key> keys_;
  std::deque<host> hosts_;
  std::map<incarnation, std::size_t> host_of_;
  std::map<std::string, ring_ptr> rings_; ///< For each view, encoded: its ring.
  discovery::hash_ring newest_ring_;
  std::map<discovery::endpoint, std::size_t> host_at_;
  bool clients_work_ = true;
  std::size_t next_step_ = 0; ///< The script's first step that `advance` has not applied.
  bool healing_ = false;      ///< Whether the script's faults are over and the cluster heals.
  outcome outcome_;
};

} // namespace peercache::scenario
