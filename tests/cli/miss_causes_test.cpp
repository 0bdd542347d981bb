#include "cli/miss_causes.hpp"

#include "common/page_status.hpp"
#include "link/protocol/pool_wire.hpp"

#include <gtest/gtest.h>

#include <numeric>
#include <string>
#include <vector>

namespace peercache::cli::miss_causes_test {
namespace {

using link::call_kind;
using fields = std::vector<std::string>;

const fields plain{"model", "sglang-hicache-1", "page_size=64", "dtype=bfloat16"};
const fields other_dtype{"model", "sglang-hicache-1", "page_size=64", "dtype=fp8"};
const fields other_page{"model", "sglang-hicache-1", "page_size=32", "dtype=bfloat16"};

key_space space_of(const fields& of) {
  return key_space{std::vector<std::string_view>(of.begin(), of.end())};
}

/// Builds the report of one client's calls.
class client {
public:
  explicit client(std::uint64_t told_ago_ms = 0) { told_.report.age_ms = told_ago_ms; }

  client& in(const fields& of, const std::string& door = "sglang") {
    auto& space = told_.report.spaces.emplace_back();
    space.door = door;
    space.fields = of;
    space.pages.assign(link::call_kinds * page_status_count, 0);
    return *this;
  }
  client& count(call_kind kind, page_status status, std::uint64_t pages) {
    now().pages[static_cast<std::size_t>(kind) * page_status_count +
                static_cast<std::size_t>(status)] += pages;
    return *this;
  }
  client& fail(call_kind kind, page_status status, const std::string& key,
               std::uint64_t age_ms = 1000) {
    count(kind, status, 1);
    auto& page = now().failed.emplace_back();
    page.call = static_cast<std::uint8_t>(kind);
    page.status = static_cast<std::uint8_t>(status);
    page.age_ms = age_ms;
    page.caller_key = key;
    link::append_record(page.digest, space_of(now().fields).key_of(key));
    return *this;
  }
  client& miss(const std::string& key, std::uint64_t age_ms = 1000) {
    return fail(call_kind::exists, page_status::not_found, key, age_ms);
  }
  client& stored(std::uint64_t pages) { return count(call_kind::set, page_status::stored, pages); }
  client& with(const std::string& fact, const std::string& value) {
    now().facts[fact] = value;
    return *this;
  }
  client& unasked(const std::string& reason, std::uint64_t pages) {
    now().unasked[reason] += pages;
    return *this;
  }
  operator told_calls() const { return told_; } // NOLINT: reads as a list of clients

private:
  link::space_calls& now() { return told_.report.spaces.back(); }
  told_calls told_;
};

class fates {
public:
  fates& there(const fields& space, const std::string& key) {
    all[space_of(space).key_of(key).prefix()].is_there = true;
    return *this;
  }
  fates& unknown(const fields& space, const std::string& key) {
    all[space_of(space).key_of(key).prefix()].is_unknown = true;
    return *this;
  }
  fates& lost(const fields& space, const std::string& key, link::page_loss how,
              std::uint64_t age_ms) {
    auto& page = all[space_of(space).key_of(key).prefix()].losses.emplace_back();
    page.how = static_cast<std::uint8_t>(how);
    page.age_ms = age_ms;
    return *this;
  }
  std::map<std::uint64_t, page_fate> all;
};

/// Returns the causes of misses that follow from these reports, each as a text of cause and number
/// of pages.
std::vector<std::string> causes_of(std::vector<told_calls> told, const fates& known = {}) {
  const miss_search search(std::move(told));
  std::vector<std::string> all;
  std::uint64_t sum = 0;
  for (const auto& one : search.causes(known.all)) {
    all.push_back(one.cause + " " + std::to_string(one.pages));
    EXPECT_FALSE(one.fix.empty());
    sum += one.pages;
  }
  EXPECT_EQ(sum, search.missed());
  return all;
}

using causes = std::vector<std::string>;

} // namespace

TEST(miss_causes, name_the_field_in_which_the_stored_page_has_another_space) {
  const std::vector<told_calls> told{client().in(plain).stored(2),
                                     client().in(other_dtype).miss("a").miss("b")};
  EXPECT_EQ(causes_of(told, fates().there(plain, "a").there(plain, "b")), causes{"dtype 2"});
  const miss_search search(told);
  const auto row = search.causes(fates().there(plain, "a").there(plain, "b").all).at(0);
  EXPECT_EQ(row.differs, (std::vector<key_difference>{{"dtype", "fp8", "bfloat16"}}));
  EXPECT_EQ(row.key, "a");
  EXPECT_EQ(row.age_ms, 1000u);
}

TEST(miss_causes, ask_for_the_page_and_the_same_page_in_other_spaces) {
  const miss_search search({client().in(plain).stored(2), client().in(other_dtype).miss("a")});
  EXPECT_EQ(search.keys(), (std::vector<page_key>{space_of(other_dtype).key_of("a"),
                                                  space_of(plain).key_of("a")}));
}

TEST(miss_causes, do_not_blame_another_space_that_has_not_the_page) {
  EXPECT_EQ(
      causes_of({client().in(plain).stored(2), client().in(other_dtype).stored(1).miss("new")}),
      causes{"never_stored 1"});
}

TEST(miss_causes, blame_another_space_whose_keys_differ_too) {
  EXPECT_EQ(causes_of({client().in(plain).stored(2), client().in(other_page).miss("a")}),
            causes{"page_size 1"});
  EXPECT_EQ(causes_of({client().in(plain), client().in(other_page).miss("a")}),
            causes{"nobody_stores 1"});
}

TEST(miss_causes, tell_evicted_removed_and_cleared_pages_from_those_that_left_afterwards) {
  using link::page_loss;
  const auto reader = client(500).in(plain).stored(9).miss("a").miss("b").miss("c").miss("d");
  EXPECT_EQ(causes_of({reader}, fates()
                                    .lost(plain, "a", page_loss::evicted, 9000)
                                    .lost(plain, "b", page_loss::cleared, 1500)
                                    .lost(plain, "c", page_loss::removed, 2000)
                                    .lost(plain, "d", page_loss::evicted, 1499)),
            (causes{"cleared 1", "evicted 1", "removed 1", "stored_later 1"}));
}

TEST(miss_causes, tell_how_long_before_a_page_was_evicted) {
  const miss_search search({client(500).in(plain).stored(1).miss("a")});
  const auto rows = search.causes(fates().lost(plain, "a", link::page_loss::evicted, 4000).all);
  EXPECT_NE(rows.at(0).detail.find("2.5 s before"), std::string::npos) << rows.at(0).detail;
}

TEST(miss_causes, judge_by_the_last_loss_before_the_miss) {
  using link::page_loss;
  const std::vector<told_calls> told{client().in(plain).stored(9).miss("a", 1000)};
  EXPECT_EQ(causes_of(told, fates()
                                .lost(plain, "a", page_loss::evicted, 10)
                                .lost(plain, "a", page_loss::removed, 9000)
                                .lost(plain, "a", page_loss::evicted, 2000)
                                .there(plain, "a")),
            causes{"evicted 1"});
}

TEST(miss_causes, blame_no_other_keys_where_the_page_has_a_fate_of_its_own) {
  const std::vector<told_calls> told{client().in(plain).stored(2),
                                     client().in(other_page).stored(5).miss("a")};
  EXPECT_EQ(causes_of(told, fates().there(other_page, "a")), causes{"stored_later 1"});
  EXPECT_EQ(causes_of(told), causes{"never_stored 1"});
  EXPECT_NE(miss_search(told).causes({}).at(0).detail.find("another page_size"), std::string::npos);
  EXPECT_EQ(causes_of({client().in(plain).stored(2),
                       client().in(other_page).miss("a").count(call_kind::get, page_status::hit, 1),
                       client().in(other_page).stored(1)}),
            causes{"never_stored 1"});
  EXPECT_EQ(
      causes_of(
          {client().in(plain).stored(2),
           client().in(other_page).fail(call_kind::set, page_status::no_space, "a").miss("a")}),
      causes{"set_refused 1"});
}

TEST(miss_causes, are_not_known_where_the_directory_did_not_answer) {
  const std::vector<told_calls> told{
      client().in(plain).stored(2),
      client().in(other_dtype).stored(1).miss("a").miss("b").miss("c").miss("d")};
  EXPECT_EQ(causes_of(told, fates()
                                .unknown(other_dtype, "a")
                                .unknown(plain, "b")
                                .unknown(other_dtype, "c")
                                .lost(other_dtype, "c", link::page_loss::evicted, 9000)
                                .unknown(other_dtype, "d")
                                .there(plain, "d")),
            (causes{"unknown 2", "dtype 1", "evicted 1"}));
}

TEST(miss_causes, name_reasons_of_failed_calls) {
  EXPECT_EQ(causes_of({client()
                           .in(plain)
                           .fail(call_kind::get, page_status::timed_out, "a")
                           .fail(call_kind::get, page_status::unreachable, "b")
                           .fail(call_kind::get, page_status::breaker_open, "c")
                           .fail(call_kind::get, page_status::holder_gone, "d")
                           .fail(call_kind::get, page_status::bad_size, "e")}),
            (causes{"node_unreachable 2", "node_gone 1", "page_length 1", "timed_out 1"}));
}

TEST(miss_causes, tell_refused_sets_and_write_policies_from_prompts_that_are_new) {
  EXPECT_EQ(causes_of({client()
                           .in(plain)
                           .stored(1)
                           .fail(call_kind::set, page_status::no_space, "a")
                           .miss("a")
                           .miss("b")}),
            (causes{"never_stored 1", "set_refused 1"}));
  EXPECT_EQ(
      causes_of({client().in(plain).count(call_kind::set, page_status::bad_size, 3).miss("a")}),
      causes{"set_refused 1"});
  EXPECT_EQ(causes_of({client().in(plain).with("write_policy", "write_back").miss("a")}),
            causes{"write_policy 1"});
  EXPECT_EQ(causes_of({client().in(plain).with("write_policy", "write_through").miss("a")}),
            causes{"nobody_stores 1"});
}

TEST(miss_causes, share_out_the_misses_of_which_only_the_number_is_known) {
  EXPECT_EQ(causes_of({client().in(plain).stored(1).miss("a").miss("b").miss("c").count(
                          call_kind::exists, page_status::not_found, 7)},
                      fates().there(plain, "a")),
            (causes{"never_stored 6", "stored_later 4"}));
  EXPECT_EQ(causes_of({client().in(plain).count(call_kind::get, page_status::timed_out, 5)}),
            causes{"timed_out 5"});
}

TEST(miss_causes, say_how_many_pages_were_judged_each_on_its_own) {
  const miss_search search({client().in(plain).stored(1).miss("a").miss("b").count(
                                call_kind::exists, page_status::not_found, 7),
                            client().in(plain).count(call_kind::get, page_status::timed_out, 5)});
  const auto rows = search.causes({});
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0].pages, 9u);
  EXPECT_EQ(rows[0].sampled, 2u);
  EXPECT_EQ(rows[1].sampled, 5u);
}

