// Tests of the verbs handshake with hostile bytes: damaged messages, judged by the protocol and by
// an oracle that computes in 128 bits.

#include "tests/rdma/verbs/verbs_messages.hpp"

#include <gtest/gtest.h>

#include <random>

namespace peercache::rdma::verbs_protocol_hostile_test {
namespace {

using namespace verbs_messages;

__extension__ using wide = unsigned __int128;

bool end_is_allowed(const queue_pair_end& end) {
  bool gid = false;
  for (const auto byte : end.gid)
    gid |= byte != 0;
  const bool mtu = end.mtu_bytes == 256 || end.mtu_bytes == 512 || end.mtu_bytes == 1024 ||
                   end.mtu_bytes == 2048 || end.mtu_bytes == 4096;
  return (end.queue_pair >> 24) == 0 && end.queue_pair > 0 && (end.psn >> 24) == 0 && mtu &&
         end.message_bytes >= 64 && end.initiator_depth > 0 && end.responder_depth > 0 &&
         ((end.layer == 0 && gid) || (end.layer == 1 && end.lid > 0)) &&
         end.reserved == std::array<std::uint8_t, 3>{};
}

bool hello_is_allowed(const verbs_hello& say) {
  return say.magic == 0x48564350 && say.version == 4 && bytes_of(say)[7] == 0 &&
         say.cluster == cluster && say.inc == life && say.end.layer == ethernet &&
         end_is_allowed(say.end);
}

bool answer_is_allowed(const verbs_answer& answer) {
  const wide table = answer.table_address, pages = answer.pages_address;
  const wide region_end = table + answer.region_bytes, granules = answer.granules;
  return answer.magic == 0x41564350 && answer.version == 4 &&
         answer.service == data_service::pool && answer.verdict == verbs_verdict::accepted &&
         answer.rail < answer.rails && answer.reserved == std::array<std::uint8_t, 6>{} &&
         end_is_allowed(answer.end) && answer.chunks >= 1 && answer.chunks <= 4096 &&
         granules > 0 && table > 0 && table % 64 == 0 && region_end < wide{1} << 64 &&
         pages >= table + granules * 64 && pages + granules * 4096 <= region_end;
}

bool chunk_is_allowed(const region_chunk& chunk, const verbs_answer& answer) {
  const wide begin = chunk.address, end = begin + chunk.bytes;
  const wide region = answer.table_address, region_end = region + answer.region_bytes;
  if (chunk.magic != 0x43564350 || chunk.bytes == 0 ||
      chunk.reserved != std::array<std::uint8_t, 11>{})
    return false;
  if (bytes_of(chunk)[28] == 1)
    return chunk.index == 0 && begin > 0 && end < wide{1} << 64 &&
           (end <= region || begin >= region_end);
  return bytes_of(chunk)[28] == 0 && chunk.index < answer.chunks && begin >= region &&
         end <= region_end;
}

/// Returns a valid message with a few damaged fields: single bytes, or whole words with values that
/// provoke integer overflow.
template <class T>
T mutated(const T& right, std::mt19937_64& random) {
  static constexpr std::uint64_t provoking[] = {
      0, 1, 0x7FFFFFFF, 0xFFFFFFFF, 1ull << 24, 1ull << 63, ~0ull, ~0ull - 4095, 4096, 64};
  auto bytes = bytes_of(right);
  for (auto damages = 1 + random() % 3; damages > 0; --damages) {
    if (random() % 2 == 0) {
      bytes[random() % bytes.size()] = static_cast<std::uint8_t>(random());
      continue;
    }
    const std::size_t width = random() % 2 == 0 ? 4 : 8;
    const auto at = random() % ((bytes.size() - width) / 4 + 1) * 4;
    const auto value = provoking[random() % std::size(provoking)];
    std::memcpy(&bytes[at], &value, width);
  }
  T made;
  std::memcpy(static_cast<void*>(&made), bytes.data(), sizeof made);
  return made;
}

TEST(verbs_protocol, hostile_bytes_pass_exactly_when_the_rules_allow_them) {
  const auto seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 random(seed);
  std::uint32_t passed = 0, stopped = 0;
  const auto note = [&](bool did, bool may, const char* what) {
    ASSERT_EQ(did, may) << what;
    ++(did ? passed : stopped);
  };
  for (int round = 0; round < 200'000 && !testing::Test::HasFatalFailure(); ++round) {
    const auto say = mutated(good_hello(), random);
    note(verdict_of(say) == verbs_verdict::accepted, hello_is_allowed(say), "hello");
    const auto answer = mutated(good_answer(), random);
    note(well_formed(answer), answer_is_allowed(answer), "answer");
    const auto chunk = mutated(good_chunk(), random);
    const auto to = answer_is_allowed(answer) ? answer : good_answer();
    note(within(chunk, to), chunk_is_allowed(chunk, to), "chunk");
    const auto area = mutated(good_area(), random);
    note(within(area, to), chunk_is_allowed(area, to), "area");
    const auto ready = mutated(verbs_ready{}, random);
    note(well_formed(ready), bytes_of(ready) == bytes_of(verbs_ready{}), "ready");
    if (end_is_allowed(say.end))
      note(well_formed(agree(say.end, good_end())), true, "agreed");
  }
  EXPECT_GT(passed, 10'000u);
  EXPECT_GT(stopped, 100'000u);
}

} // namespace
} // namespace peercache::rdma::verbs_protocol_hostile_test
