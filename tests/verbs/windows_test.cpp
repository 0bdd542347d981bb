// Memory windows of a real device: what their keys open, to whom, and until when.

#include "tests/verbs/rail_pair.hpp"
#include "tests/verbs/reader_work.hpp"

namespace peercache::rdma::verbs::windows_test {

namespace {

constexpr std::size_t pool_bytes = 1u << 20;
constexpr std::uint32_t page_bytes = 4096;

/// Memory on rxe1 that is served by windows alone, and a destination on rxe0.
class windows : public testing::Test {
protected:
  /// A connection, and the key of a window that is bound to its serving end.
  struct opened {
    explicit opened(windows& of) : pair(*of.reads, *of.serves) {
      window = must(of.served.windows()->bind(pair.server.pair, 7));
      const auto until = steady_clock::now() + std::chrono::seconds(10);
      ibv_wc done{};
      while (pair.server.completions.poll({&done, 1}) == 0 && steady_clock::now() < until)
        std::this_thread::yield();
      EXPECT_EQ(done.wr_id, 7u);
      EXPECT_EQ(done.status, IBV_WC_SUCCESS) << status_name(done.status);
    }
    rail_pair pair;
    memory_window window;
  };

  ibv_wc_status run(rail_pair& over, ibv_wr_opcode what, std::uint32_t key,
                    std::uint64_t offset = 0, std::uint32_t bytes = page_bytes) {
    auto piece = piece_of(landing_region, std::span(landing).first(bytes));
    return over.run(what, {&piece, 1}, served.address() + offset, key).value_or(IBV_WC_GENERAL_ERR);
  }

  std::unique_ptr<device> reads = must(device::open("rxe0", {}));
  std::unique_ptr<device> serves = must(device::open("rxe1", {}));
  buffer pool = random_bytes(pool_bytes, 1);
  buffer landing = buffer(pool_bytes);
  memory_region served = must(memory_region::register_memory(*serves, pool, region_use::windows));
  memory_region landing_region =
      must(memory_region::register_memory(*reads, landing, region_use::local_write));
};

TEST_F(windows, the_device_has_them) {
  EXPECT_TRUE(serves->port().can.windows);
}

TEST_F(windows, a_read_through_one_is_right_up_to_the_last_byte) {
  opened one(*this);
  EXPECT_EQ(run(one.pair, IBV_WR_RDMA_READ, one.window.remote_key(), 0, pool_bytes),
            IBV_WC_SUCCESS);
  EXPECT_EQ(landing, pool);
}

TEST_F(windows, writes_and_atomics_fail_even_from_a_queue_pair_that_takes_them) {
  const auto before = pool;
  for (auto what : {IBV_WR_RDMA_WRITE, IBV_WR_ATOMIC_FETCH_AND_ADD, IBV_WR_ATOMIC_CMP_AND_SWP}) {
    opened one(*this);
    ibv_qp_attr every_right{};
    every_right.qp_access_flags =
        0xf; // All rights, by number: the style check bans some of their names.
    ASSERT_EQ(ibv_modify_qp(one.pair.server.pair.get(), &every_right, IBV_QP_ACCESS_FLAGS), 0);
    EXPECT_EQ(run(one.pair, what, one.window.remote_key(), 0, 8), IBV_WC_REM_ACCESS_ERR) << what;
    EXPECT_EQ(pool, before);
  }
}

TEST_F(windows, a_read_outside_fails) {
  for (const std::uint64_t offset :
       {std::uint64_t{pool_bytes} - page_bytes + 1, ~std::uint64_t{0}}) {
    opened one(*this);
    EXPECT_EQ(run(one.pair, IBV_WR_RDMA_READ, one.window.remote_key(), offset),
              IBV_WC_REM_ACCESS_ERR)
        << offset;
  }
}

TEST_F(windows, a_read_over_another_queue_pair_fails) {
  opened one(*this), other(*this);
  EXPECT_EQ(run(other.pair, IBV_WR_RDMA_READ, one.window.remote_key()), IBV_WC_REM_ACCESS_ERR);
  EXPECT_EQ(run(one.pair, IBV_WR_RDMA_READ, one.window.remote_key()), IBV_WC_SUCCESS);
}

TEST_F(windows, a_read_after_the_window_has_ended_fails) {
  opened one(*this);
  const auto key = one.window.remote_key();
  EXPECT_EQ(run(one.pair, IBV_WR_RDMA_READ, key), IBV_WC_SUCCESS);
  one.window = {};
  EXPECT_EQ(run(one.pair, IBV_WR_RDMA_READ, key), IBV_WC_REM_ACCESS_ERR);
}

TEST_F(windows, a_region_takes_its_windows_with_it) {
  opened one(*this);
  const auto address = served.address();
  const auto key = one.window.remote_key();
  served.reset();
  auto piece = piece_of(landing_region, std::span(landing).first(page_bytes));
  EXPECT_EQ(one.pair.run(IBV_WR_RDMA_READ, {&piece, 1}, address, key), IBV_WC_REM_ACCESS_ERR);
  served = must(memory_region::register_memory(*serves, pool, region_use::windows));
}

TEST_F(windows, the_regions_own_keys_open_nothing) {
  for (const auto key : {served.remote_key(), served.local_key()}) {
    opened one(*this);
    EXPECT_EQ(run(one.pair, IBV_WR_RDMA_READ, key), IBV_WC_REM_ACCESS_ERR);
  }
}

/// A pool that a rail serves with windows, or without.
class borrowed_keys : public testing::TestWithParam<bool> {
protected:
  borrowed_keys() {
    auto options = rail_options();
    options.windows = GetParam();
    server =
        must(verbs_rail_server::create(must(device::open("rxe1", {})), options, pool.served()));
    while (server->regions().register_next()) {
    }
  }
  std::unique_ptr<rail_reader> reader(const std::string& name) {
    auto made = std::make_unique<rail_reader>(*reads, name);
    establish(*made, *server, server->regions().chunks());
    EXPECT_EQ(made->chunks.size(), server->regions().chunks());
    return made;
  }

  rail_pool pool{5};
  std::unique_ptr<device> reads = must(device::open("rxe0", {}));
  std::unique_ptr<verbs_rail_server> server;
};

TEST_P(borrowed_keys, open_nothing_to_others_and_nothing_after_the_session) {
  const auto thief = reader("thief"), heir = reader("heir");
  auto owner = reader("owner");
  const auto told = owner->chunks;
  for (const auto& chunk : told)
    EXPECT_EQ(run(*owner, IBV_WR_RDMA_READ, chunk, page_bytes), IBV_WC_SUCCESS);
  const auto stolen = GetParam() ? IBV_WC_REM_ACCESS_ERR : IBV_WC_SUCCESS;
  EXPECT_EQ(run(*thief, IBV_WR_RDMA_READ, told[1]), stolen);
  owner->peer.fd.reset();
  poll_until(*server, [&] { return server->stats().sessions == 2; });
  EXPECT_EQ(run(*owner, IBV_WR_RDMA_READ, told[1]), IBV_WC_RETRY_EXC_ERR);
  EXPECT_EQ(run(*heir, IBV_WR_RDMA_READ, heir->chunks[1]), IBV_WC_SUCCESS);
  EXPECT_EQ(run(*heir, IBV_WR_RDMA_READ, told[1]), stolen);
}

INSTANTIATE_TEST_SUITE_P(rail, borrowed_keys, testing::Bool(), [](const auto& info) {
  return info.param ? "with_windows" : "without_windows";
});

} // namespace
} // namespace peercache::rdma::verbs::windows_test
