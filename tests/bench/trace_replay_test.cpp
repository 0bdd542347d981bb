#include "bench/trace_replay.hpp"

#include "bench/trace_generator.hpp"
#include "common/limits.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <list>
#include <map>
#include <random>
#include <unistd.h>

namespace peercache::bench {
namespace {

std::vector<trace_request> requests_of(std::vector<std::vector<std::uint64_t>> pages) {
  std::vector<trace_request> requests;
  for (auto& ids : pages) {
    requests.push_back({0, 0, 0, std::move(ids)});
  }
  return requests;
}

TEST(trace_replay, reads_every_field_of_a_line) {
  const auto requests = parse_trace(
      R"({"timestamp": 27, "input_length": 6758, "output_length": 500, "hash_ids": [0, 18446744073709551615]})"
      "\r\n\n"
      R"({"hash_ids": [], "output_length": 0, "input_length": 1, "timestamp": 28, "chat_id": "x"})");
  ASSERT_TRUE(requests);
  ASSERT_EQ(requests->size(), 2u);
  const trace_request& first = (*requests)[0];
  EXPECT_EQ(first.timestamp_ms, 27u);
  EXPECT_EQ(first.input_length_tokens, 6758u);
  EXPECT_EQ(first.output_length_tokens, 500u);
  EXPECT_EQ(first.page_ids, (std::vector<std::uint64_t>{0, 18446744073709551615u}));
  EXPECT_TRUE((*requests)[1].page_ids.empty());
}

TEST(trace_replay, an_error_names_the_line) {
  const std::string good = R"({"timestamp":0,"input_length":1,"output_length":1,"hash_ids":[1]})"
                           "\n";
  for (const char* bad : {
           "nonsense",
           "[1]",
           R"({"timestamp":0,"input_length":1,"output_length":1})",
           R"({"timestamp":0,"input_length":1,"output_length":1,"hash_ids":[-1]})",
           R"({"timestamp":0,"input_length":1,"output_length":1,"hash_ids":[1.5]})",
           R"({"timestamp":0,"input_length":1,"output_length":1,"hash_ids":{}})",
           R"({"timestamp":"0","input_length":1,"output_length":1,"hash_ids":[1]})",
           R"({"timestamp":0,"input_length":4294967296,"output_length":1,"hash_ids":[1]})",
           R"({"timestamp":0,"input_length":1,"output_length":1,"hash_ids":[1)",
       }) {
    const auto requests = parse_trace(good + good + bad);
    ASSERT_FALSE(requests) << bad;
    EXPECT_EQ(requests.error().message.rfind("trace line 3: ", 0), 0u) << requests.error().message;
  }
}

TEST(trace_replay, a_request_longer_than_a_batch_is_refused) {
  const auto line_with = [](std::size_t pages) {
    std::string ids = "0";
    for (std::size_t i = 1; i < pages; ++i) {
      ids += ",0";
    }
    return R"({"timestamp":0,"input_length":1,"output_length":1,"hash_ids":[)" + ids + "]}";
  };
  EXPECT_TRUE(parse_trace(line_with(limits::batch_pages_max)));
  EXPECT_FALSE(parse_trace(line_with(limits::batch_pages_max + 1)));
}

TEST(trace_replay, a_file_that_is_not_there_is_an_error) {
  const auto requests = load_trace("/nonexistent/trace.jsonl");
  ASSERT_FALSE(requests);
  EXPECT_EQ(requests.error().code, errc::io_failed);
}

TEST(trace_replay, a_file_that_cannot_be_a_trace_is_told_with_its_reason) {
  const auto folder = testing::TempDir() + "peercache-traces-" + std::to_string(::getpid());
  std::filesystem::create_directory(folder);
  std::ofstream(folder + "/packed.gz") << "\x1f\x8b and so on";
  std::ofstream{folder + "/empty"};
  const auto fault_of = [](const std::string& path) {
    const auto requests = load_trace(path);
    return requests ? std::string("loaded") : requests.error().message;
  };
  EXPECT_NE(fault_of(folder).find("Is a directory"), std::string::npos) << fault_of(folder);
  EXPECT_NE(fault_of(folder + "/none").find("No such file"), std::string::npos);
  EXPECT_NE(fault_of(folder + "/packed.gz").find("gunzip"), std::string::npos);
  const auto empty = load_trace(folder + "/empty");
  ASSERT_TRUE(empty) << empty.error().message;
  EXPECT_TRUE(empty->empty());
  std::filesystem::remove_all(folder);
}

TEST(trace_replay, a_hit_is_a_present_page_of_the_leading_run) {
  const auto requests = requests_of({{1, 2, 3}, {1, 2, 4}, {9, 2, 3}});
  const hit_count count = simulate_unlimited(requests);
  EXPECT_EQ(count.references, 9u);
  EXPECT_EQ(count.hits, 2u);
}

TEST(trace_replay, a_full_cache_loses_the_tail_of_a_chain_first) {
  // Page 7 evicts page 3, so pages 1 and 2 are hits in the last request.
  EXPECT_EQ(simulate_global_lru(requests_of({{1, 2, 3}, {7}, {1, 2, 3}}), 3).hits, 2u);
}

TEST(trace_replay, the_global_lru_agrees_with_a_list) {
  std::mt19937_64 random(1);
  std::vector<std::vector<std::uint64_t>> pages;
  for (int i = 0; i < 1000; ++i) {
    auto& ids = pages.emplace_back();
    for (std::uint64_t page = 0, chain = random() % 20; page <= random() % 15; ++page) {
      ids.push_back(chain * 1000 + page);
    }
  }
  std::uint64_t hits = 0;
  std::list<std::uint64_t> cache;
  for (const auto& ids : pages) {
    for (const auto id : ids) {
      if (std::find(cache.begin(), cache.end(), id) == cache.end()) {
        break;
      }
      ++hits;
    }
    for (auto id = ids.rbegin(); id != ids.rend(); ++id) {
      cache.remove(*id);
      cache.push_back(*id);
      if (cache.size() > 50) {
        cache.pop_front();
      }
    }
  }
  EXPECT_EQ(simulate_global_lru(requests_of(pages), 50).hits, hits);
}

TEST(trace_replay, dense_ids_name_the_same_pages) {
  const auto dense = with_dense_ids(requests_of({{900, 7}, {7, 1'000'000, 900}}));
  EXPECT_EQ(dense[0].page_ids, (std::vector<std::uint64_t>{0, 1}));
  EXPECT_EQ(dense[1].page_ids, (std::vector<std::uint64_t>{1, 2, 0}));
}

TEST(trace_generator, the_same_seed_gives_the_same_trace_and_another_one_another) {
  const auto ids_of = [](std::uint64_t seed) {
    std::vector<std::vector<std::uint64_t>> ids;
    for (auto& request : generate_trace({.seed = seed, .requests = 500})) {
      ids.push_back(std::move(request.page_ids));
    }
    return ids;
  };
  EXPECT_EQ(ids_of(3), ids_of(3));
  EXPECT_NE(ids_of(3), ids_of(4));
}

TEST(trace_generator, has_the_statistics_of_the_real_trace) {
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const auto requests = generate_trace({.seed = seed});
    ASSERT_EQ(requests.size(), 12031u);
    const double references = static_cast<double>(references_in(requests));
    EXPECT_NEAR(references / requests.size(), 24, 2);
    EXPECT_NEAR(static_cast<double>(distinct_pages_in(requests)), 182'790, 15'000);
    EXPECT_NEAR(simulate_unlimited(requests).rate(), 0.366, 0.02);
    // A cache of a tenth of the pages gets most of the possible hits, because conversations
    // continue within minutes.
    EXPECT_NEAR(simulate_global_lru(requests, distinct_pages_in(requests) / 10).rate(), 0.28, 0.03);
  }
}

TEST(trace_generator, an_id_stands_for_one_prefix) {
  std::map<std::uint64_t, std::uint64_t> page_before;
  for (const trace_request& request : generate_trace({.requests = 3000})) {
    ASSERT_FALSE(request.page_ids.empty());
    ASSERT_LE(request.page_ids.size(), 248u);
    ASSERT_LE(request.input_length_tokens, request.page_ids.size() * 512);
    ASSERT_GT(request.input_length_tokens, (request.page_ids.size() - 1) * 512);
    std::uint64_t before = ~std::uint64_t{0};
    for (const std::uint64_t id : request.page_ids) {
      ASSERT_EQ(page_before.try_emplace(id, before).first->second, before);
      before = id;
    }
  }
}

TEST(trace_generator, time_does_not_run_back) {
  std::uint64_t last_ms = 0;
  for (const trace_request& request : generate_trace({.requests = 1000, .duration_ms = 60'000})) {
    ASSERT_LE(last_ms, request.timestamp_ms);
    last_ms = request.timestamp_ms;
  }
  EXPECT_LT(last_ms, 60'000u);
}

} // namespace
} // namespace peercache::bench
