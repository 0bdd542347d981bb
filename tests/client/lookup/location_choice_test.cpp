#include "client/lookup/location_choice.hpp"
#include "client/read/page_heat.hpp"
#include "client/read/peer_load.hpp"

#include <gtest/gtest.h>
#include <set>

namespace peercache::client {
namespace {

using directory::tier;
using namespace std::chrono_literals;

directory::page_location at(std::uint64_t holder, tier where = tier::memory,
                            bool mirrored = false) {
  return {.node = {holder},
          .holder = {1, holder},
          .gen = {2},
          .checksum = 0,
          .slot = {},
          .length_bytes = 4096,
          .where = where,
          .mirrored = mirrored};
}

lookup_answer answer_of(std::vector<directory::page_location> locations) {
  lookup_answer answer;
  answer.status = page_status::hit;
  answer.count = static_cast<std::uint8_t>(locations.size());
  std::copy(locations.begin(), locations.end(), answer.locations.begin());
  return answer;
}

std::uint64_t chosen(const lookup_answer& answer, const reader_place& reader) {
  return choose_location(answer, reader).holder.low;
}

TEST(location_choice, takes_the_page_of_the_wanted_length_wherever_it_is) {
  reader_place reader;
  reader.own = {1, 1};
  auto wanted = at(2, tier::disk);
  wanted.length_bytes = 8192;
  const auto answer = answer_of({at(1), wanted});
  EXPECT_EQ(chosen(answer, reader), 1u) << "whoever wants a page of any length";
  reader.length_bytes = 8192;
  EXPECT_EQ(chosen(answer, reader), 2u);
  reader.length_bytes = 100;
  EXPECT_EQ(chosen(answer, reader), 1u) << "there is none";
}

TEST(location_choice, takes_memory_then_the_own_host_then_mirrors_then_who_is_idle) {
  reader_place reader;
  reader.own = {1, 1};
  EXPECT_EQ(chosen(answer_of({at(2, tier::memory, true), at(1)}), reader), 1u);
  EXPECT_EQ(chosen(answer_of({at(1, tier::disk), at(2)}), reader), 2u) << "memory before disk";
  EXPECT_EQ(chosen(answer_of({at(2, tier::disk), at(1, tier::disk)}), reader), 1u);
  EXPECT_EQ(chosen(answer_of({at(2), at(3, tier::memory, true)}), reader), 3u);
  reader.outstanding = [](const incarnation& peer) {
    return peer.low == 2 ? std::uint64_t{100} : std::uint64_t{10};
  };
  EXPECT_EQ(chosen(answer_of({at(2), at(3)}), reader), 3u);
  EXPECT_EQ(chosen(answer_of({at(2, tier::memory, true), at(3, tier::memory, true)}), reader), 3u);
}

TEST(location_choice, what_was_stale_just_now_comes_last) {
  reader_place reader;
  reader.avoided = {1, 2};
  EXPECT_EQ(chosen(answer_of({at(2, tier::memory, true), at(3)}), reader), 3u);
  EXPECT_EQ(chosen(answer_of({at(2, tier::memory, true), at(3, tier::disk)}), reader), 3u);
  EXPECT_EQ(chosen(answer_of({at(2)}), reader), 2u) << "there is no other";
}

TEST(location_choice, whoever_cannot_be_reached_comes_last) {
  reader_place reader;
  reader.own = {1, 1};
  reader.is_away = [](const auto& at) { return at.holder.low != 3; };
  EXPECT_EQ(chosen(answer_of({at(2), at(3, tier::disk)}), reader), 3u);
  EXPECT_EQ(chosen(answer_of({at(2), at(1)}), reader), 1u) << "its own host is here";
  EXPECT_EQ(chosen(answer_of({at(2)}), reader), 2u) << "there is no other";
}

TEST(location_choice, readers_on_different_hosts_spread_over_equal_locations) {
  std::set<std::uint64_t> taken;
  for (std::uint64_t host = 1; host <= 64; ++host) {
    reader_place reader;
    reader.own_node = node_id_of("host" + std::to_string(host));
    taken.insert(chosen(answer_of({at(101), at(102), at(103), at(104)}), reader));
  }
  EXPECT_EQ(taken.size(), 4u);
}

TEST(peer_load, counts_what_is_on_its_way) {
  peer_load load;
  load.begin({1, 1}, 100);
  load.begin({1, 1}, 50);
  EXPECT_EQ(load.outstanding({1, 1}), 150u);
  EXPECT_EQ(load.outstanding({1, 2}), 0u);
  load.end({1, 1}, 100);
  load.end({1, 1}, 50);
  EXPECT_EQ(load.outstanding({1, 1}), 0u);
}

TEST(page_heat, a_page_is_hot_when_it_is_read_twice_within_the_window) {
  page_heat heat;
  page_heat::time_point now{1h};
  auto key = key_space{}.key_of("a");
  EXPECT_EQ(heat.count_read(key, now), 1u);
  EXPECT_EQ(heat.count_read(key, now + page_heat::window - 1s), 2u);
  EXPECT_EQ(heat.count_read(key, now + page_heat::window), 1u) << "begins again";
  for (int i = 0; i < 1000; ++i)
    heat.count_read(key, now);
  EXPECT_GE(heat.count_read(key, now), page_heat::hot_reads);
}

TEST(page_heat, knows_what_was_mirrored_for_the_window) {
  page_heat heat;
  page_heat::time_point now{1h};
  auto key = key_space{}.key_of("a");
  EXPECT_FALSE(heat.is_mirrored(key, now));
  heat.mark_mirrored(key, now);
  heat.count_read(key, now + 1s);
  EXPECT_TRUE(heat.is_mirrored(key, now + 1s));
  EXPECT_FALSE(heat.is_mirrored(key_space{}.key_of("b"), now));
  EXPECT_FALSE(heat.is_mirrored(key, now + page_heat::window));
}

} // namespace
} // namespace peercache::client