TEST(miss_causes, ask_for_fewer_pages_of_each_client_where_there_are_many) {
  std::vector<told_calls> told{client().in(plain).stored(1)};
  fates known;
  for (int i = 0; i < 1000; ++i) {
    client one;
    one.in(other_dtype);
    for (int page = 0; page < 128; ++page)
      one.miss(std::to_string(page));
    told.push_back(one);
  }
  for (int page = 0; page < 128; ++page)
    known.there(plain, std::to_string(page));
  EXPECT_LE(miss_search(told).keys().size(), miss_search::keys_max);
  EXPECT_EQ(causes_of(told, known), causes{"dtype 128000"});
}

TEST(miss_causes, count_what_a_door_answered_itself) {
  const std::vector<told_calls> told{
      client().in(plain, "vllm").unasked("lookup_late", 3),
      client().in(other_dtype).unasked("pool_not_kept: a page has 9 bytes", 2)};
  EXPECT_EQ(causes_of(told), (causes{"threshold 3", "interface_v1 2"}));
  EXPECT_EQ(miss_search(told).asked(), 5u);
}

TEST(miss_causes, say_when_pages_are_stored_and_nobody_asks) {
  EXPECT_EQ(causes_of({client().in(plain).stored(3)}), causes{"never_asked 0"});
  EXPECT_EQ(causes_of({client().in(plain).stored(3).count(call_kind::exists, page_status::hit, 1)}),
            causes{});
}

TEST(miss_causes, take_reports_that_make_no_sense) {
  told_calls odd = client().in({}).miss("a");
  odd.report.spaces[0].pages.resize(3);
  odd.report.spaces[0].failed[0].digest = "short";
  odd.report.spaces[0].failed[0].status = 200;
  EXPECT_EQ(causes_of({odd}), causes{});
}

} // namespace peercache::cli::miss_causes_test
