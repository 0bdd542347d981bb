// Tests of memory under leases over TCP: of verdicts, which follow the payload, and of memory that
// goes away during an answer.

#include "common/test_guards.hpp"
#include "rdma/tcp/tcp_protocol.hpp"
#include "tests/rdma/plane_rig.hpp"
#include "tests/rdma/raw_peer.hpp"

#include <algorithm>
#include <array>
#include <sched.h>

namespace peercache::rdma::tcp_rows_test {
namespace {

constexpr incarnation life{1, 1};

/// Tests with a server that sends small chunks, between which the test acts.
class tcp_rows_test : public testing::Test {
protected:
  tcp_rows_test() : rig({}, data_service::handoff) {}

  /// Serves the pool, and calls `act` when the server has sent `after_chunks` chunks of the answer.
  void serve(int after_chunks, std::function<void()> act) {
    tcp_page_server_options opts;
    opts.inc = life;
    opts.faults.send_chunk_bytes = 10'000;
    opts.faults.between_chunks = [this, after_chunks, act = std::move(act)] {
      if (++chunks == after_chunks)
        act();
    };
    rig.serve(pool, std::move(opts));
  }

  test_pool pool;
  tcp_rig rig;
  int chunks = 0;
};

TEST_F(tcp_rows_test, a_lease_that_falls_while_its_page_is_sent_is_stale_and_others_are_not) {
  serve(3, [this] { rig.lent->take_back(1); });
  test_batch what(pool, 3, 30'000);
  rig.read(what, life);
  EXPECT_EQ(what.batch.pages[0].status, page_status::hit);
  EXPECT_EQ(what.batch.pages[1].status, page_status::stale) << "although its checksum differs";
  EXPECT_EQ(what.batch.pages[2].status, page_status::hit);
  EXPECT_TRUE(what.holds(pool, 0) && what.holds(pool, 2));
  EXPECT_TRUE(what.guards_untouched());
}

TEST_F(tcp_rows_test, without_the_verdict_a_lease_that_fell_would_be_a_hit) {
  const guard_switched_off off(guard::fence);
  serve(3, [this] { rig.lent->take_back(1); });
  test_batch what(pool, 3, 30'000);
  what.batch.pages[1].verify = false;
  rig.read(what, life);
  EXPECT_EQ(what.batch.pages[1].status, page_status::hit);
  EXPECT_FALSE(what.holds(pool, 1));
}

TEST_F(tcp_rows_test, a_time_out_before_the_verdict_makes_no_hits) {
  tcp_page_server_options opts;
  opts.inc = life;
  // The connection ends after the hello, the answer's head and the payload; the verdicts are
  // missing.
  opts.faults.close_after_bytes = sizeof(hello_answer) + answer_head_bytes(2) + 2 * 5000;
  rig.serve(pool, std::move(opts));
  test_batch what(pool, 2, 5000);
  rig.read(what, life);
  EXPECT_TRUE(what.all(page_status::unreachable));
}

TEST_F(tcp_rows_test, memory_that_is_removed_in_mid_answer_ends_the_connection) {
  serve(2, [this] { EXPECT_TRUE(rig.lent->spans.remove(rig.lent->memory().data())); });
  test_batch what(pool, 3, 30'000);
  rig.read(what, life);
  EXPECT_TRUE(what.all(page_status::unreachable));
  EXPECT_EQ(rig.server->connections(), 0u);

  test_batch again(pool, 1, 100);
  rig.read(again, life);
  EXPECT_TRUE(again.all(page_status::refused)) << "a server that has nothing serves nothing";
}

/// Sends a valid hello and a request of these records to the rig's server. Returns the begin of the
/// answer; nothing when the server ends the connection.
template <class Begin>
std::optional<Begin> answer_to(tcp_rig& rig, std::span<const request_record> records) {
  raw_peer peer(rig.port);
  hello say;
  say.cluster = cluster_digest("test");
  say.inc = life;
  say.service = rig.service;
  std::vector<std::byte> bytes;
  append(bytes, say);
  append(bytes, request_header{request_magic, static_cast<std::uint32_t>(records.size()), 1});
  for (const auto& record : records)
    append(bytes, record);
  peer.send(bytes);
  std::optional<Begin> heard;
  bool welcome = false;
  for (int i = 0; i < 10'000 && !heard && !peer.closed; ++i) {
    rig.now += std::chrono::microseconds(10);
    rig.server->poll(rig.now);
    if (!welcome)
      welcome = peer.hear<hello_answer>().has_value();
    if (welcome)
      heard = peer.hear<Begin>();
    sched_yield();
  }
  EXPECT_TRUE(welcome);
  return heard;
}

std::optional<answer_header> answer_to(tcp_rig& rig, const request_record& record) {
  return answer_to<answer_header>(rig, {&record, 1});
}

TEST(tcp_rows, a_record_of_the_other_service_or_beyond_a_limit_ends_the_connection) {
  test_pool pool;
  tcp_rig leases({}, data_service::handoff);
  tcp_rig slots;
  leases.serve(pool, life);
  slots.serve(pool, life);
  request_record record;
  record.length_bytes = 600;
  EXPECT_FALSE(answer_to(leases, record));
  EXPECT_TRUE(answer_to(slots, record));
  record.source = {1u << 20, 200, 6, 100};
  EXPECT_TRUE(answer_to(leases, record));
  EXPECT_FALSE(answer_to(slots, record));
  record.source.stride_bytes = ~std::uint64_t{0} / 3;
  EXPECT_FALSE(answer_to(leases, record));
  record.source = {~std::uint64_t{0} - 100, 600, 1, 600};
  EXPECT_FALSE(answer_to(leases, record));
}

TEST_F(tcp_rows_test, heads_and_verdicts_are_whole_lines_filled_with_zeros) {
  tcp_page_server_options opts;
  opts.inc = life;
  rig.serve(pool, std::move(opts));
  request_record record;
  record.length_bytes = 100;
  record.source = {1u << 20, 100, 1, 100};
  const std::vector<request_record> records(49, record);
  const auto answer = answer_to<std::array<std::byte, 128 + 64>>(rig, records);
  ASSERT_TRUE(answer);
  const auto is_padded = [&](std::size_t begin, std::size_t end) {
    const auto padding = answer->begin() + begin + records.size();
    return std::all_of(
               answer->begin() + begin, padding,
               [](std::byte b) { return is_answer_status(std::to_integer<std::uint8_t>(b)); }) &&
           std::all_of(padding, answer->begin() + end,
                       [](std::byte b) { return b == std::byte{0}; });
  };
  EXPECT_TRUE(is_padded(sizeof(answer_header), 128)) << "statuses: nobody serves the memory";
  EXPECT_TRUE(is_padded(128, 192)) << "verdicts";
}

TEST(tcp_rows, what_stands_between_payloads_keeps_their_alignment) {
  // A copy in the kernel that begins 1 to 31 bytes behind the alignment of its source is slow.
  for (std::size_t count = 1; count <= request_pages_max; ++count) {
    EXPECT_EQ(answer_head_bytes(count) % 64, 0u);
    EXPECT_GE(answer_head_bytes(count), sizeof(answer_header) + count);
    EXPECT_EQ(whole_answer_lines(count) % 64, 0u);
  }
  EXPECT_EQ(answer_head_bytes(48), 64u);
  EXPECT_EQ(answer_head_bytes(49), 128u);
}

TEST(tcp_rows, a_reader_of_the_other_service_is_refused) {
  hello say;
  say.cluster = 5;
  say.inc = life;
  EXPECT_EQ(judge(say, 5, life, data_service::pool), hello_verdict::accepted);
  EXPECT_EQ(judge(say, 5, life, data_service::handoff), hello_verdict::incompatible);
  say.service = data_service::handoff;
  EXPECT_EQ(judge(say, 5, life, data_service::pool), hello_verdict::incompatible);
  EXPECT_EQ(judge(say, 5, life, data_service::handoff), hello_verdict::accepted);
}

} // namespace
} // namespace peercache::rdma::tcp_rows_test
