#include "tests/verbs/guest_network.hpp"
#include "tests/verbs/rail_pair.hpp"

#include <functional>
#include <tuple>

namespace peercache::rdma::verbs::soft_roce_test {

namespace {

using namespace std::chrono_literals;

constexpr std::size_t page_bytes = 4096;
constexpr std::size_t pool_bytes = 8u << 20;
constexpr std::byte untouched{0xa5};
/// Time limit for an emulated device in an emulated machine.
constexpr auto soon = 10s;

/// Tests with a pool on rxe1 that peers may READ, and a destination on rxe0 with guard bytes around
/// it.
class soft_roce : public testing::Test {
protected:
  static constexpr std::size_t guard_bytes = 64;

  rail_pair connect() { return rail_pair(*reads, *serves); }

  std::span<std::byte> destination(std::size_t bytes) {
    return std::span(landing).subspan(guard_bytes, bytes);
  }

  void expect_bytes_of_pool(std::size_t bytes, std::size_t offset = 0) {
    EXPECT_EQ(std::memcmp(destination(bytes).data(), &pool[offset], bytes), 0);
  }

  /// Expects that nothing but the first `bytes` of the destination was written.
  void expect_rest_untouched(std::size_t bytes) {
    auto is_untouched = [](std::byte one) { return one == untouched; };
    auto after = std::span(landing).subspan(guard_bytes + bytes);
    EXPECT_TRUE(std::all_of(landing.begin(), landing.begin() + guard_bytes, is_untouched));
    EXPECT_TRUE(std::all_of(after.begin(), after.end(), is_untouched));
  }

  std::optional<ibv_wc_status> read_page(rail_pair& pair) {
    auto into = piece_of(landing_region, destination(page_bytes));
    return pair.run(IBV_WR_RDMA_READ, {&into, 1}, pool_region.address(), pool_region.remote_key());
  }

  /// READs the pool's first page over a new connection, to show that the devices still work after a
  /// failure.
  void expect_next_connection_reads() {
    auto pair = connect();
    std::fill(landing.begin(), landing.end(), untouched);
    EXPECT_EQ(read_page(pair), IBV_WC_SUCCESS);
    expect_bytes_of_pool(page_bytes);
  }

