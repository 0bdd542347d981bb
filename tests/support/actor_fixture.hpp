#pragma once

#include "link/protocol/message_types.hpp"

#include <caf/all.hpp>
#include <caf/scheduler/test_coordinator.hpp>
#include <gtest/gtest.h>

#include <type_traits>

namespace peercache::test {

struct actor_config : caf::actor_system_config {
  actor_config() {
    set("scheduler.policy", caf::atom("testing"));
    add_message_types<caf::id_block::peercache_atoms>();
    add_message_types<caf::id_block::peercache>();
  }
};

/// Runs actors on the test's own thread, one message at a time; time moves only when a test moves
/// it.
class actor_fixture : public ::testing::Test {
protected:
  using metric = metrics::metric;

  actor_config config;
  caf::actor_system system{config};
  caf::scoped_actor self{system, true};

  auto& scheduler() { return dynamic_cast<caf::scheduler::test_coordinator&>(system.scheduler()); }

  /// Delivers all messages that wait, and those that their handlers send. Actors send themselves
  /// beats for ever, but a beat comes only when time passes, so `settle` returns.
  void settle() { scheduler().run(); }

  void pass(std::chrono::milliseconds time) {
    scheduler().advance_time(time);
    settle();
  }

  /// Sends one request, runs the system until no message waits, and returns the answer.
  template <class Answer, class Handle, class... Args>
  caf::expected<Answer> ask(const Handle& whom, Args... args) {
    auto pending = self->request(whom, caf::infinite, std::move(args)...);
    settle();
    caf::expected<Answer> answer{caf::error{caf::sec::runtime_error}};
    pending.receive([&](Answer& value) { answer = std::move(value); },
                    [&](caf::error& why) { answer = std::move(why); });
    return answer;
  }

  /// Asks an actor for its statistics and returns their samples.
  template <class Handle>
  metrics::samples samples_of(const Handle& whom) {
    auto pending = self->request(whom, caf::infinite, link::stats_atom_v);
    settle();
    metrics::samples said;
    const auto failed = [](const caf::error&) { ADD_FAILURE() << "no numbers"; };
    if constexpr (std::is_same_v<Handle, link::directory_actor>)
      pending.receive(
          [&](const metrics::samples& now, const link::directory_report&) { said = now; }, failed);
    else if constexpr (std::is_same_v<Handle, link::membership_actor>)
      pending.receive(
          [&](const metrics::samples& now, const link::membership_report&) { said = now; }, failed);
    else
      pending.receive([&](const metrics::samples& now) { said = now; }, failed);
    return said;
  }
  template <class Handle>
  std::uint64_t count_of(const Handle& whom, metrics::metric id, metrics::label_words words = {}) {
    return samples_of(whom).count(id, words);
  }

  template <class Handle>
  void stop(Handle& whom) {
    caf::anon_send_exit(whom, caf::exit_reason::user_shutdown);
    settle();
    whom = nullptr;
  }
};

} // namespace peercache::test
