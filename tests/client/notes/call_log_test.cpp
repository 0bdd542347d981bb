#include "client/notes/call_log.hpp"

#include <gtest/gtest.h>

#include <future>
#include <string>
#include <vector>

namespace peercache::client::call_log_test {
namespace {

using namespace std::chrono_literals;
using link::call_kind;

const call_log::time_point start{1'000'000s};

page_key key_of(const std::string& text) {
  return key_space{}.key_of(text);
}

class call_log_with : public testing::Test {
protected:
  call_log log;
  page_key space = key_of("space");

  /// Notes a call for keys "0", "1", ... with these results.
  void note(call_kind kind, const std::vector<page_status>& statuses,
            call_log::time_point now = start) {
    std::vector<page_key> digests;
    std::vector<page_result> results;
    for (std::size_t i = 0; i < statuses.size(); ++i) {
      digests.push_back(key_of(texts()[i]));
      results.push_back({statuses[i], page_origin::none, 0});
    }
    const std::vector<page_key> spaces{space};
    log.note({kind, spaces, digests, results,
              [](std::size_t i) -> std::string_view { return texts()[i]; }},
             now);
  }

  link::space_calls said(call_log::time_point now = start) {
    auto report = log.take_report(now);
    EXPECT_TRUE(report);
    EXPECT_EQ(report->spaces.size(), 1u);
    return report->spaces.at(0);
  }

