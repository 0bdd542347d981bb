// Tests of gets of many pages at many holders: one by hand, then thousands at random. The random
// test notes all answers, and checks by them that the plan keeps its rules.

#include "tests/client/calls/read_plan_fixture.hpp"

#include <algorithm>
#include <map>
#include <random>

namespace peercache::client {
namespace {

using enum page_status;

TEST_F(read_plan_test, pages_in_mixed_places_are_one_call) {
  locations.store(key(1), at(near, 4));
  begin({page_bytes, page_bytes, 0, page_bytes, page_bytes, page_bytes});
  for (const auto index : plan->take_missing())
    plan->looked_at_own_host(index, index == 0 ? std::optional(at(own, 2)) : std::nullopt);
  EXPECT_EQ(plan->take_remembered(), 1u);
  EXPECT_EQ(plan->keys_missing(), (std::vector{key(3), key(4), key(5)}));
  look_up({found({on_disk(far)}), without(not_found), found({at(far, 6)})});
  EXPECT_EQ(plan->take_cold().shares().size(), 1u);
  const auto round = plan->take_round();
  ASSERT_EQ(round.size(), 3u);
  ASSERT_TRUE(plan->may_copy(round[0], false));
  plan->copied(round[0], hit);
  read(round[1], stale);
  read(round[2], hit, page_origin::other_host_rdma);
  plan->promoted({3, at(far, 8)}, false);
  read(only_read(), hit);
  ASSERT_TRUE(plan->look_again());
  EXPECT_EQ(plan->keys_missing(), std::vector{key(1)}) << "the others are decided";
  follow();
  plan->ask_holders();
  look_up({found({at(far, 10)})});
  read(only_read(), hit);
  plan->told_by_holder({1, std::nullopt}, false);
  EXPECT_FALSE(plan->look_again());
  expect_end(0, hit, page_origin::own_host);
  expect_end(1, hit, page_origin::other_host);
  expect_end(2, bad_size);
  expect_end(3, hit, page_origin::disk);
  expect_end(4, not_found);
  expect_end(5, hit, page_origin::other_host_rdma);
}

class random_read_plan : public read_plan_test {
protected:
  std::uint64_t below(std::uint64_t limit) { return random() % limit; }

  incarnation anybody() {
    const std::array all{own, near, far, stranger};
    return all[below(all.size())];
  }

  directory::page_location any_place() {
    auto place = at(anybody(), 2 * (1 + below(4)), below(8) == 0 ? 64 : page_bytes);
    if (below(4) == 0)
      place.where = directory::tier::disk;
    return place;
  }

  lookup_answer any_answer() {
    constexpr std::array reasons{not_found, unreachable, breaker_open, timed_out};
    if (below(4) == 0)
      return without(reasons[below(reasons.size())]);
    std::vector<directory::page_location> places;
    for (auto count = 1 + below(2); count > 0; --count)
      places.push_back(any_place());
    return found(places);
  }

  page_status any_read() {
    constexpr std::array said{hit,       hit,         hit,     stale,     stale,
                              wrong_key, holder_gone, corrupt, timed_out, unreachable};
    return said[below(said.size())];
  }

  void call() {
    for (std::size_t i = 0; i < keys; ++i)
      if (below(3) == 0)
        locations.store(key(i), any_place());
    members = {own, near, far};
    begin(keys);
    for (int looks = 1;; ++looks) {
      ASSERT_LE(looks, read_plan::looks_max);
      look();
      if (!plan->look_again())
        break;
      if (below(4) == 0) {
        members.erase(far);
        members.insert(stranger);
      }
      follow();
    }
    judge();
  }

  void look() {
    named.clear();
    for (const auto index : plan->take_missing()) {
      const bool here = below(8) == 0;
      plan->looked_at_own_host(index, here ? std::optional(at(own, 2)) : std::nullopt);
      if (here)
        named.insert({key(index), own});
    }
    plan->take_remembered();
    const auto holders = plan->ask_holders();
    std::vector<promote_plan> cold;
    ask_directory(cold);
    cold.push_back(plan->take_cold());
    read_round();
    for (const auto& asked : cold)
      for_each_place(asked, [this](const auto& place) { plan->promoted(place, below(8) == 0); });
    for_each_place(holders, [this](const auto& place) {
      if (!place.location)
        denied.insert({key(place.index), asked_of[place.index]});
      plan->told_by_holder(place, below(8) == 0);
    });
    read_round();
  }

