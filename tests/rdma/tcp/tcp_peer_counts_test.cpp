// Tests of what a TCP data plane counts for each peer.

#include "rdma/peer_counters.hpp"
#include "tests/rdma/plane_rig.hpp"

#include <map>

namespace peercache::rdma::tcp_peer_counts_test {
namespace {

constexpr incarnation life{1, 1};

class tcp_peer_counts : public testing::Test {
protected:
  tcp_peer_counts() { rig.name = "node-2"; }

  tcp_data_plane_options options() {
    tcp_data_plane_options opts;
    opts.channels.counters = &counters;
    return opts;
  }
  /// Reads one page from a server with this fault. Returns the page's status.
  std::string read(fault what) {
    rig.serve(pool, life, what);
    return read();
  }
  std::string read(const incarnation& inc = life) {
    test_batch page(pool, 1, 200'000);
    rig.read(page, inc);
    return std::string{to_string(page.batch.pages[0].status)};
  }
  std::uint64_t reads() { return counters.of(rig.name).reads; }
  std::uint64_t bytes() { return counters.of(rig.name).bytes; }
  std::uint64_t errors() { return counters.of(rig.name).errors; }
  std::vector<std::string> names() const {
    std::vector<std::string> all;
    counters.for_each([&](const std::string& name, const peer_counts&) { all.push_back(name); });
    return all;
  }

  peer_counters counters;
  test_pool pool;
  tcp_rig rig{options()};
};

TEST_F(tcp_peer_counts, pages_that_came_and_their_bytes) {
  rig.serve(pool, life);
  test_batch what(pool, 3, 1000);
  what.batch.pages[1].gen = {999};
  rig.read(what, life);
  ASSERT_EQ(what.batch.pages[1].status, page_status::stale);
  EXPECT_EQ(reads(), 2u);
  EXPECT_EQ(bytes(), 2000u);
  EXPECT_EQ(errors(), 0u);
}

TEST_F(tcp_peer_counts, a_port_that_refuses) {
  EXPECT_EQ(read(), "unreachable");
  EXPECT_EQ(errors(), 1u);
  EXPECT_EQ(reads(), 0u);
}

TEST_F(tcp_peer_counts, an_address_that_cannot_be_connected_to) {
  test_batch what(pool, 1, 10);
  what.batch.peer = {{1}, life, "some-host.example", 1, "test", 0, data_service::pool, rig.name};
  what.batch.deadline = rig.now + std::chrono::seconds(1);
  rig.plane().submit(what.batch);
  rig.finish(what);
  EXPECT_EQ(errors(), 1u);
}

TEST_F(tcp_peer_counts, a_hello_without_an_answer) {
  rig.serve(pool, life, fault::silent);
  test_batch what(pool, 1, 1000);
  rig.submit(what, life, std::chrono::milliseconds(2000));
  rig.steps(5);
  rig.pass(std::chrono::milliseconds(600));
  rig.finish(what);
  EXPECT_TRUE(what.all(page_status::unreachable))
      << "the connect timeout ends it, not its deadline";
  EXPECT_EQ(errors(), 1u);
}

TEST_F(tcp_peer_counts, a_deadline_before_the_answer) {
  tcp_page_server_options opts;
  opts.inc = life;
  opts.faults.mute_answers = true;
  rig.serve(pool, opts);
  test_batch what(pool, 1, 1000);
  rig.submit(what, life, std::chrono::milliseconds(1));
  rig.finish(what);
  EXPECT_TRUE(what.all(page_status::timed_out));
  EXPECT_EQ(errors(), 1u);
}

TEST_F(tcp_peer_counts, a_connection_that_breaks_in_a_payload) {
  EXPECT_EQ(read(fault::breaks), "unreachable");
  EXPECT_EQ(errors(), 1u);
  EXPECT_EQ(bytes(), 0u) << "no page came whole";
}

TEST_F(tcp_peer_counts, what_is_no_error_of_the_peer) {
  ASSERT_EQ(read(fault::none), "hit");
  // The server is restarted while the connection is idle, so the reader sends the request a second
  // time.
  EXPECT_EQ(read(fault::none), "hit");
  EXPECT_EQ(read(incarnation{9, 9}), "holder_gone");
  test_batch cancelled(pool, 1, 200'000), closed(pool, 1, 200'000);
  rig.submit(cancelled, life);
  rig.steps(2);
  rig.plane().cancel(cancelled.batch);
  rig.submit(closed, life);
  rig.steps(2);
  rig.plane().shutdown();
  EXPECT_EQ(errors(), 0u);
}

TEST_F(tcp_peer_counts, a_name_can_be_printed_whatever_it_has_and_none_is_not_counted) {
  ASSERT_EQ(read(fault::none), "hit");
  rig.name = "a\n\xff";
  ASSERT_EQ(read(fault::none), "hit");
  EXPECT_EQ(names(), std::vector<std::string>{"node-2"}) << "a process keeps its name";
  rig.serve(pool, incarnation{2, 2});
  ASSERT_EQ(read(incarnation{2, 2}), "hit");
  EXPECT_EQ(names(), (std::vector<std::string>{"a??", "node-2"}));
  rig.name = "";
  rig.serve(pool, incarnation{3, 3});
  ASSERT_EQ(read(incarnation{3, 3}), "hit");
  EXPECT_EQ(names().size(), 2u);
}

TEST(peer_counters, peers_beyond_the_limit_are_counted_together) {
  peer_counters counters;
  for (std::size_t i = 0; i < peer_counters::peers_max + 3; ++i)
    ++counters.of(std::to_string(i)).errors;
  std::map<std::string, std::uint64_t> errors;
  counters.for_each(
      [&](const std::string& name, const peer_counts& counts) { errors[name] = counts.errors; });
  EXPECT_EQ(errors.size(), peer_counters::peers_max + 1);
  EXPECT_EQ(errors["others"], 3u);
}

} // namespace
} // namespace peercache::rdma::tcp_peer_counts_test