  static std::uint64_t pages(const link::space_calls& calls, call_kind kind, page_status status) {
    return calls.pages.at(static_cast<std::size_t>(kind) * page_status_count +
                          static_cast<std::size_t>(status));
  }

private:
  static const std::vector<std::string>& texts() {
    static const auto all = [] {
      std::vector<std::string> made;
      for (int i = 0; i < 1000; ++i)
        made.push_back(std::to_string(i));
      return made;
    }();
    return all;
  }
};

} // namespace

TEST_F(call_log_with, counts_pages_by_call_and_status_and_names_those_that_failed) {
  note(call_kind::exists, {page_status::hit, page_status::not_found, page_status::timed_out});
  note(call_kind::set, {page_status::stored, page_status::no_space});
  const auto calls = said(start + 2s);
  EXPECT_EQ(pages(calls, call_kind::exists, page_status::hit), 1u);
  EXPECT_EQ(pages(calls, call_kind::exists, page_status::not_found), 1u);
  EXPECT_EQ(pages(calls, call_kind::get, page_status::not_found), 0u);
  EXPECT_EQ(pages(calls, call_kind::set, page_status::stored), 1u);
  ASSERT_EQ(calls.failed.size(), 3u);
  EXPECT_EQ(calls.failed[0].caller_key, "1");
  EXPECT_EQ(calls.failed[0].age_ms, 2000u);
  const auto digest = key_of("1");
  EXPECT_EQ(calls.failed[0].digest,
            std::string(reinterpret_cast<const char*>(digest.bytes.data()), sizeof digest));
  EXPECT_EQ(calls.failed[2].call, static_cast<std::uint8_t>(call_kind::set));
  EXPECT_EQ(calls.failed[2].status, static_cast<std::uint8_t>(page_status::no_space));
}

TEST_F(call_log_with, counts_no_page_of_a_chain_that_was_not_asked_about) {
  note(call_kind::exists, {page_status::hit, page_status::not_found, page_status::pending});
  const auto calls = said();
  EXPECT_EQ(pages(calls, call_kind::exists, page_status::pending), 0u);
  ASSERT_EQ(calls.failed.size(), 1u);
  EXPECT_EQ(calls.failed[0].caller_key, "1");
}

TEST_F(call_log_with, says_nothing_twice) {
  EXPECT_FALSE(log.take_report(start));
  note(call_kind::get, {page_status::hit});
  EXPECT_TRUE(log.take_report(start));
  EXPECT_FALSE(log.take_report(start));
  log.describe(space, {"door", {"a"}, {}});
  EXPECT_TRUE(log.take_report(start));
  log.describe(space, {"door", {"a"}, {}});
  EXPECT_FALSE(log.take_report(start));
}

TEST_F(call_log_with, forgets_what_is_older_than_the_window) {
  note(call_kind::get, {page_status::not_found});
  note(call_kind::get, {page_status::hit}, start + 4min);
  const auto calls = said(start + 6min);
  EXPECT_EQ(pages(calls, call_kind::get, page_status::not_found), 0u);
  EXPECT_EQ(pages(calls, call_kind::get, page_status::hit), 1u);
  EXPECT_TRUE(calls.failed.empty());
}

TEST_F(call_log_with, keeps_all_numbers_and_the_newest_pages) {
  for (int i = 0; i < 3; ++i)
    note(call_kind::get, std::vector(call_log::misses_max, page_status::not_found), start + i * 1s);
  const auto calls = said(start + 3s);
  EXPECT_EQ(pages(calls, call_kind::get, page_status::not_found), 3 * call_log::misses_max);
  EXPECT_EQ(calls.failed.size(), call_log::misses_max);
  EXPECT_EQ(calls.failed.front().age_ms, 1000u);
}

TEST_F(call_log_with, keeps_pages_that_were_not_stored_beside_any_number_of_misses) {
  note(call_kind::set, {page_status::no_space, page_status::bad_size});
  for (int i = 0; i < 3; ++i)
    note(call_kind::exists, std::vector<page_status>(500, page_status::not_found));
  const auto calls = said();
  ASSERT_EQ(calls.failed.size(), call_log::misses_max + 2);
  EXPECT_EQ(calls.failed[call_log::misses_max].status,
            static_cast<std::uint8_t>(page_status::no_space));
  EXPECT_EQ(calls.failed.back().caller_key, "1");
  note(call_kind::set, std::vector<page_status>(500, page_status::no_space));
  EXPECT_EQ(said().failed.size(), call_log::misses_max + call_log::refused_max);
}

TEST_F(call_log_with, holds_up_no_other_call_while_it_copies_keys) {
  const std::vector<page_key> spaces{space}, digests{key_of("a")};
  const std::vector<page_result> results{{page_status::not_found, page_origin::none, 0}};
  std::future<void> other;
  auto waited = std::future_status::deferred;
  log.note({call_kind::get, spaces, digests, results,
            [&](std::size_t) -> std::string_view {
              other = std::async(std::launch::async,
                                 [&] { log.note_unasked(space, "late", 1, start); });
              waited = other.wait_for(5s);
              return "a";
            }},
           start);
  EXPECT_EQ(waited, std::future_status::ready);
  other.get();
  EXPECT_EQ(said().failed.at(0).caller_key, "a");
}

TEST_F(call_log_with, tells_what_a_space_is_and_what_its_door_answered_itself) {
  log.describe(space, {"sglang", {"model", "page_size=4"}, {{"write_policy", "write_back"}}});
  log.note_unasked(space, "late", 3, start);
  log.note_unasked(space, "late", 4, start);
  const auto calls = said();
  EXPECT_EQ(calls.door, "sglang");
  EXPECT_EQ(calls.fields, (std::vector<std::string>{"model", "page_size=4"}));
  EXPECT_EQ(calls.facts.at("write_policy"), "write_back");
  EXPECT_EQ(calls.unasked.at("late"), 7u);
}

TEST_F(call_log_with, has_a_limit_of_spaces_reasons_and_bytes) {
  for (std::size_t i = 0; i < call_log::spaces_max + 10; ++i)
    log.describe(key_of(std::to_string(i)), {"door", {std::to_string(i)}, {}});
  EXPECT_EQ(log.take_report(start)->spaces.size(), call_log::spaces_max);
  call_log other;
  other.describe(space, {"door", {std::string(call_log::description_bytes_max, 'x')}, {}});
  EXPECT_FALSE(other.take_report(start));
  for (std::size_t i = 0; i < call_log::reasons_max + 10; ++i)
    other.note_unasked(space, std::to_string(i), 1, start);
  EXPECT_EQ(other.take_report(start)->spaces.at(0).unasked.size(), call_log::reasons_max);
}

} // namespace peercache::client::call_log_test