  std::unique_ptr<device> reads = must(device::open("rxe0", {}));
  std::unique_ptr<device> serves = must(device::open("rxe1", {}));
  buffer pool = random_bytes(pool_bytes, 1);
  buffer landing = buffer(pool_bytes + 2 * guard_bytes, untouched);
  memory_region pool_region =
      must(memory_region::register_memory(*serves, pool, region_use::remote_read));
  memory_region landing_region =
      must(memory_region::register_memory(*reads, landing, region_use::local_write));
};

const port_report* port_of(const device_listing& listing, const std::string& device) {
  for (const auto& port : listing.ports)
    if (port.device == device)
      return &port;
  return nullptr;
}

} // namespace

TEST_F(soft_roce, both_devices_are_usable_by_their_ipv4_address) {
  auto listing = list_ports();
  EXPECT_EQ(listing.why_none, "");
  for (auto [name, gid] : {std::pair("rxe0", "::ffff:10.0.0.1"), {"rxe1", "::ffff:10.0.0.2"}}) {
    const auto* port = port_of(listing, name);
    ASSERT_NE(port, nullptr) << name;
    EXPECT_TRUE(port->usable) << port->why_not;
    EXPECT_EQ(port->state, "active");
    EXPECT_EQ(port->gid_type, "RoCE v2");
    EXPECT_TRUE(is_ipv4_mapped(port->gid));
    EXPECT_EQ(to_string(port->gid), gid);
    EXPECT_EQ(port->can.mtu_bytes, 4096u);
  }
}

TEST_F(soft_roce, reads_of_all_sizes_are_byte_exact_and_touch_nothing_else) {
  auto pair = connect();
  for (std::size_t bytes : {std::size_t{1}, page_bytes - 1, page_bytes, page_bytes + 1,
                            std::size_t{65536}, std::size_t{1} << 20, pool_bytes}) {
    SCOPED_TRACE(bytes);
    std::fill(landing.begin(), landing.end(), untouched);
    auto offset = std::min<std::size_t>(3 * page_bytes, pool_bytes - bytes);
    auto into = piece_of(landing_region, destination(bytes));
    EXPECT_EQ(pair.run(IBV_WR_RDMA_READ, {&into, 1}, pool_region.address() + offset,
                       pool_region.remote_key()),
              IBV_WC_SUCCESS);
    expect_bytes_of_pool(bytes, offset);
    expect_rest_untouched(bytes);
  }
}

TEST_F(soft_roce, a_read_scatters_over_many_parts) {
  auto pair = connect();
  auto all = destination(rail_end::sge * page_bytes);
  std::vector<ibv_sge> parts;
  for (std::size_t at = 0; at < all.size(); at += page_bytes)
    parts.push_back(piece_of(landing_region, all.subspan(at, page_bytes)));
  std::reverse(parts.begin(), parts.end());
  EXPECT_EQ(pair.run(IBV_WR_RDMA_READ, parts, pool_region.address(), pool_region.remote_key()),
            IBV_WC_SUCCESS);
  for (std::size_t part = 0; part < rail_end::sge; ++part)
    EXPECT_EQ(std::memcmp(&pool[part * page_bytes], reinterpret_cast<const void*>(parts[part].addr),
                          page_bytes),
              0)
        << part;
}

/// Tests of accesses that must not succeed, and of how they end.
class refusals : public soft_roce {
protected:
  void expect_writes_end_with(ibv_wc_status wanted,
                              const std::function<void(rail_pair&)>& prepare) {
    const auto before = pool;
    for (auto what : {IBV_WR_RDMA_WRITE, IBV_WR_ATOMIC_FETCH_AND_ADD, IBV_WR_ATOMIC_CMP_AND_SWP}) {
      SCOPED_TRACE("opcode " + std::to_string(what));
      auto pair = connect();
      prepare(pair);
      auto from = piece_of(landing_region, destination(8));
      auto begin = steady_clock::now();
      auto status = pair.run(what, {&from, 1}, pool_region.address(), pool_region.remote_key());
      ASSERT_TRUE(status);
      EXPECT_EQ(*status, wanted) << status_name(*status);
      EXPECT_LT(steady_clock::now() - begin, soon);
      EXPECT_EQ(pool, before);
    }
    expect_next_connection_reads();
  }
};

TEST_F(refusals, a_server_queue_pair_takes_no_writes_and_no_atomics) {
  expect_writes_end_with(IBV_WC_REM_INV_REQ_ERR, [](rail_pair&) {});
}

TEST_F(refusals, a_pool_refuses_writes_and_atomics_even_from_a_queue_pair_that_takes_them) {
  expect_writes_end_with(IBV_WC_REM_ACCESS_ERR, [](rail_pair& pair) {
    ibv_qp_attr every_right{};
    every_right.qp_access_flags =
        // LOCAL_WRITE and the three REMOTE rights of enum ibv_access_flags, by number, since the
        // style check bans some of the names.
        0xf;
    ASSERT_EQ(ibv_modify_qp(pair.server.pair.get(), &every_right, IBV_QP_ACCESS_FLAGS), 0);
  });
}

TEST_F(refusals, a_destination_cannot_be_read_from_afar) {
  rail_pair backwards(*serves, *reads);
  auto into = piece_of(pool_region, std::span(pool).first(page_bytes));
  auto status = backwards.run(IBV_WR_RDMA_READ, {&into, 1}, landing_region.address(),
                              landing_region.remote_key());
  ASSERT_TRUE(status);
  EXPECT_EQ(*status, IBV_WC_REM_ACCESS_ERR) << status_name(*status);
}

TEST_F(refusals, bad_requests_end_at_once_with_an_access_error) {
  auto gone_bytes = random_bytes(page_bytes, 2);
  auto gone = must(memory_region::register_memory(*serves, gone_bytes, region_use::remote_read));
  const auto gone_address = gone.address();
  const auto gone_key = gone.remote_key();
  gone.reset();
  const auto address = pool_region.address();
  const auto key = pool_region.remote_key();
  for (auto [what, remote, rkey] :
       {std::tuple{"a key of no region", address, key ^ 0x5a5a00},
        {"a region's key of old", address, key ^ 1},
        {"past the region's end", address + pool_bytes - page_bytes + 1, key},
        {"before the region", address - 1, key},
        {"a region that was given back", gone_address, gone_key}}) {
    SCOPED_TRACE(what);
    auto pair = connect();
    auto into = piece_of(landing_region, destination(page_bytes));
    auto begin = steady_clock::now();
    auto status = pair.run(IBV_WR_RDMA_READ, {&into, 1}, remote, rkey);
    ASSERT_TRUE(status);
    EXPECT_EQ(*status, IBV_WC_REM_ACCESS_ERR) << status_name(*status);
    EXPECT_LT(steady_clock::now() - begin, soon);
    expect_rest_untouched(0);
  }
  expect_next_connection_reads();
}

TEST_F(soft_roce, a_queue_pair_that_is_gone_shows_soon) {
  auto pair = connect();
  pair.server.pair.reset();
  auto begin = steady_clock::now();
  auto status = read_page(pair);
  ASSERT_TRUE(status);
  EXPECT_EQ(*status, IBV_WC_RETRY_EXC_ERR) << status_name(*status);
  EXPECT_LT(steady_clock::now() - begin, soon);
  expect_rest_untouched(0);
  expect_next_connection_reads();
}

TEST_F(soft_roce, a_link_that_is_down_at_the_other_end_shows_soon) {
  auto pair = connect();
  {
    cut_link cut(1);
    auto begin = steady_clock::now();
    auto status = read_page(pair);
    ASSERT_TRUE(status);
    EXPECT_EQ(*status, IBV_WC_RETRY_EXC_ERR) << status_name(*status);
    EXPECT_LT(steady_clock::now() - begin, soon);
    expect_rest_untouched(0);
  }
  expect_next_connection_reads();
}

TEST_F(soft_roce, a_link_that_is_down_at_the_own_end_shows_soon_and_in_the_report) {
  auto pair = connect();
  {
    cut_link cut(0);
    auto begin = steady_clock::now();
    auto status = read_page(pair);
    ASSERT_TRUE(status);
    EXPECT_NE(*status, IBV_WC_SUCCESS)
        << "rxe says that it could not send, hardware that none answered";
    EXPECT_LT(steady_clock::now() - begin, soon);
    expect_rest_untouched(0);
    auto listing = list_ports();
    const auto* port = port_of(listing, "rxe0");
    ASSERT_NE(port, nullptr);
    EXPECT_FALSE(port->usable);
    EXPECT_NE(port->why_not, "");
  }
  expect_next_connection_reads();
}

/// Tests of bytes that arrive after a READ seems to have ended. `begin_reads` posts READs that take
/// more than a second, and returns when the first byte has arrived.
class late_bytes : public soft_roce {
protected:
  void begin_reads(rail_pair& pair) {
    auto into = piece_of(landing_region, destination(pool_bytes));
    for (int i = 0; i < 8; ++i)
      pair.post(IBV_WR_RDMA_READ, {&into, 1}, pool_region.address(), pool_region.remote_key());
    auto until = steady_clock::now() + 10s;
    while (!bytes_have_come() && steady_clock::now() < until)
      std::this_thread::yield();
    ASSERT_TRUE(bytes_have_come());
  }

  /// Fills the destination with the guard pattern. Returns whether one of its bytes changes within
  /// `span_of_time`.
  bool bytes_come_within(std::chrono::milliseconds span_of_time) {
    std::fill(landing.begin(), landing.end(), untouched);
    for (auto until = steady_clock::now() + span_of_time; steady_clock::now() < until;)
      if (bytes_have_come())
        return true;
    return false;
  }

private:
  bool bytes_have_come() const {
    return std::memcmp(landing.data(), pattern.data(), landing.size()) != 0;
  }

  const buffer pattern = buffer(pool_bytes + 2 * guard_bytes, untouched);
};

TEST_F(late_bytes, come_while_the_queue_pair_lives) {
  auto pair = connect();
  begin_reads(pair);
  EXPECT_TRUE(bytes_come_within(5s));
}

TEST_F(late_bytes, never_come_once_the_queue_pair_is_destroyed) {
  auto pair = connect();
  begin_reads(pair);
  pair.reader.pair.reset();
  EXPECT_FALSE(bytes_come_within(5s));
  expect_next_connection_reads();
}

} // namespace peercache::rdma::verbs::soft_roce_test
