#include "directory/wire.hpp"

#include <gtest/gtest.h>

#include <array>
#include <random>
#include <vector>

namespace peercache::directory::wire_test {
namespace {

using locations = std::array<page_location, limits::locations_per_key_max>;

page_key random_key(std::mt19937_64& random) {
  page_key key;
  for (auto& byte : key.bytes)
    byte = static_cast<std::uint8_t>(random());
  return key;
}

page_location random_location(std::mt19937_64& random) {
  return {.node = {random()},
          .holder = {random() | 1, random()},
          .gen = {random() & ~std::uint64_t{1}},
          .checksum = random(),
          .slot = {static_cast<std::uint32_t>(random())},
          .length_bytes = static_cast<std::uint32_t>(1 + random() % limits::page_bytes_max),
          .where = random() % 2 == 0 ? tier::memory : tier::disk,
          .mirrored = random() % 2 == 0};
}

std::string random_publish_batch(std::mt19937_64& random, std::size_t records) {
  std::string batch;
  for (std::size_t i = 0; i < records; ++i)
    append_publish(batch, {random_key(random), random_location(random),
                           random() % 2 == 0 ? publish_mode::always : publish_mode::if_absent});
  return batch;
}

std::string random_answer(std::mt19937_64& random, std::size_t keys) {
  std::string answer;
  for (std::size_t i = 0; i < keys; ++i) {
    locations found;
    if (random() % 8 == 0) {
      append_not_mine(answer, {random(), random()});
      continue;
    }
    auto count = random() % (found.size() + 1);
    for (std::size_t k = 0; k < count; ++k)
      found[k] = random_location(random);
    append_answer(answer, {found.data(), count});
  }
  return answer;
}

template <class Record>
bool reads_to_its_end(std::string_view batch) {
  batch_reader<Record> reader(batch);
  Record record;
  std::size_t read = 0;
  while (reader.next(record))
    ++read;
  EXPECT_TRUE(!reader.ok() || read == reader.count());
  return reader.ok();
}

bool answer_reads_to_its_end(std::string_view answer) {
  answer_reader reader(answer);
  locations out;
  std::size_t count = 0;
  while (reader.next(out, count))
    EXPECT_LE(count, out.size());
  return reader.finished();
}

TEST(wire, records_come_back_as_they_were) {
  std::mt19937_64 random(1);
  std::vector<publish_record> publishes;
  std::vector<withdraw_record> withdraws;
  std::string publish_batch;
  std::string withdraw_batch;
  std::string lookup_batch;
  for (int i = 0; i < 100; ++i) {
    publishes.push_back({random_key(random), random_location(random),
                         i % 2 == 0 ? publish_mode::always : publish_mode::if_absent});
    withdraws.push_back({random_key(random),
                         {random() | 1, random()},
                         {random()},
                         i % 2 == 0 ? tier::memory : tier::disk});
    append_publish(publish_batch, publishes.back());
    append_withdraw(withdraw_batch, withdraws.back());
    append_lookup(lookup_batch, publishes.back().key);
  }
  EXPECT_EQ(publish_batch.size(), 100 * wire::publish_record_bytes);
  EXPECT_EQ(withdraw_batch.size(), 100 * wire::withdraw_record_bytes);
  publish_reader publish_in(publish_batch);
  withdraw_reader withdraw_in(withdraw_batch);
  lookup_reader lookup_in(lookup_batch);
  for (std::size_t i = 0; i < publishes.size(); ++i) {
    publish_record p;
    withdraw_record w;
    page_key k;
    ASSERT_TRUE(publish_in.next(p) && withdraw_in.next(w) && lookup_in.next(k));
    EXPECT_EQ(p, publishes[i]);
    EXPECT_EQ(w, withdraws[i]);
    EXPECT_EQ(k, publishes[i].key);
  }
  publish_record p;
  EXPECT_FALSE(publish_in.next(p));
  EXPECT_TRUE(publish_in.ok());
}

TEST(wire, answers_come_back_with_their_counts) {
  std::mt19937_64 random(2);
  locations four;
  for (auto& location : four)
    location = random_location(random);
  std::string answer;
  append_answer(answer, {});
  append_answer(answer, four);
  append_answer(answer, std::span(four).first(1));
  answer_reader reader(answer);
  locations out;
  std::size_t count = 9;
  ASSERT_TRUE(reader.next(out, count));
  EXPECT_EQ(count, 0u);
  ASSERT_TRUE(reader.next(out, count));
  EXPECT_EQ(count, 4u);
  EXPECT_EQ(out, four);
  ASSERT_TRUE(reader.next(out, count));
  EXPECT_EQ(count, 1u);
  EXPECT_EQ(out[0], four[0]);
  EXPECT_FALSE(reader.next(out, count));
  EXPECT_TRUE(reader.finished());
}

TEST(wire, the_layout_is_the_one_in_the_table) {
  page_key key;
  key.bytes[0] = 0xaa;
  page_location location{.node = {0x0102030405060708},
                         .holder = {0x11, 0x22},
                         .gen = {0x33},
                         .checksum = 0x44,
                         .slot = {0x55},
                         .length_bytes = 0x66,
                         .where = tier::disk};
  std::string batch;
  append_publish(batch, {key, location, publish_mode::if_absent});
  auto byte = [&batch](std::size_t at) { return static_cast<std::uint8_t>(batch[at]); };
  EXPECT_EQ(byte(0), 0xaa);
  EXPECT_EQ(byte(32), 0x08) << "little endian";
  EXPECT_EQ(byte(39), 0x01);
  EXPECT_EQ(byte(32 + 8), 0x11);
  EXPECT_EQ(byte(32 + 16), 0x22);
  EXPECT_EQ(byte(32 + 24), 0x33);
  EXPECT_EQ(byte(32 + 32), 0x44);
  EXPECT_EQ(byte(32 + 40), 0x55);
  EXPECT_EQ(byte(32 + 44), 0x66);
  EXPECT_EQ(byte(32 + 48), 1);
  EXPECT_EQ(byte(84), 1);
}

TEST(wire, a_size_that_is_no_multiple_of_the_records_is_malformed) {
  std::mt19937_64 random(3);
  auto batch = random_publish_batch(random, 2);
  for (std::size_t size = 1; size < batch.size(); ++size) {
    EXPECT_EQ(reads_to_its_end<publish_record>(std::string_view(batch).substr(0, size)),
              size % wire::publish_record_bytes == 0);
    EXPECT_EQ(reads_to_its_end<page_key>(std::string_view(batch).substr(0, size)),
              size % wire::key_bytes == 0);
  }
}

TEST(wire, more_records_than_a_call_may_have_are_malformed) {
  std::string keys(wire::key_bytes * limits::batch_pages_max, 'k');
  EXPECT_TRUE(reads_to_its_end<page_key>(keys));
  keys.append(wire::key_bytes, 'k');
  lookup_reader reader(keys);
  page_key key;
  EXPECT_FALSE(reader.ok());
  EXPECT_FALSE(reader.next(key));
  EXPECT_EQ(reader.count(), 0u);
}

TEST(wire, fields_out_of_their_range_are_malformed) {
  std::mt19937_64 random(4);
  auto good = random_publish_batch(random, 1);
  ASSERT_TRUE(reads_to_its_end<publish_record>(good));
  auto with = [&good](std::size_t at, std::string_view bytes) {
    auto bad = good;
    bad.replace(at, bytes.size(), bytes);
    return reads_to_its_end<publish_record>(bad);
  };
  using namespace std::string_view_literals;
  EXPECT_FALSE(with(32 + 48, "\2"sv)) << "tier";
  EXPECT_FALSE(with(32 + 49, "\2"sv)) << "mirrored";
  EXPECT_FALSE(with(32 + 50, "\1"sv)) << "reserved after it";
  EXPECT_FALSE(with(84, "\2"sv)) << "mode";
  EXPECT_FALSE(with(87, "\1"sv)) << "reserved after the mode";
  EXPECT_FALSE(with(32 + 44, "\0\0\0\0"sv)) << "no bytes";
  EXPECT_FALSE(with(32 + 44, "\1\0\0\4"sv)) << "more bytes than a page may have";
  EXPECT_FALSE(with(32 + 8, std::string(16, '\0'))) << "nobody's incarnation";
}

TEST(wire, a_forged_count_reads_nothing) {
  std::mt19937_64 random(5);
  locations one;
  one[0] = random_location(random);
  std::string answer;
  append_answer(answer, std::span(one).first(1));
  for (int forged : {0, 2, 3, 4, 5, 255}) {
    auto bad = answer;
    bad[0] = static_cast<char>(forged);
    EXPECT_FALSE(answer_reads_to_its_end(bad)) << forged;
  }
  for (std::size_t size = 1; size < answer.size(); ++size)
    EXPECT_FALSE(answer_reads_to_its_end(std::string_view(answer).substr(0, size))) << size;
}

TEST(wire, encoding_again_into_the_same_string_takes_no_memory) {
  std::mt19937_64 random(6);
  auto batch = random_publish_batch(random, 128);
  const auto* place = batch.data();
  auto capacity = batch.capacity();
  publish_record record{random_key(random), random_location(random), publish_mode::always};
  batch.clear();
  for (int i = 0; i < 128; ++i)
    append_publish(batch, record);
  EXPECT_EQ(batch.data(), place);
  EXPECT_EQ(batch.capacity(), capacity);
}

/// Readers of mutated batches must end, must stay in bounds (sanitizers check that), and may accept
/// only bytes to which the decoded records are encoded again.
TEST(wire, random_mutations_are_refused_or_mean_what_they_say) {
  std::size_t refused = 0;
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937_64 random(seed);
    auto batch = random() % 2 == 0 ? random_publish_batch(random, 1 + random() % 20)
                                   : random_answer(random, 1 + random() % 20);
    for (auto changes = 1 + random() % 4; changes-- > 0;)
      batch[random() % batch.size()] = static_cast<char>(random());
    if (random() % 3 == 0)
      batch.resize(random() % (batch.size() + 8));
    // The bytes are copied to memory of exactly their size, so that the sanitizers see a read
    // beyond the end.
    std::vector<char> exact(batch.begin(), batch.end());
    std::string_view bytes(exact.data(), exact.size());
    publish_reader reader(bytes);
    std::string again;
    publish_record record;
    while (reader.next(record))
      append_publish(again, record);
    if (reader.ok()) {
      EXPECT_EQ(again, bytes);
    }
    answer_reader answer(bytes);
    locations out;
    std::size_t count = 0;
    again.clear();
    while (answer.next(out, count))
      if (answer.not_mine())
        append_not_mine(again, answer.view());
      else
        append_answer(again, {out.data(), count});
    if (answer.finished()) {
      EXPECT_EQ(again, bytes);
    }
    refused += !reader.ok() && !answer.finished() ? 1 : 0;
    reads_to_its_end<withdraw_record>(bytes);
    reads_to_its_end<page_key>(bytes);
  }
  EXPECT_GT(refused, 20u);
}

} // namespace
} // namespace peercache::directory::wire_test
