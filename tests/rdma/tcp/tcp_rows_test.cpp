// Tests of memory under leases over TCP: of verdicts, which follow the payload, and of memory that
// goes away during an answer.

#include "common/test_guards.hpp"
#include "rdma/tcp/tcp_protocol.hpp"
#include "tests/rdma/plane_rig.hpp"
#include "tests/rdma/raw_peer.hpp"

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
  // The connection ends after the hello, the answer's header, the statuses and the payload; the
  // verdicts are missing.
  opts.faults.close_after_bytes = sizeof(hello_answer) + sizeof(answer_header) + 2 + 2 * 5000;
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

/// Sends a valid hello and a request of this record to the rig's server. Returns the answer;
/// nothing when the server ends the connection.
std::optional<answer_header> answer_to(tcp_rig& rig, const request_record& record) {
  raw_peer peer(rig.port);
  hello say;
  say.cluster = cluster_digest("test");
  say.inc = life;
  say.service = rig.service;
  std::vector<std::byte> bytes;
  append(bytes, say);
  append(bytes, request_header{request_magic, 1, 1});
  append(bytes, record);
  peer.send(bytes);
  std::optional<answer_header> heard;
  bool welcome = false;
  for (int i = 0; i < 10'000 && !heard && !peer.closed; ++i) {
    rig.now += std::chrono::microseconds(10);
    rig.server->poll(rig.now);
    if (!welcome)
      welcome = peer.hear<hello_answer>().has_value();
    if (welcome)
      heard = peer.hear<answer_header>();
    sched_yield();
  }
  EXPECT_TRUE(welcome);
  return heard;
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
