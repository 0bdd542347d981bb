#pragma once

#include "client/calls/read_plan.hpp"
#include "common/page_key.hpp"

#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace peercache::client {

inline constexpr std::uint32_t page_bytes = 4096;

/// One get of some pages; the test gives the answers of directory and holders. `own` is the process
/// of this host's node, whose pool the client has mapped.
class read_plan_test : public testing::Test {
protected:
  using status = page_status;

  struct wanted_page {
    std::vector<std::byte> bytes;
    page_part part;
  };

  /// Begins a get of `count` pages of `page_bytes`. The first look follows the current view.
  read_plan& begin(std::size_t count) {
    std::vector<std::uint32_t> lengths(count, page_bytes);
    return begin(lengths);
  }

  read_plan& begin(const std::vector<std::uint32_t>& lengths) {
    wanted.resize(lengths.size());
    pages.clear();
    for (std::size_t i = 0; i < lengths.size(); ++i) {
      wanted[i].bytes.resize(page_bytes);
      wanted[i].part = {wanted[i].bytes.data(), lengths[i]};
      pages.push_back({key(i), {&wanted[i].part, 1}});
    }
    results.assign(lengths.size(), {});
    plan = std::make_unique<read_plan>(pages, results, locations, stale_told);
    follow();
    return *plan;
  }

  void follow() {
    readers_cluster known;
    known.own = own;
    known.left = left;
    known.is_member = [this](const auto& at) { return members.contains(at.holder); };
    plan->follow(known);
  }

  static page_key key(std::size_t i) { return key_space{}.key_of(std::to_string(i)); }

  static directory::page_location at(const incarnation& holder, std::uint64_t gen,
                                     std::uint32_t length_bytes = page_bytes) {
    directory::page_location place;
    place.holder = holder;
    place.gen = {gen};
    place.slot = {7};
    place.length_bytes = length_bytes;
    return place;
  }
  static directory::page_location on_disk(const incarnation& holder,
                                          std::uint32_t length_bytes = page_bytes) {
    auto place = at(holder, 2, length_bytes);
    place.where = directory::tier::disk;
    return place;
  }

  /// Returns the directory's answer for one key that is at these locations.
  static lookup_answer found(const std::vector<directory::page_location>& places) {
    lookup_answer answer;
    answer.status = status::hit;
    for (const auto& place : places)
      answer.locations[answer.count++] = place;
    return answer;
  }
  static lookup_answer without(status why) {
    lookup_answer answer;
    answer.status = why;
    return answer;
  }

  void look_up(const std::vector<lookup_answer>& answers) {
    ASSERT_EQ(plan->ask_directory().size(), answers.size());
    for (std::size_t i = 0; i < answers.size(); ++i)
      take_answer(i, answers[i]);
  }

  /// Takes the directory's answer for one of the keys that it was asked for.
  void take_answer(std::size_t nth, const lookup_answer& answer) {
    reader_place reader;
    reader.own = own;
    plan->looked_up(nth, answer, reader);
  }

  /// Returns the one page that has to be read now.
  read_plan::page only_read() {
    const auto round = plan->take_round();
    EXPECT_EQ(round.size(), 1u);
    return round.empty() ? read_plan::page{} : round[0];
  }

  void read(const read_plan::page& page, status said,
            page_origin origin = page_origin::other_host) {
    plan->was_read(page.index, page.location, said, origin);
  }

  /// Lets page 0 be found at `place` in the first look, where its read ends with `said`; then
  /// begins the second look.
  void look_twice(const directory::page_location& place, status said) {
    begin(1);
    look_up({found({place})});
    read(only_read(), said);
    ASSERT_TRUE(plan->look_again());
    follow();
  }

  /// Begins a get of one page whose first look finds it on this host, not yet published, where it
  /// is dropped while it is copied; then begins the second look.
  void drop_an_own_page_while_it_is_read() {
    begin(1);
    plan->take_missing();
    plan->looked_at_own_host(0, at(own, 5));
    const auto page = only_read();
    ASSERT_TRUE(plan->may_copy(page, /*late=*/false));
    plan->copied(page, status::stale);
    ASSERT_TRUE(plan->look_again());
    follow();
    EXPECT_EQ(plan->take_missing(), std::vector{0u});
  }

  /// Returns the records that the directory has to forget, and forgets them.
  std::vector<directory::withdraw_record> stale_records_told() { return stale_told.take(); }

  void expect_end(std::size_t i, status wanted_status, page_origin origin = page_origin::none) {
    EXPECT_EQ(results[i].status, wanted_status) << to_string(results[i].status);
    EXPECT_EQ(results[i].origin, origin);
  }

  const incarnation own{1, 1};
  const incarnation near{1, 2};
  const incarnation far{1, 3};
  const incarnation stranger{1, 4}; ///< A process that is in no view.
  incarnation left;
  std::set<incarnation> members{own, near, far};
  location_cache locations{64};
  stale_records stale_told;
  std::vector<wanted_page> wanted;
  std::vector<get_page> pages;
  std::vector<page_result> results;
  std::unique_ptr<read_plan> plan;
};

} // namespace peercache::client
