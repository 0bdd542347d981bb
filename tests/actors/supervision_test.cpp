#include "actors/supervision.hpp"

#include "tests/support/actor_fixture.hpp"

#include <caf/all.hpp>
#include <stdexcept>
#include <string>
#include <vector>

namespace peercache::actors::supervision_test {
namespace {

class supervision_test : public test::actor_fixture {
protected:
  /// Spawns a supervised actor of this kind. It throws an exception with the text that it is sent,
  /// and quits at an empty text.
  caf::actor spawn_one(supervision::kind how = supervision::kind::lasting) {
    auto one = system.spawn(
        [](caf::event_based_actor* body, int) {
          return caf::behavior{[body](const std::string& words) {
            if (words.empty())
              body->quit();
            else
              throw std::runtime_error(words);
          }};
        },
        0);
    watched.watch(caf::actor_cast<caf::strong_actor_ptr>(one), "the actor", how);
    return one;
  }
  void tell(const caf::actor& whom, const std::string& words) {
    caf::anon_send(whom, words);
    settle();
  }

  supervision watched;
};

TEST_F(supervision_test, an_exception_in_a_handler_is_a_failure) {
  tell(spawn_one(), "no memory");
  EXPECT_EQ(watched.failure().rfind("the actor has ended unasked", 0), 0u) << watched.failure();
}

TEST_F(supervision_test, the_first_failure_is_told_when_it_can_be_asked_for) {
  std::vector<std::string> told;
  watched.when_failed([&] { told.push_back(watched.failure()); });
  const auto first = spawn_one();
  const auto second = spawn_one();
  EXPECT_TRUE(told.empty());
  tell(first, "no memory");
  ASSERT_EQ(told.size(), 1u);
  EXPECT_EQ(told[0].rfind("the actor has ended unasked", 0), 0u) << told[0];
  tell(second, "no memory either");
  EXPECT_EQ(told.size(), 1u);
}

TEST_F(supervision_test, an_exit_message_of_anybody_is_a_failure) {
  const auto one = spawn_one();
  EXPECT_EQ(watched.failure(), "");
  caf::anon_send_exit(one, caf::exit_reason::kill);
  settle();
  EXPECT_NE(watched.failure(), "");
}

TEST_F(supervision_test, one_that_has_ended_before_it_is_watched_is_a_failure) {
  const auto one = system.spawn([](int) { return caf::behavior{[](int) {}}; }, 0);
  caf::anon_send_exit(one, caf::exit_reason::kill);
  settle();
  watched.watch(caf::actor_cast<caf::strong_actor_ptr>(one), "the actor");
  EXPECT_NE(watched.failure(), "");
}

TEST_F(supervision_test, who_ends_in_good_order_has_failed_unless_its_work_may_be_done) {
  tell(spawn_one(supervision::kind::passing), "");
  EXPECT_EQ(watched.failure(), "");
  tell(spawn_one(), "");
  EXPECT_NE(watched.failure(), "");
}

TEST_F(supervision_test, a_passing_one_fails_by_an_exception) {
  tell(spawn_one(supervision::kind::passing), "no memory");
  EXPECT_NE(watched.failure(), "");
}

TEST_F(supervision_test, the_first_failure_stays) {
  caf::anon_send_exit(spawn_one(), caf::exit_reason::kill);
  settle();
  const auto first = watched.failure();
  tell(spawn_one(), "another");
  EXPECT_EQ(watched.failure(), first);
}

TEST_F(supervision_test, ends_that_were_asked_for_are_none) {
  const auto one = spawn_one();
  watched.expect_ends();
  caf::anon_send_exit(one, caf::exit_reason::user_shutdown);
  settle();
  EXPECT_EQ(watched.failure(), "");
}

} // namespace
} // namespace peercache::actors::supervision_test
