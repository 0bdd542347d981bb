// Tests of a reader whose peer, link or memory region goes away: each batch must end by its
// deadline with its pages as misses, and later batches must work again without help.

#include "tests/verbs/forked_node.hpp"
#include "tests/verbs/guest_network.hpp"
#include "tests/verbs/lying_server.hpp"

namespace peercache::rdma::whole_path_failures_test {
namespace {

using namespace std::chrono_literals;

constexpr incarnation life{1, 1};
constexpr incarnation next_life{2, 2};
/// Time limit for an emulated device on a machine that may be busy.
constexpr auto patience = 60s;
/// Deadline of a batch that must fail: the failure must show before the deadline.
constexpr auto deadline = 10s;

class whole_path_failures : public testing::Test {
protected:
  void start_reader() { rail.emplace("rxe0"); }

  void submit(test_batch& what, const peer_endpoint& peer, clock::duration within) {
    pool.place(what);
    what.batch.peer = peer;
    what.batch.deadline = clock::now() + within;
    rail->submit(what.batch);
  }

  clock::duration read(test_batch& what, const peer_endpoint& peer,
                       clock::duration within = patience) {
    const auto begin = clock::now();
    submit(what, peer, within);
    what.batch.wait();
    return clock::now() - begin;
  }

  void expect_read(const peer_endpoint& peer) {
    test_batch what(pool.pages, 3, 5000);
    read(what, peer);
    expect_all_hits(what, pool.pages);
  }

  /// Reads until a read succeeds again; reads may miss until the fault is mended.
  void expect_read_again(const peer_endpoint& peer) {
    const auto until = clock::now() + patience;
    for (bool hit = false; !hit; std::this_thread::sleep_for(10ms)) {
      ASSERT_LT(clock::now(), until) << "reads never worked again";
      test_batch what(pool.pages, 1, 5000);
      read(what, peer);
      hit = what.all(page_status::hit) && what.holds(pool.pages, 0);
    }
  }

  void expect_missed(const test_batch& what, page_status status) {
    EXPECT_TRUE(what.all(status)) << to_string(what.batch.pages[0].status);
    EXPECT_TRUE(what.guards_untouched());
    const auto pages = what.batch.pages.size();
    EXPECT_EQ(rail->counted(status, pages), pages);
  }

  std::uint64_t failed(ibv_wc_status status) { return rail->counters().errors[status]; }

  /// Waits until the rail has posted more than `more_than` READs of payloads since it was made.
  void wait_for_reads(std::uint64_t more_than = 0) {
    const auto until = clock::now() + patience;
    while (rail->counters().payload_reads <= more_than && clock::now() < until)
      std::this_thread::yield();
    ASSERT_GT(rail->counters().payload_reads, more_than);
  }

  node_pool pool;
  std::optional<reading_rail> rail;
};

class lies : public whole_path_failures {
protected:
  void expect_found(lie what, ibv_wc_status wanted) {
    // With the lie `past_the_end` only the first of these pages can be read.
    test_batch pages(pool.pages, 3, 4096);
    pool.place(pages);
    start_reader();
    lying_server peer(pool.memory, 4096, life);
    peer.tells = what;
    const auto took = read(pages, peer.endpoint(), deadline);
    EXPECT_LT(took, deadline);
    expect_missed(pages, page_status::unreachable);
    EXPECT_EQ(failed(wanted), 1u) << failed_work(rail->counters());
    peer.tells = lie::none;
    expect_read(peer.endpoint());
  }
};

TEST_F(lies, a_wrong_key_is_a_miss) {
  expect_found(lie::wrong_key, IBV_WC_REM_ACCESS_ERR);
}

TEST_F(lies, a_region_that_was_given_back_is_a_miss) {
  expect_found(lie::region_gone, IBV_WC_REM_ACCESS_ERR);
}

TEST_F(lies, a_read_past_the_regions_end_is_a_miss) {
  expect_found(lie::past_the_end, IBV_WC_REM_ACCESS_ERR);
}

TEST_F(lies, a_queue_pair_that_is_gone_is_a_miss) {
  expect_found(lie::queue_pair_gone, IBV_WC_RETRY_EXC_ERR);
}

TEST_F(whole_path_failures, a_peer_that_is_killed_within_a_batch_is_a_miss) {
  test_batch what(pool.pages, 64, 256u << 10);
  test_batch first(pool.pages, 3, 5000);
  test_batch next(pool.pages, 3, 5000);
  for (auto* each : {&what, &first, &next})
    pool.place(*each);
  forked_node node(pool, life);
  forked_node successor(pool, next_life);
  const auto port = node.serve_at(0);
  ASSERT_NE(port, 0);
  start_reader();
  const peer_endpoint peer{{1}, life, "127.0.0.1", port, "test", 1};
  read(first, peer);
  expect_all_hits(first, pool.pages);

  const registered memory(what, {&*rail});
  const auto begin = clock::now();
  submit(what, peer, deadline);
  wait_for_reads(3);
  node.kill();
  what.batch.wait();
  EXPECT_LT(clock::now() - begin, deadline);
  expect_missed(what, page_status::unreachable);

  ASSERT_EQ(successor.serve_at(port), port);
  auto peer_now = peer;
  peer_now.inc = next_life;
  read(next, peer_now);
  expect_all_hits(next, pool.pages);
}

class cut_links : public whole_path_failures {
protected:
  void expect_miss_while_down(int end) {
    test_batch what(pool.pages, 64, 256u << 10);
    start_reader();
    serving_node node(pool.memory.served(), life, {"rxe1"});
    expect_read(node.endpoint());
    const registered memory(what, {&*rail});
    // The link is so slow that the whole batch takes some seconds.
    const slow_link slow(1, "rate 40mbit");
    const auto begin = clock::now();
    submit(what, node.endpoint(), deadline);
    wait_for_reads(3);
    {
      cut_link cut(end);
      what.batch.wait();
      EXPECT_LT(clock::now() - begin, deadline);
      expect_missed(what, page_status::unreachable);
    }
    expect_read_again(node.endpoint());
  }
};

TEST_F(cut_links, the_readers_end_is_a_miss_until_it_is_back) {
  expect_miss_while_down(0);
}

TEST_F(cut_links, the_servers_end_is_a_miss_until_it_is_back) {
  expect_miss_while_down(1);
}

TEST_F(whole_path_failures, after_a_time_out_no_byte_arrives) {
  test_batch what(pool.pages, 64, 256u << 10);
  start_reader();
  serving_node node(pool.memory.served(), life, {"rxe1"});
  expect_read(node.endpoint());
  const registered memory(what, {&*rail});
  // The link is so slow that the whole batch takes many seconds.
  std::optional<slow_link> slow(std::in_place, 1, "rate 20mbit");
  const auto took = read(what, node.endpoint(), 2s);
  EXPECT_LT(took, deadline);
  const auto is_untouched = [](std::byte one) { return one == test_batch::untouched; };
  EXPECT_FALSE(std::all_of(what.memory.begin(), what.memory.end(), is_untouched))
      << "the READs had not begun";
  std::fill(what.memory.begin(), what.memory.end(), test_batch::untouched);
  expect_missed(what, page_status::timed_out);
  bool came = false;
  for (const auto until = clock::now() + 5s; !came && clock::now() < until;)
    came = !std::all_of(what.memory.begin(), what.memory.end(), is_untouched);
  EXPECT_FALSE(came);
  slow.reset();
  expect_read(node.endpoint());
}

} // namespace
} // namespace peercache::rdma::whole_path_failures_test
