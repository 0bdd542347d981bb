#pragma once

#include "tests/scenario/disk.hpp"
#include "tests/scenario/oracle.hpp"
#include "tests/scenario/process.hpp"
#include "tests/scenario/script.hpp"
#include "tests/scenario/world.hpp"
#include "tests/support/history.hpp"

#include <chrono>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace peercache::scenario {

/// Of every process.
constexpr auto heartbeat = std::chrono::milliseconds(500);
constexpr auto expiry = std::chrono::seconds(2);

/// What came out of one run.
struct outcome {
  std::vector<std::string> faults; ///< Empty: it went well.
  std::uint64_t trace = 0;
  std::uint64_t events = 0;
  std::uint64_t hits = 0;
  std::uint64_t misses = 0;
  std::uint64_t puts = 0;
  std::uint64_t handed_over = 0;    ///< Records that were given to a key's new owner.
  std::uint64_t view_refreshes = 0; ///< A shard told a client of a newer view.
  duration healed{};                ///< From the end of the faults to one view.
  duration rest_found{};            ///< From the loss of some nodes to one view of the others.
  std::uint64_t fragments = 0;      ///< Sides that were left without a majority of masters.
};

/// A machine: what outlives the processes that run on it.
struct host {
  std::string name;
  std::size_t index = 0;
  discovery::member self; ///< Of the running process, or the last one.
  discovery::membership_options options;
  std::unique_ptr<process> running; ///< Null while it is dead.
  scenario::disk disk;
  bool frozen = false;
  time_point frozen_since;
  time_point thawed_at;
  std::vector<world::task> waiting; ///< What reached it while it was frozen.
  double drift = 1;                 ///< Its clock's speed.
  duration jumped{};                ///< By which its clock is ahead.
  discovery::view_stamp marked;     ///< Of its view at the last `mark`.
};

/// A cluster in one thread: real membership, ring, shards, pools and slot tables on hosts that
/// crash, freeze and cannot hear each other, as a script says.
class cluster {
public:
  /// @param record Gets all that happens; may be null, and outlives the cluster otherwise.
  explicit cluster(const script& what, tests::history* record = nullptr);
  /// Chaos, then healing; judges both.
  outcome run();

  // For processes.
  world& time() noexcept { return world_; }
  oracle& judge() noexcept { return oracle_; }
  tests::history* record() const noexcept { return record_; }
  const script& settings() const noexcept { return script_; }
  const page_key& key(std::size_t i) const { return keys_[i]; }
  outcome& counts() noexcept { return outcome_; }
  time_point local_now(const host& at) const;
  /// Of the view; processes that live in the same one share it.
  ring_ptr ring_of(const discovery::view& what);
  /// It still votes for as long as it may be needed; then its process ends.
  void has_left(const process& who);
  /// Carries a membership packet to whoever listens there.
  void send(const process& from, const discovery::send_packet& order);
  using answer = std::optional<std::string>;
  /// Asks the process with this incarnation; exactly one call of `done`: an answer, or nothing
  /// after the time-out. Both are lost with the asking process.
  void ask(const process& from, const incarnation& to, std::function<std::string(process&)> what,
           duration timeout, std::function<void(const answer&)> done);
  /// One-sided: the process does not take part, and may be frozen. Null when there is none, or no
  /// way to it; the answer may be lost as well, then `done` is not called.
  void reach(const process& from, const incarnation& to, std::function<void(process*)> done);
  /// Whether a connection to that process stands: one that is cut may not have noticed.
  bool is_linked(const process& from, const incarnation& to);
  /// Runs `what` in that process as soon as it can, unless it is gone by then.
  void later(const process& in, duration after, std::function<void(process&)> what);

private:
  void add_host(const std::string& name, std::vector<std::string> seeds);
  void start(host& on);
  void kill(host& on, bool wiped);
  void freeze(host& on, bool frozen);
  /// What it has stood still, if it does.
  void record_stall(const host& of);
  /// Looks again and again, up to `limit`.
  void end_when_not_needed(std::size_t index, const incarnation& inc, time_point limit);
  void deliver(std::size_t to, const incarnation& expected, std::function<void(process&)> what);
  void beat(std::size_t index, const incarnation& inc);
  void schedule_operation(std::size_t index, const incarnation& inc);
  host* find(const std::string& name);

  void apply(const step& what);
  void apply_to_network(const step& what);
  void apply_to_host(const step& what, host& at);
  /// It is a seed, and no other one stays: who never was a member finds nobody.
  bool is_last_seed(const host& at) const;
  /// Nothing passes between those of these names and the others.
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
  void expect_one_view();
  void expect_one_view(const std::vector<std::size_t>& side, duration limit);
  bool converged(const std::vector<std::size_t>& side) const;
  const discovery::view* newest_view() const;
  std::vector<std::size_t> all_hosts() const;

  // Some go at once (cluster_loss.cpp).
  void lose_some();
  struct side {
    std::vector<std::size_t> hosts;
    bool has_majority = false;           ///< Of the masters.
    std::optional<duration> found_after; ///< One view.
  };
  std::vector<side> sides_left(const discovery::view& before) const;
  void expect_rest(std::vector<side>& sides, time_point since);
  void judge_rest(const side& one, duration took);
  void run_until(time_point end);
  /// @return Whether the time came before the script's limit of events.
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
  oracle oracle_;
  std::vector<page_key> keys_;
  std::deque<host> hosts_;
  std::map<incarnation, std::size_t> host_of_;
  std::map<std::string, ring_ptr> rings_; ///< Of encoded views.
  std::map<discovery::endpoint, std::size_t> host_at_;
  bool clients_work_ = true;
  bool healing_ = false; ///< The faults are over.
  outcome outcome_;
};

} // namespace peercache::scenario
