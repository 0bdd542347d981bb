#include "client/lookup/lookup_plan.hpp"

#include "discovery/view.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace peercache::client {
namespace {

/// Tests of the status that each key gets when the deadline ends a look-up.
class lookup_deadline : public testing::Test {
protected:
  void SetUp() override {
    std::vector<discovery::member> members(3);
    for (std::size_t i = 0; i < members.size(); ++i) {
      members[i].name = "node" + std::to_string(i);
      members[i].id = node_id_of(members[i].name);
      members[i].inc = {1, i + 1};
    }
    ring = discovery::hash_ring(members);
    for (int i = 0; i < 64; ++i)
      keys.push_back(key_space{}.key_of(std::to_string(i)));
    answers.resize(keys.size());
    known.view = {1, 1};
    known.now = &ring;
    known.is_member = [](const auto&) { return true; };
  }

  void expect_all(const char* status) {
    for (const auto& answer : answers)
      EXPECT_EQ(to_string(answer.status), status);
  }

  discovery::hash_ring ring;
  owners_known known;
  std::vector<page_key> keys;
  std::vector<lookup_answer> answers;
};

TEST_F(lookup_deadline, what_nobody_was_asked_for_is_timed_out_and_not_unreachable) {
  lookup_plan plan{keys, answers};
  plan.follow(known);
  plan.finish(false);
  expect_all("timed_out");
}

TEST_F(lookup_deadline, an_owner_that_was_asked_in_vain_gives_its_own_reason) {
  lookup_plan plan{keys, answers};
  plan.follow(known);
  for (const auto& share : plan.next_round([](node_id) { return lookup_plan::use::yes; }))
    plan.failed(share, page_status::unreachable);
  plan.finish(false);
  expect_all("unreachable");
}

TEST_F(lookup_deadline, nobody_to_ask_is_unreachable_as_long_as_there_is_time) {
  lookup_plan plan{keys, answers};
  plan.follow(known);
  EXPECT_TRUE(plan.next_round([](node_id) { return lookup_plan::use::no_link; }).empty());
  plan.finish();
  expect_all("unreachable");
}

} // namespace
} // namespace peercache::client
