#include "link/protocol/samples_wire.hpp"

#include "common/byte_codec.hpp"
#include "tests/support/actor_fixture.hpp"

#include <gtest/gtest.h>

#include <initializer_list>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

namespace peercache::link::samples_wire_test {
namespace {

using metrics::metric;
using metrics::samples;

samples some_of_each_type() {
  metrics::latency_histogram latency;
  for (const std::uint64_t ns : {1'000u, 1'001u, 2'000'000u})
    latency.record_ns(ns);
  samples made;
  made.set(metric::pool_pages, 7);
  made.set(metric::disk_scanned_ratio, 0.25);
  made.set(metric::evictions_total, std::uint64_t{1} << 52);
  made.set(metric::pages_total, {"get", "hit"}, 3);
  made.set(metric::rdma_errors_total, {"mlx5_0/1", std::string(metrics::word_bytes_max, 'x')}, 2);
  made.set(metric::op_seconds, {"get"}, latency.snapshot());
  return made;
}

/// Returns the encoding of a series with any name and label values, as a process of another version
/// may send it.
std::string encoded(std::string_view name, std::initializer_list<std::string_view> words,
                    double value, bool is_histogram = false) {
  std::string body, bytes;
  byte_writer in(body);
  in.number(static_cast<std::uint8_t>(is_histogram));
  in.number(static_cast<std::uint8_t>(words.size()));
  for (const auto word : words)
    in.short_text(word);
  in.number(value);
  byte_writer out(bytes);
  out.short_text(name);
  out.number(static_cast<std::uint32_t>(body.size()));
  out.text(body);
  return bytes;
}

const std::string pages = encoded("peercache_pool_pages", {}, 7);

TEST(samples_wire, each_number_and_latency_arrives) {
  const auto sent = some_of_each_type();
  const auto received = decode_samples(encode_samples(sent));
  ASSERT_TRUE(received) << received.error().message;
  EXPECT_EQ(received->values(), sent.values());
  const auto latency = received->latency(metric::op_seconds, {"get"});
  const auto wanted = sent.latency(metric::op_seconds, {"get"});
  EXPECT_EQ(latency.bucket_counts, wanted.bucket_counts);
  EXPECT_EQ(latency.count, wanted.count);
  EXPECT_EQ(latency.sum_ns, wanted.sum_ns);
  EXPECT_EQ(latency.max_ns, wanted.max_ns);
  EXPECT_TRUE(decode_samples("")->values().empty());
}

TEST(samples_wire, a_name_that_is_not_known_is_skipped_whatever_follows_it) {
  std::string unknown;
  byte_writer out(unknown);
  out.short_text("peercache_of_a_later_version_total");
  out.number(std::uint32_t{5});
  out.text("?????");
  const auto read = decode_samples(unknown + pages + unknown);
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(read->values().size(), 1u);
  EXPECT_EQ(read->count(metric::pool_pages), 7u);
}

TEST(samples_wire, what_the_table_says_otherwise_is_skipped) {
  for (const auto& other :
       {encoded("peercache_hits_total", {"the_moon"}, 1), encoded("peercache_hits_total", {}, 1),
        encoded("peercache_hits_total", {"disk", "disk", "disk"}, 1),
        encoded("peercache_hits_total", {"disk"}, 1, true),
        encoded("peercache_op_seconds", {"get"}, 1), encoded("peercache_hits_total", {"disk"}, -1),
        encoded("peercache_hits_total", {"disk"}, std::numeric_limits<double>::infinity()),
        encoded("peercache_hits_total", {"disk"}, std::numeric_limits<double>::quiet_NaN())}) {
    const auto read = decode_samples(other + pages);
    ASSERT_TRUE(read) << read.error().message;
    EXPECT_EQ(read->values().size(), 1u);
    EXPECT_TRUE(read->latencies().empty());
    EXPECT_EQ(read->count(metric::pool_pages), 7u);
  }
}

TEST(samples_wire, a_bucket_that_does_not_exist_is_left_out) {
  samples sent;
  metrics::latency_snapshot latency;
  latency.bucket_counts.resize(metrics::latency_histogram::bucket_count + 5, 1);
  sent.set(metric::op_seconds, {"get"}, latency);
  const auto read = decode_samples(encode_samples(sent));
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(read->latency(metric::op_seconds, {"get"}).bucket_counts.size(),
            metrics::latency_histogram::bucket_count);
}

/// Encoded samples that end in the middle of a series must be refused.
TEST(samples_wire, bytes_that_are_cut_short_are_refused) {
  const auto whole = encode_samples(some_of_each_type());
  std::size_t read_well = 0;
  for (std::size_t length = 0; length <= whole.size(); ++length)
    read_well += static_cast<bool>(decode_samples(std::string_view(whole).substr(0, length)));
  EXPECT_EQ(read_well, 7u);
}

TEST(samples_wire, a_body_that_goes_on_or_ends_early_is_refused) {
  const auto with_body = [](std::uint32_t length, std::string_view more) {
    auto bytes = pages;
    bytes[sizeof(std::uint8_t) + std::string_view("peercache_pool_pages").size()] =
        static_cast<char>(length);
    return bytes.append(more);
  };
  EXPECT_TRUE(decode_samples(with_body(10, "")));
  EXPECT_FALSE(decode_samples(with_body(11, "x")));
  EXPECT_FALSE(decode_samples(with_body(9, "")));
  EXPECT_FALSE(decode_samples(with_body(200, "")));
}

TEST(samples_wire, bytes_that_say_anything_harm_nobody) {
  const auto whole = encode_samples(some_of_each_type());
  for (std::size_t at = 0; at < whole.size(); ++at)
    for (const auto bits : {0x01, 0xff}) {
      auto bytes = whole;
      bytes[at] = static_cast<char>(bytes[at] ^ bits);
      if (auto read = decode_samples(bytes)) {
        EXPECT_LE(read->values().size() + read->latencies().size(), 6u);
      }
    }
}

TEST(samples_wire, more_series_or_bytes_than_are_read_are_refused) {
  const auto unknown = encoded("x", {}, 0);
  std::string many;
  for (std::size_t i = 0; i < samples::series_max; ++i)
    many += unknown;
  EXPECT_TRUE(decode_samples(many));
  EXPECT_FALSE(decode_samples(many + unknown));
  std::string large;
  byte_writer out(large);
  const std::string body(samples_bytes_max - 6, '?');
  out.short_text("x");
  out.number(static_cast<std::uint32_t>(body.size()));
  out.text(body);
  EXPECT_TRUE(decode_samples(large));
  EXPECT_FALSE(decode_samples(large + unknown));
}

TEST(samples_wire, the_most_that_can_be_counted_is_read) {
  samples most;
  for (std::size_t i = 0; most.size() < samples::series_max; ++i)
    most.set(metric::rdma_errors_total,
             {std::string(metrics::word_bytes_max, 'r'),
              std::to_string(i) + std::string(metrics::word_bytes_max, 's')},
             1);
  const auto read = decode_samples(encode_samples(most));
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(read->values(), most.values());
}

class samples_message : public test::actor_fixture {};

TEST_F(samples_message, with_malformed_samples_is_not_read) {
  const auto read = [this](const std::string& bytes) {
    std::vector<char> message;
    caf::binary_serializer sink(system, message);
    EXPECT_FALSE(sink(bytes));
    caf::binary_deserializer source(system, message);
    samples into;
    return !source(into);
  };
  EXPECT_TRUE(read(pages));
  EXPECT_FALSE(read(pages + "x"));
}

} // namespace
} // namespace peercache::link::samples_wire_test
