#include "link/loop_actor.hpp"

#include "link/protocol/message_types.hpp"
#include "link/system_config.hpp"

#include <caf/all.hpp>
#include <caf/io/all.hpp>
#include <chrono>
#include <future>
#include <gtest/gtest.h>
#include <memory>
#include <pthread.h>
#include <string>
#include <thread>
#include <utility>

namespace peercache::link {
namespace {

using namespace std::chrono_literals;

using asked_actor = caf::typed_actor<caf::replies_to<status_atom>::with<std::string>,
                                     caf::replies_to<beat_atom>::with<std::string>>;

struct asked_state {
  asked_state() = default;
  std::shared_ptr<std::promise<void>> ended;
  ~asked_state() {
    if (ended)
      ended->set_value();
  }
  static inline const char* name = "asked";
};

std::string own_thread() {
  char name[16]{};
  ::pthread_getname_np(::pthread_self(), name, sizeof name);
  return name;
}

/// Answers with the name of the thread that runs the handler: at once, or after a message to
/// itself.
asked_actor::behavior_type run_asked(asked_actor::stateful_pointer<asked_state> self,
                                     const std::shared_ptr<std::promise<void>>& ended) {
  self->state.ended = ended;
  return {[](status_atom) { return own_thread(); },
          [self](beat_atom) -> caf::result<std::string> {
            auto promise = self->make_response_promise<std::string>();
            self->request(caf::actor_cast<asked_actor>(self), 5s, status_atom_v)
                .then([promise](std::string& said) mutable { promise.deliver(std::move(said)); },
                      [promise](caf::error& why) mutable { promise.deliver(std::move(why)); });
            return promise;
          }};
}

TEST(loop_actor, handles_all_messages_in_the_thread_of_the_sockets) {
  system_config config{1};
  caf::actor_system system{config};
  auto ended = std::make_shared<std::promise<void>>();
  auto over = ended->get_future();
  {
    auto asked = spawn_on_loop(system, run_asked, ended);
    ended.reset();
    caf::scoped_actor self{system};
    const auto expect_net = [](const std::string& said) { EXPECT_EQ(said, "peercache-net"); };
    const auto fail = [&](const caf::error& why) { ADD_FAILURE() << system.render(why); };
    for (int i = 0; i < 100; ++i) {
      self->request(asked, 10s, status_atom_v).receive(expect_net, fail);
      self->request(asked, 10s, beat_atom_v).receive(expect_net, fail);
    }
    self->send_exit(asked, caf::exit_reason::user_shutdown);
    self->wait_for(asked);
  }
  EXPECT_EQ(over.wait_for(10s), std::future_status::ready) << "the actor's state is destroyed";
}

TEST(loop_actor, that_lives_does_not_keep_its_system_from_ending) {
  std::promise<void> ended;
  auto over = ended.get_future();
  std::thread([end = std::move(ended)]() mutable {
    system_config config{1};
    {
      caf::actor_system system{config};
      auto asked = spawn_on_loop(system, run_asked, std::make_shared<std::promise<void>>());
      system.await_actors_before_shutdown(false);
    }
    end.set_value();
  }).detach(); // A system that does not end could not be joined.
  EXPECT_EQ(over.wait_for(10s), std::future_status::ready);
}

} // namespace
} // namespace peercache::link
