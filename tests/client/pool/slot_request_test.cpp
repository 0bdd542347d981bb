#include "client/pool/slot_request.hpp"

#include <gtest/gtest.h>

#include <thread>

namespace peercache::client {
namespace {

deadline at_once() {
  return std::chrono::steady_clock::now();
}

TEST(slot_request, brings_the_answer_to_the_caller) {
  slot_request request{nullptr, "4096"};
  EXPECT_TRUE(request.answer("slots"));
  auto outcome = request.wait(at_once());
  EXPECT_EQ(outcome.slots, "slots");
  EXPECT_EQ(outcome.why_not, page_status::pending);
}

TEST(slot_request, an_answer_after_the_caller_left_is_handed_back) {
  slot_request request{nullptr, "4096"};
  EXPECT_EQ(request.wait(at_once()).why_not, page_status::timed_out);
  EXPECT_FALSE(request.answer("slots"));
}

TEST(slot_request, only_the_first_answer_counts) {
  slot_request request{nullptr, "4096"};
  EXPECT_TRUE(request.answer({}, page_status::unreachable));
  EXPECT_FALSE(request.answer("slots"));
  EXPECT_EQ(request.wait(at_once()).why_not, page_status::unreachable);
}

TEST(slot_request, wakes_the_caller_that_waits) {
  slot_request request{nullptr, "4096"};
  std::thread committer([&] { EXPECT_TRUE(request.answer("slots")); });
  EXPECT_EQ(request.wait(at_once() + std::chrono::hours(1)).slots, "slots");
  committer.join();
}

TEST(slot_request, says_why_there_are_no_slots) {
  slot_request request{nullptr, "4096"};
  EXPECT_TRUE(request.answer({}, page_status::refused));
  EXPECT_EQ(request.wait(at_once()).why_not, page_status::refused);
}

} // namespace
} // namespace peercache::client
