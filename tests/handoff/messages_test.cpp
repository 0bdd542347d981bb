#include "common/printable.hpp"
#include "handoff/messages.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <random>

namespace peercache::handoff::messages_test {
namespace {

using testing::HasSubstr;

std::vector<std::uint32_t> random_items(std::mt19937_64& random) {
  std::vector<std::uint32_t> items(random() % 20);
  for (auto& item : items)
    item = static_cast<std::uint32_t>(random());
  return items;
}

std::vector<transfer_piece> random_pieces(std::mt19937_64& random) {
  std::vector<transfer_piece> pieces(random() % 20);
  for (auto& piece : pieces)
    piece = {1 + random() % (1ull << 47), 1 + random() % (1ull << 47), 1 + random() % (1ull << 40)};
  return pieces;
}

kv_layout random_layout(std::mt19937_64& random) {
  kv_layout layout;
  layout.dtype = "fp8_e4m3";
  layout.page_tokens = 1u << random() % 8;
  layout.mla = random() % 2 == 0;
  layout.hybrid_mla = layout.mla && random() % 2 == 0;
  layout.all_cp_ranks_send = random() % 2 == 0;
  layout.kv_heads = 8;
  layout.end_layer = 4;
  layout.ranks = {1, 2, 0, 3, 1, 4};
  for (std::uint64_t i = random() % 5 * 2; i > 0; --i)
    layout.buffers.push_back({i << 30, i << 20, 1u << 12, no_layer});
  for (std::uint64_t i = random() % 4; i > 0; --i)
    layout.states.push_back(
        {static_cast<state_type>(random() % state_type_count),
         {{{i << 40, 4096, 64, 3}, 8, 2, {4, 4, 8}}, {{i, 99, 9, 4}, 0, 0, {}}}});
  for (std::uint64_t i = random() % 4; i > 0; --i)
    layout.aux.push_back({i << 41, 1 << 16, 64, no_layer});
  return layout;
}

message random_message(std::mt19937_64& random) {
  switch (random() % 13) {
  case 0:
    return hello{static_cast<engine_side>(1 + random() % 3),
                 {random(), 1},
                 {random()},
                 static_cast<std::uint16_t>(random()),
                 2,
                 "production",
                 random() % 2 == 0 ? "" : "10.0.0.7"};
  case 1:
    return random_layout(random);
  case 2:
    return join{{random()},
                {random()},
                7,
                limits::room_pages_max,
                random() % 2 == 0,
                1 + static_cast<std::uint32_t>(random() % limits::ranks_max)};
  case 3: {
    offer sent{{random()}, {random()}, {{5}, {2}, {}}, {}};
    sent.under.gen.value = (random() | 2) & ~std::uint64_t{1};
    sent.under.key.bytes[31] = 9;
    sent.pages = {3, random_items(random), random() % 2 == 0, {}, 8};
    for (auto i = random() % 3; i > 0; --i)
      sent.pages.states.push_back({static_cast<std::uint32_t>(i), random_items(random)});
    return sent;
  }
  case 4:
    return done{{random()}, {random()}, random(), random()};
  case 5:
    return abort{{random()}, {random()}, "the client has gone", random() % 2 == 1};
  case 6:
    return refusal{"another cluster"};
  case 7:
    return transfer_write{{random()}, {{3}, {4}, {}}, 30'000, random_pieces(random)};
  case 8: {
    transfer_read sent{{random()}, {}};
    for (const auto& piece : random_pieces(random))
      sent.ranges.push_back(piece.source_range());
    return sent;
  }
  case 9:
    return transfer_lent{{random()}, {{3}, {4}, {}}};
  case 10:
    return transfer_ended{{random()}, random() % 2 == 0, "the memory is not registered"};
  case 11:
    return transfer_stop{{random()}};
  default:
    return beat{};
  }
}

/// Returns the text in a message that people read; empty for kinds of messages without one.
std::string_view text_of(const message& said) {
  if (const auto* greeting = std::get_if<hello>(&said))
    return greeting->cluster;
  if (const auto* aborted = std::get_if<abort>(&said))
    return aborted->reason;
  if (const auto* refused = std::get_if<refusal>(&said))
    return refused->reason;
  if (const auto* ended = std::get_if<transfer_ended>(&said))
    return ended->reason;
  return {};
}

/// Expects that an accepted message is encoded to the bytes that it was decoded from: then the
/// decoder ignores no field, and no field has two encodings. Only unprintable bytes of texts may
/// differ.
void expect_whole(const message& read, const std::string& bytes) {
  const auto again = encode(read);
  ASSERT_EQ(again.size(), bytes.size());
  for (std::size_t i = 0; i < bytes.size(); ++i)
    ASSERT_TRUE(again[i] == bytes[i] ||
                (again[i] == '?' && printable(bytes.substr(i, 1)) != bytes.substr(i, 1)))
        << "byte " << i;
}

TEST(messages, come_back_as_they_were_sent) {
  std::mt19937_64 random(1);
  std::size_t seen[std::variant_size_v<message>] = {};
  for (int i = 0; i < 500; ++i) {
    const auto sent = random_message(random);
    auto back = decode(encode(sent));
    ASSERT_TRUE(back) << back.error().message;
    EXPECT_EQ(*back, sent);
    ++seen[sent.index()];
  }
  for (auto count : seen)
    EXPECT_GT(count, 0u);
}

TEST(messages, that_are_cut_short_or_too_long_are_malformed) {
  std::mt19937_64 random(2);
  for (int i = 0; i < 60; ++i) {
    const auto bytes = encode(random_message(random));
    for (std::size_t size = 0; size < bytes.size(); ++size) {
      // A copy in memory of exactly this size, so that sanitizers notice a read beyond the end.
      const std::vector<char> cut(bytes.begin(), bytes.begin() + static_cast<long>(size));
      EXPECT_FALSE(decode({cut.data(), cut.size()})) << size << " of " << bytes.size();
    }
    EXPECT_FALSE(decode(bytes + '\0'));
  }
}

TEST(messages, with_random_changes_are_refused_or_mean_what_they_say) {
  std::size_t refused = 0, taken = 0;
  for (std::uint64_t seed = 1; seed <= 4000; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937_64 random(seed);
    auto bytes = encode(random_message(random));
    for (auto changes = 1 + random() % 3; changes > 0; --changes)
      bytes[random() % bytes.size()] = static_cast<char>(random());
    const std::vector<char> exact(bytes.begin(), bytes.end());
    auto read = decode({exact.data(), exact.size()});
    if (!read) {
      ++refused;
      continue;
    }
    ++taken;
    expect_whole(*read, bytes);
  }
  EXPECT_GT(refused, 500u);
  EXPECT_GT(taken, 500u);
}

TEST(messages, of_random_bytes_take_no_memory_for_what_they_claim) {
  for (std::uint64_t seed = 1; seed <= 4000; ++seed) {
    std::mt19937_64 random(seed);
    std::vector<char> bytes(1 + random() % 200);
    for (auto& byte : bytes)
      byte = static_cast<char>(random() % 3 == 0 ? 0xff : random());
    bytes[0] = static_cast<char>(1 + random() % 14);
    if (auto read = decode({bytes.data(), bytes.size()}))
      expect_whole(*read, {bytes.data(), bytes.size()});
  }
}

TEST(messages, more_than_may_be_are_malformed) {
  offer sent;
  sent.under.gen = {2};
  sent.pages.pages.resize(limits::offer_pages_max);
  const auto good = encode(sent);
  EXPECT_TRUE(decode(good));
  constexpr std::size_t count_at = 1 + 8 + 8 + 44 + 4;
  auto more = good;
  more.insert(count_at + 4, std::string(4, '\0'));
  const std::uint32_t claimed = limits::offer_pages_max + 1;
  more.replace(count_at, 4, reinterpret_cast<const char*>(&claimed), 4);
  EXPECT_FALSE(decode(more)) << "8,193 pages";
  EXPECT_FALSE(decode(std::string(message_bytes_max + 1, '\7')));
  EXPECT_FALSE(decode(encode(join{{1}, {2}, limits::room_pages_max + 1, 0, false})));
  EXPECT_FALSE(decode(encode(join{{1}, {2}, 0, 0, false, 0})));
  EXPECT_FALSE(decode(encode(join{{1}, {2}, 0, 0, false, limits::ranks_max + 1})));
}

TEST(messages, fields_out_of_their_range_are_malformed) {
  offer closed;
  closed.under.gen = {3};
  EXPECT_FALSE(decode(encode(closed))) << "a lease with an odd generation";
  EXPECT_FALSE(decode(encode(hello{}))) << "nobody's process";
  auto bytes = encode(join{{1}, {2}, 3, 4, true});
  bytes[bytes.size() - 5] = 2;
  EXPECT_FALSE(decode(bytes)) << "neither true nor false";
  EXPECT_FALSE(decode(std::string(1, '\0')));
  EXPECT_FALSE(decode(std::string(1, '\16')));
  EXPECT_FALSE(decode(""));
}

TEST(messages, the_longest_layout_is_the_longest_that_is_no_offer) {
  kv_layout layout;
  layout.dtype = std::string(limits::dtype_bytes_max, 'x');
  layout.page_tokens = 1;
  layout.buffers.resize(limits::buffers_max, {1, 64, 64, 1});
  const state_tensor tensor{{1, 64, 64, 1}, 8, 1, std::vector<std::uint32_t>(8, 1)};
  layout.states.resize(limits::state_components_max);
  for (auto& component : layout.states)
    component.tensors.resize(limits::tensors_per_component_max, tensor);
  layout.aux.resize(limits::aux_fields_max, {1, 64, 64, 1});
  const auto bytes = encode(layout);
  EXPECT_EQ(bytes.size(), short_message_bytes_max);
  EXPECT_TRUE(decode(bytes));
  EXPECT_EQ(message_bytes_max_of(engine_side::decode), bytes.size());
  EXPECT_LT(message_bytes_max_of(engine_side::decode), 1u << 20);
  EXPECT_EQ(message_bytes_max_of(engine_side::prefill), message_bytes_max);
}

TEST(messages, memory_that_no_process_has_is_malformed) {
  const lease under{{3}, {4}, {}};
  const auto write = [&](const transfer_piece& piece) {
    return decode(encode(transfer_write{{1}, under, 1, {piece}}));
  };
  constexpr auto last = ~std::uint64_t{0};
  EXPECT_TRUE(write({4096, 4096, 1}));
  EXPECT_TRUE(write({last - 8, 4096, 8}));
  EXPECT_FALSE(write({4096, 4096, 0})) << "no bytes";
  EXPECT_FALSE(write({0, 4096, 1})) << "address 0";
  EXPECT_FALSE(write({4096, 0, 1})) << "address 0";
  EXPECT_FALSE(write({last - 8, 4096, 9})) << "beyond the address space";
  EXPECT_FALSE(write({4096, last - 8, 9})) << "beyond the address space";
  EXPECT_TRUE(decode(encode(transfer_read{{1}, {{4096, 1}}})));
  EXPECT_FALSE(decode(encode(transfer_read{{1}, {{4096, last - 4095}}})));
  EXPECT_FALSE(decode(encode(transfer_read{{1}, {{4096, 0}}})));
  auto more = encode(transfer_write{{1}, under, 1, {}});
  const std::uint32_t claimed = limits::transfer_pieces_max + 1;
  more.replace(more.size() - 4, 4, reinterpret_cast<const char*>(&claimed), 4);
  EXPECT_FALSE(decode(more + std::string(claimed * sizeof(transfer_piece), '\1')));
}

TEST(messages, a_hello_of_another_version_is_told_from_rubbish) {
  auto bytes = encode(hello{engine_side::decode, {1, 1}, {2}, 3, 0, "a"});
  bytes[1] = 77;
  for (auto with : {bytes, bytes.substr(0, 5)}) {
    auto read = decode(with);
    ASSERT_FALSE(read);
    EXPECT_EQ(read.error().code, errc::incompatible);
    EXPECT_THAT(read.error().message,
                HasSubstr("version 77 and not " + std::to_string(handoff_wire_version) + ";"));
  }
}

TEST(messages, a_layout_that_no_worker_can_have_is_refused_in_words) {
  std::mt19937_64 random(3);
  auto layout = random_layout(random);
  auto bytes = encode(layout);
  bytes[1 + 1 + layout.dtype.size()] = 0; // Sets the number of tokens of a page to 0.
  bytes[2 + 1 + layout.dtype.size()] = 0;
  auto read = decode(bytes);
  ASSERT_FALSE(read);
  EXPECT_THAT(read.error().message, HasSubstr("pages of 0 tokens"));
}

TEST(messages, texts_of_peers_can_be_printed) {
  std::string all;
  for (int value = 1; value < 255; ++value)
    all += static_cast<char>(value);
  const auto fine = printable(all);
  ASSERT_NE(all, fine);
  for (const message& sent : {message(abort{{1}, {2}, all}), message(refusal{all}),
                              message(hello{engine_side::decode, {1, 1}, {2}, 3, 0, all}),
                              message(transfer_ended{{1}, false, all})}) {
    auto read = decode(encode(sent));
    ASSERT_TRUE(read);
    EXPECT_EQ(text_of(*read), fine);
  }
  kv_layout layout;
  layout.dtype = "fp8_e4m3";
  layout.page_tokens = 1;
  auto bytes = encode(layout);
  for (const char byte : {'\n', '\x1b', '\x7f', '\xc3', ' '}) {
    bytes[2] = byte;
    auto read = decode(bytes);
    ASSERT_FALSE(read) << "a type's name is compared, so nothing is replaced";
    EXPECT_EQ(printable(read.error().message), read.error().message);
  }
}

TEST(messages, a_long_reason_is_cut) {
  auto read = decode(encode(abort{{1}, {2}, std::string(1000, 'x')}));
  ASSERT_TRUE(read);
  EXPECT_EQ(std::get<abort>(*read).reason.size(), limits::reason_bytes_max);
}

} // namespace
} // namespace peercache::handoff::messages_test
