#include "cli/demo/demo_replay.hpp"

#include <cstring>
#include <gtest/gtest.h>
#include <map>

namespace peercache::cli::demo_replay_test {

namespace {

/// A cache in memory that misses, loses or corrupts the pages that a test names.
class fake_cache {
public:
  std::map<page_key, std::vector<std::byte>> pages;
  /// For pages that `exists` reports as hits and `get` then misses: the status of the get.
  std::map<page_key, page_status> lose_in_get;
  bool flip_a_byte = false;
  std::size_t flushes = 0;
  client::flush_result flushed; ///< The result that the next `flush` returns.

  void exists(std::span<const page_key> keys, std::span<client::page_result> results) {
    for (std::size_t i = 0; i < keys.size(); ++i)
      results[i].status = pages.contains(keys[i]) ? page_status::hit : page_status::not_found;
  }

  void get(std::span<const client::get_page> wanted, std::span<client::page_result> results) {
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      if (auto lost = lose_in_get.find(wanted[i].key); lost != lose_in_get.end()) {
        results[i].status = lost->second;
        continue;
      }
      const auto& bytes = pages.at(wanted[i].key);
      std::memcpy(wanted[i].parts[0].data, bytes.data(), bytes.size());
      if (flip_a_byte)
        wanted[i].parts[0].data[100] ^= std::byte{1};
      results[i].status = page_status::hit;
    }
  }

  void set(std::span<const client::set_page> given, std::span<client::page_result> results) {
    for (std::size_t i = 0; i < given.size(); ++i) {
      auto part = given[i].parts[0];
      bool inserted = pages.try_emplace(given[i].key, part.data, part.data + part.bytes).second;
      results[i].status = inserted ? page_status::stored : page_status::duplicate;
    }
  }

  result<client::flush_result> flush() {
    flushes += 1;
    return std::exchange(flushed, {});
  }
};

using ids = std::vector<std::uint64_t>;

std::uint64_t misses(const demo_counts& counts, page_status reason) {
  return counts.misses[static_cast<std::size_t>(reason)];
}

struct demo_replay_test : testing::Test {
  fake_cache cache;
  key_space space;
  demo_replay<fake_cache> replay{4096, key_space{}};

  page_key key(std::uint64_t id) { return space.key_of(std::to_string(id)); }
};

TEST_F(demo_replay_test, a_repeated_prefix_hits_and_the_rest_is_put) {
  replay.request(cache, ids{1, 2, 3});
  replay.request(cache, ids{1, 2, 4});
  const auto& counts = replay.counts();
  EXPECT_EQ(counts.requests, 2u);
  EXPECT_EQ(counts.pages, 6u);
  EXPECT_EQ(counts.hits, 2u);
  EXPECT_EQ(counts.pages_put, 4u);
  EXPECT_EQ(misses(counts, page_status::not_found), 4u);
  EXPECT_EQ(counts.wrong_bytes, 0u);
  EXPECT_EQ(cache.flushes, 2u);
}

TEST_F(demo_replay_test, a_page_behind_a_miss_is_no_hit_though_it_is_there) {
  replay.request(cache, ids{1, 2, 3});
  cache.pages.erase(key(2));
  replay.request(cache, ids{1, 2, 3});
  EXPECT_EQ(replay.counts().hits, 1u);
  EXPECT_EQ(replay.counts().misses_behind_a_miss, 1u);
  EXPECT_EQ(replay.counts().puts_skipped[static_cast<std::size_t>(page_status::duplicate)], 1u);
}

TEST_F(demo_replay_test, a_page_that_vanishes_before_get_is_a_miss_with_its_reason) {
  replay.request(cache, ids{1, 2, 3});
  cache.lose_in_get[key(2)] = page_status::stale;
  replay.request(cache, ids{1, 2, 3});
  EXPECT_EQ(replay.counts().hits, 1u);
  EXPECT_EQ(misses(replay.counts(), page_status::stale), 1u);
  EXPECT_EQ(replay.counts().misses_behind_a_miss, 1u);
}

TEST_F(demo_replay_test, wrong_bytes_are_counted_and_are_no_hit) {
  replay.request(cache, ids{1, 2});
  cache.flip_a_byte = true;
  replay.request(cache, ids{1, 2});
  EXPECT_EQ(replay.counts().hits, 0u);
  EXPECT_EQ(replay.counts().wrong_bytes, 2u);
  EXPECT_EQ(replay.counts().wrong_pages, 2u);
  EXPECT_EQ(misses(replay.counts(), page_status::corrupt), 2u);
}

TEST_F(demo_replay_test, hits_and_misses_add_up_to_the_pages) {
  replay.request(cache, ids{1, 2, 3, 4});
  cache.lose_in_get[key(1)] = page_status::timed_out;
  cache.pages.erase(key(3));
  replay.request(cache, ids{1, 2, 3, 4});
  replay.request(cache, ids{9});
  EXPECT_EQ(replay.counts().hits + replay.counts().misses_total(), replay.counts().pages);
}

TEST_F(demo_replay_test, pages_that_another_node_had_meanwhile_are_no_puts) {
  cache.flushed = {.failed = 1, .duplicates = 2};
  replay.request(cache, ids{1, 2, 3, 4});
  EXPECT_EQ(replay.counts().pages_put, 2u);
  EXPECT_EQ(replay.counts().puts_skipped[static_cast<std::size_t>(page_status::duplicate)], 2u);
  EXPECT_EQ(replay.counts().puts_unpublished, 1u);
}

TEST(demo_report, json_has_raw_numbers_under_the_agreed_names) {
  demo_report report;
  report.counts.requests = 2;
  report.counts.pages = 4;
  report.counts.hits = 1;
  report.counts.misses[static_cast<std::size_t>(page_status::not_found)] = 3;
  report.lru_hit_rate = 0.5;
  report.bytes_by_origin[static_cast<std::size_t>(page_origin::other_host)] = 16384;
  auto json = report.to_json();
  EXPECT_EQ(json["hit_rate"], 0.25);
  EXPECT_EQ(json["ratio_to_global_lru"], 0.5);
  EXPECT_EQ(json["misses"]["not_found"], 3);
  EXPECT_EQ(json["bytes_by_source"]["other_host"], 16384);
  EXPECT_EQ(json["bytes_by_source"]["own_host"], 0);
  for (const char* name : {"requests", "pages", "hits", "wrong_bytes", "evictions", "pages_put",
                           "elapsed_s", "global_lru_hit_rate", "unlimited_hit_rate"})
    EXPECT_TRUE(json.contains(name)) << name;
}

TEST(demo_report, the_table_names_sources_as_the_json_does) {
  demo_report report;
  report.bytes_by_origin[static_cast<std::size_t>(page_origin::own_host)] = 1024;
  report.bytes_by_origin[static_cast<std::size_t>(page_origin::other_host)] = 2048;
  auto text = report.to_text();
  EXPECT_NE(text.find("from own_host "), std::string::npos) << text;
  EXPECT_NE(text.find("from other_host "), std::string::npos) << text;
  EXPECT_EQ(text.find("from disk"), std::string::npos) << "a source that gave nothing";
}

} // namespace
} // namespace peercache::cli::demo_replay_test
