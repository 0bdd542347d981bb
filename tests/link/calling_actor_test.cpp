#include "common/interruption.hpp"
#include "link/calling_actor.hpp"
#include "link/system_config.hpp"

#include <caf/event_based_actor.hpp>
#include <caf/response_promise.hpp>
#include <gtest/gtest.h>

namespace peercache::link::calling_actor_test {
namespace {

/// An actor that answers even numbers and leaves odd ones without an answer.
caf::behavior answer_even(caf::event_based_actor* self, std::vector<caf::response_promise>* open) {
  return {[=](int number) {
    auto promise = self->make_response_promise();
    if (number % 2 == 0)
      promise.deliver(number);
    else
      open->push_back(promise);
    return promise;
  }};
}

class calling_actor_test : public testing::Test {
protected:
  ~calling_actor_test() override {
    caf::anon_send_exit(answering, caf::exit_reason::user_shutdown);
    leave_actor_system();
  }

  system_config config{1};
  caf::actor_system system{config};
  std::vector<caf::response_promise> open;
  caf::actor answering = system.spawn(answer_even, &open);
};

TEST_F(calling_actor_test, receives_answers_in_any_order) {
  calling_actor self{system};
  auto one = self->request(answering, caf::infinite, 2);
  auto other = self->request(answering, caf::infinite, 4);
  int sum = 0;
  const auto add = [&](int answer) { sum += answer; };
  const auto fail = [](const caf::error&) { ADD_FAILURE(); };
  other.receive(add, fail);
  one.receive(add, fail);
  EXPECT_EQ(sum, 6);
}

TEST_F(calling_actor_test, an_interruption_fails_what_is_not_answered) {
  calling_actor self{system};
  auto silent = self->request(answering, caf::infinite, 1);
  auto answered = self->request(answering, caf::infinite, 2);
  auto silent_too = self->request(answering, caf::infinite, 3);
  self.fail_when_interrupted({silent.id(), silent_too.id()});
  const interruption signal{[] { return true; }};
  int failures = 0;
  const auto none = [](int) { ADD_FAILURE(); };
  const auto count = [&](const caf::error&) { ++failures; };
  silent.receive(none, count);
  int answer = 0;
  answered.receive([&](int said) { answer = said; }, [](const caf::error&) { ADD_FAILURE(); });
  silent_too.receive(none, count);
  EXPECT_EQ(answer, 2);
  EXPECT_EQ(failures, 2);
}

} // namespace
} // namespace peercache::link::calling_actor_test