  /// Takes the directory's answers in any order, some of them twice, and reads pages in between.
  void ask_directory(std::vector<promote_plan>& cold) {
    const auto asked = plan->ask_directory();
    std::vector<std::size_t> order;
    for (std::size_t i = 0; i < asked.size(); ++i)
      order.insert(order.end(), below(4) == 0 ? 2 : 1, i);
    std::ranges::shuffle(order, random);
    std::map<std::size_t, lookup_answer> answers;
    for (const auto nth : order) {
      const auto& answer = answers.try_emplace(nth, any_answer()).first->second;
      for (std::size_t i = 0; i < answer.count; ++i)
        named.insert({asked[nth], answer.locations[i].holder});
      take_answer(nth, answer);
      if (below(3) == 0) {
        cold.push_back(plan->take_cold());
        read_round();
      }
    }
  }

  void read_round() {
    for (const auto& page : plan->take_round()) {
      const auto& place = page.location;
      EXPECT_TRUE(members.contains(place.holder)) << "of nobody in the view";
      EXPECT_EQ(place.where, directory::tier::memory);
      const auto said = any_read();
      if (plan->is_own(page)) {
        if (!plan->may_copy(page, below(8) == 0))
          continue;
        EXPECT_EQ(place.length_bytes, page_bytes);
        plan->copied(page, said);
      } else {
        EXPECT_EQ(place.length_bytes, page_bytes);
        read(page, said);
      }
      last_read[page.index] = said;
      if (said == stale || said == wrong_key || said == holder_gone)
        denied.insert({key(page.index), place.holder});
    }
  }

  template <class Take>
  void for_each_place(const promote_plan& asked, Take&& take) {
    for (const auto& share : asked.shares())
      for (const auto index : share.indices) {
        asked_of[index] = share.holder;
        auto place = at(share.holder, 20, below(8) == 0 ? 64 : page_bytes);
        const bool there = below(2) == 0;
        if (there)
          named.insert({key(index), share.holder});
        take(promote_plan::place{index, there ? std::optional(place) : std::nullopt});
      }
  }

  void judge() {
    for (std::uint32_t i = 0; i < keys; ++i) {
      EXPECT_NE(results[i].status, pending);
      EXPECT_EQ(results[i].status == hit, results[i].origin != page_origin::none);
      if (results[i].status == hit) {
        EXPECT_EQ(last_read[i], hit) << "nobody read it";
      }
      hits += results[i].status == hit ? 1 : 0;
    }
    for (const auto& record : stale_records_told()) {
      EXPECT_TRUE(denied.contains({record.key, record.holder})) << "nobody denied it";
      EXPECT_TRUE(named.contains({record.key, record.holder})) << "nobody names it";
      ++told;
    }
    last_read.clear();
    denied.clear();
    asked_of.clear();
  }

  static constexpr std::size_t keys = 12;
  std::mt19937_64 random;
  /// Locations that the directory or a holder has named in the current look.
  std::set<std::pair<page_key, incarnation>> named;
  /// Locations that a holder has denied in this call.
  std::set<std::pair<page_key, incarnation>> denied;
  std::map<std::uint32_t, incarnation> asked_of;
  std::map<std::uint32_t, page_status> last_read;
  std::uint64_t hits = 0;
  std::uint64_t told = 0;
};

TEST_F(random_read_plan, keeps_its_rules_whatever_everybody_says) {
  for (std::uint64_t seed = 1; seed <= 5000 && !HasFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    random.seed(seed);
    call();
  }
  EXPECT_GT(hits, 10'000u);
  EXPECT_GT(told, 1'000u);
}

} // namespace
} // namespace peercache::client
