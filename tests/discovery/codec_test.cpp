#include "common/limits.hpp"
#include "discovery/packet_codec.hpp"
#include "discovery/view_codec.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace peercache::discovery::codec_test {
namespace {

member member_named(const std::string& name, std::uint64_t inc = 1) {
  return {.name = name,
          .id = node_id_of(name),
          .inc = {inc, ~inc},
          .host = "10.1.2.3",
          .control_port = 31998,
          .data_port = 31999,
          .http_port = 31997,
          .lookup_port = 31996};
}

view view_of(std::size_t members) {
  view v{.term = 7, .version = 42, .issuer = {5, 6}};
  for (std::size_t i = 1; i <= members; ++i)
    v.members.push_back(member_named("node" + std::to_string(i), i));
  std::sort(v.members.begin(), v.members.end(),
            [](const member& a, const member& b) { return a.id < b.id; });
  for (std::size_t i = 1; i <= std::min<std::size_t>(members, 3); ++i)
    v.masters.push_back("node" + std::to_string(i));
  return v;
}

/// Returns `v` as a fragment: the masters of the view before were two members of `v` and a third,
/// which is gone.
view fragment_of(view v) {
  v.former_masters = {v.members[0], v.members[1], member_named("gone", 9)};
  std::sort(v.former_masters.begin(), v.former_masters.end(),
            [](const member& a, const member& b) { return a.id < b.id; });
  return v;
}

/// Returns the difference to a view after `v`, in which its last member is another process.
view_difference change_of(view v) {
  const auto base = v;
  ++v.version;
  v.members.back().inc = {99, 99};
  return *difference_between(base, v);
}

std::vector<packet> one_of_each() {
  view_stamp stamp{7, 41, {1, 2}};
  endpoint from{"host-a", 31998};
  return {join_packet{member_named("n"), stamp, true, false},
          refused_packet{refusal::full, "the cluster is full"},
          heartbeat_packet{from, {1, 2}, stamp, true, std::nullopt},
          heartbeat_packet{from, {1, 2}, stamp, false, incarnation{3, 4}},
          heartbeat_answer_packet{from, {1, 2}, stamp, true, false, std::nullopt, std::nullopt},
          heartbeat_answer_packet{from, {1, 2}, stamp, false, true, view_of(3), std::nullopt},
          heartbeat_answer_packet{
              from, {1, 2}, stamp, false, true, std::nullopt, change_of(view_of(5))},
          view_packet{view_of(5)},
          view_packet{fragment_of(view_of(3))},
          view_change_packet{from, change_of(view_of(5))},
          leave_packet{{3, 4}},
          prepare_packet{from, {17}, stamp, {8, {1, 2}}},
          propose_packet{from, stamp, {8, {1, 2}}, true, view_of(4)},
          vote_packet{.voter = {17},
                      .inc = {3, 4},
                      .base = stamp,
                      .attempt = {8, {1, 2}},
                      .step = voting_step::propose,
                      .answer = verdict::vetoed,
                      .promised = {8, {1, 2}},
                      .alive = {{5, 6}, {7, 8}},
                      .accepted = {}},
          vote_packet{.voter = {17},
                      .inc = {3, 4},
                      .base = stamp,
                      .attempt = {8, {1, 2}},
                      .answer = verdict::granted,
                      .successor = true,
                      .promised = {8, {1, 2}},
                      .alive = {},
                      .accepted = accepted_view{{7, {5, 6}}, view_of(2)}}};
}

TEST(view_codec, members_and_views_come_back_as_they_were) {
  auto who = member_named("node-7", 99);
  auto back = decode_member(encode_member(who));
  ASSERT_TRUE(back);
  EXPECT_EQ(*back, who);
  for (std::size_t size : {0, 1, 2, 100, 4096}) {
    auto v = size == 0 ? view{} : view_of(size);
    auto decoded = decode_view(encode_view(v));
    ASSERT_TRUE(decoded) << size;
    EXPECT_EQ(*decoded, v);
  }
}

TEST(view_codec, a_fragment_comes_back_with_the_masters_it_has_lost) {
  const auto v = fragment_of(view_of(5));
  auto back = decode_view(encode_view(v));
  ASSERT_TRUE(back);
  EXPECT_EQ(*back, v);
  EXPECT_TRUE(back->fragment());
  EXPECT_EQ(back->masters_lost(), 1u);
  auto wrong = v;
  std::swap(wrong.former_masters[0], wrong.former_masters[1]);
  EXPECT_FALSE(decode_view(encode_view(wrong))) << "out of order";
  view nobody;
  nobody.former_masters = v.former_masters;
  EXPECT_FALSE(decode_view(encode_view(nobody))) << "a fragment without members";
}

TEST(view_codec, a_view_comes_back_with_those_who_are_gone) {
  auto v = view_of(3);
  v.gone.push_back({"lost", "10.0.0.9", 31998, 1'800'000'000'123, departure::connection_broke});
  v.gone.push_back({"other", "10.0.0.8", 31999, 7, departure::replaced});
  auto back = decode_view(encode_view(v));
  ASSERT_TRUE(back);
  EXPECT_EQ(*back, v);
}

TEST(view_codec, who_is_gone_is_no_member_and_gone_once_for_a_known_reason) {
  const departed lost{"lost", "10.0.0.9", 31998, 7, departure::silent};
  auto v = view_of(3);
  v.gone = {lost, lost};
  EXPECT_FALSE(decode_view(encode_view(v)));
  v.gone = {lost};
  v.gone.front().name = v.members.front().name;
  EXPECT_FALSE(decode_view(encode_view(v)));
  v.gone = {lost};
  auto bytes = encode_view(v);
  ASSERT_TRUE(decode_view(bytes));
  bytes.back() = 3; // The reason is the last byte.
  EXPECT_FALSE(decode_view(bytes));
}

TEST(view_codec, every_truncation_and_every_extra_byte_is_an_error) {
  auto bytes = encode_view(view_of(3));
  for (std::size_t size = 0; size < bytes.size(); ++size)
    EXPECT_FALSE(decode_view(std::string_view(bytes).substr(0, size))) << size;
  EXPECT_FALSE(decode_view(bytes + '\0'));
  auto who = encode_member(member_named("n"));
  for (std::size_t size = 0; size < who.size(); ++size)
    EXPECT_FALSE(decode_member(std::string_view(who).substr(0, size))) << size;
  EXPECT_FALSE(decode_member(who + "x"));
}

TEST(view_codec, another_format_byte_is_an_error) {
  auto bytes = encode_view(view_of(2));
  bytes[0] = view_format + 1;
  EXPECT_FALSE(decode_view(bytes));
}

TEST(view_codec, a_forged_member_count_takes_no_memory) {
  // Format, term, version and issuer take 33 bytes; the count of members follows.
  auto bytes = encode_view(view_of(2));
  bytes[33] = static_cast<char>(0xff);
  bytes[34] = static_cast<char>(0xff);
  EXPECT_FALSE(decode_view(bytes)) << "more members than a cluster may have";
  bytes[33] = 0x00;
  bytes[34] = 0x10;
  EXPECT_FALSE(decode_view(bytes)) << "more members than there are bytes";
}

TEST(view_codec, a_term_beyond_the_limit_is_forged) {
  auto v = view_of(1);
  v.term = term_max + 1;
  EXPECT_FALSE(decode_view(encode_view(v)));
}

TEST(view_codec, members_out_of_order_or_twice_are_an_error) {
  auto v = view_of(3);
  auto bytes = encode_view(v);
  // All three names are equally long, so the encoded members can trade places.
  auto size = encode_member(v.members[0]).size();
  constexpr std::size_t first = 35;
  ASSERT_EQ(bytes.substr(first, size), encode_member(v.members[0]));
  auto swapped = bytes;
  swapped.replace(first, size, bytes, first + size, size);
  EXPECT_FALSE(decode_view(swapped)) << "twice the same";
  swapped.replace(first + size, size, bytes, first, size);
  EXPECT_FALSE(decode_view(swapped)) << "out of order";
}

TEST(view_codec, two_members_with_the_same_incarnation_are_an_error) {
  auto v = view_of(3);
  v.members[2].inc = v.members[0].inc;
  EXPECT_FALSE(decode_view(encode_view(v)));
  auto fragment = fragment_of(view_of(3));
  ASSERT_TRUE(decode_view(encode_view(fragment)));
  fragment.former_masters[2].inc = fragment.former_masters[0].inc;
  EXPECT_FALSE(decode_view(encode_view(fragment)));
}

TEST(view_codec, a_view_with_members_has_a_leader) {
  auto v = view_of(3);
  v.masters.clear();
  EXPECT_FALSE(decode_view(encode_view(v)));
  v.masters = {"node1", "node1"};
  EXPECT_FALSE(decode_view(encode_view(v)));
}

TEST(view_codec, names_of_other_than_printable_ascii_are_an_error) {
  for (const auto* name : {"", "a b", "a\nb", "tab\t", "\x7f", "n\xff", "k\xc3\xb6ln"}) {
    EXPECT_FALSE(decode_member(encode_member(member_named(name)))) << name;
  }
  auto nobody = member_named("n");
  nobody.inc = {};
  EXPECT_FALSE(decode_member(encode_member(nobody)));
}

TEST(packet_codec, every_kind_comes_back_as_it_was) {
  for (const auto& p : one_of_each()) {
    auto back = decode_packet(encode_packet(p, "prod"), "prod");
    ASSERT_TRUE(back) << p.index();
    EXPECT_EQ(*back, p);
  }
}

TEST(packet_codec, another_cluster_or_wire_version_is_incompatible) {
  auto bytes = encode_packet(leave_packet{{1, 2}}, "prod");
  auto other = decode_packet(bytes, "test");
  ASSERT_FALSE(other);
  EXPECT_EQ(other.error().code, errc::incompatible);
  bytes[0] = packet_wire_version + 1;
  auto newer = decode_packet(bytes, "prod");
  ASSERT_FALSE(newer);
  EXPECT_EQ(newer.error().code, errc::incompatible);
}

TEST(packet_codec, every_truncation_is_an_error) {
  for (const auto& p : one_of_each()) {
    auto bytes = encode_packet(p, "c");
    for (std::size_t size = 0; size < bytes.size(); ++size)
      EXPECT_FALSE(decode_packet(std::string_view(bytes).substr(0, size), "c")) << p.index();
    EXPECT_FALSE(decode_packet(bytes + "x", "c")) << p.index();
  }
}

TEST(packet_codec, a_term_of_an_attempt_beyond_the_limit_is_forged) {
  view_stamp base{7, 41, {1, 2}};
  prepare_packet p{{"host-a", 31998}, {17}, base, {term_max + 1, {1, 2}}};
  EXPECT_FALSE(decode_packet(encode_packet(p, "c"), "c"));
  p.attempt.term = term_max;
  EXPECT_TRUE(decode_packet(encode_packet(p, "c"), "c"));
}

TEST(packet_codec, a_long_reason_is_cut) {
  auto back = decode_packet(
      encode_packet(refused_packet{refusal::malformed, std::string(5000, 'r')}, "c"), "c");
  ASSERT_TRUE(back);
  EXPECT_EQ(std::get<refused_packet>(*back).reason.size(), reason_bytes_max);
}

/// Decoding any bytes gives either an error, or a packet that encodes to exactly these bytes.
TEST(packet_codec, random_mutations_are_refused_or_mean_what_they_say) {
  std::size_t refused = 0;
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937_64 random(seed);
    for (const auto& p : one_of_each()) {
      for (int round = 0; round < 200; ++round) {
        auto bytes = encode_packet(p, "c");
        for (auto changes = 1 + random() % 3; changes-- > 0;)
          bytes[random() % bytes.size()] = static_cast<char>(random());
        if (random() % 4 == 0)
          bytes.resize(random() % (bytes.size() + 4));
        auto back = decode_packet(bytes, "c");
        refused += back ? 0 : 1;
        if (back) {
          EXPECT_EQ(encode_packet(*back, "c"), bytes);
        }
      }
    }
  }
  EXPECT_GT(refused, 1000u);
}

} // namespace
} // namespace peercache::discovery::codec_test
