// Tests of the TCP data plane with servers that are slow or restart, and under load.

#include "rdma/tcp/tcp_protocol.hpp"
#include "tests/rdma/plane_rig.hpp"

#include <sched.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstring>
#include <filesystem>

namespace peercache::rdma::tcp_data_plane_test {
namespace {

constexpr incarnation life{1, 1};

TEST(tcp_data_plane, never_opens_more_channels_than_allowed) {
  test_pool pool;
  tcp_rig rig;
  rig.serve(pool, life);
  std::vector<std::unique_ptr<test_batch>> many;
  for (int i = 0; i < 60; ++i)
    many.push_back(std::make_unique<test_batch>(pool, 3, 200'000));
  for (auto& each : many)
    rig.submit(*each, life);
  std::size_t most = 0;
  for (auto& each : many)
    while (!each->batch.complete()) {
      rig.step();
      most = std::max({most, rig.reader->channels(), rig.server->connections()});
    }
  EXPECT_EQ(most, limits::channels_per_peer_max);
  for (auto& each : many)
    EXPECT_TRUE(each->all(page_status::hit));
}

TEST(tcp_data_plane, a_batch_after_the_other_uses_one_connection) {
  test_pool pool;
  tcp_rig rig;
  rig.serve(pool, life);
  for (int i = 0; i < 10; ++i) {
    test_batch what(pool, 3, 1000);
    rig.read(what, life);
    EXPECT_TRUE(what.all(page_status::hit));
  }
  EXPECT_EQ(rig.plane().stats().connects, 1u);
}

TEST(tcp_data_plane, a_caller_works_on_no_batch_that_takes_several_connections) {
  test_pool pool;
  tcp_data_plane_options opts;
  opts.stripe_bytes = 1u << 20;
  opts.request_bytes_max = 1u << 20;
  tcp_rig rig(opts);
  rig.serve(pool, life);
  test_batch first(pool, 1, 1000), large(pool, 40, 100'000), next(pool, 1, 1000);
  rig.read(first, life);
  for (auto* each : {&large, &next}) {
    each->batch.peer = rig.peer(life);
    each->batch.deadline = rig.now + std::chrono::seconds(5);
    rig.plane().read_now(each->batch, rig.now, std::chrono::seconds(1));
  }
  rig.finish(large);
  rig.finish(next);
  EXPECT_TRUE(large.all(page_status::hit));
  EXPECT_TRUE(next.all(page_status::hit));
  EXPECT_GT(rig.plane().stats().connects, 1u);
}

TEST(tcp_data_plane, large_batches_are_striped_over_several_connections) {
  test_pool pool;
  tcp_data_plane_options opts;
  opts.stripe_bytes = 1u << 20;
  opts.request_bytes_max = 1u << 20;
  tcp_rig rig(opts);
  rig.serve(pool, life);
  test_batch what(pool, 100, 100'000);
  rig.read(what, life);
  EXPECT_TRUE(what.all(page_status::hit));
  for (std::size_t i = 0; i < 100; ++i)
    ASSERT_TRUE(what.holds(pool, i));
  EXPECT_EQ(rig.plane().stats().connects, opts.stripe_channels_max);
}

TEST(tcp_data_plane, the_deadline_in_the_middle_of_a_payload_stops_every_further_byte) {
  test_pool pool;
  tcp_rig rig;
  tcp_page_server_options opts;
  opts.inc = life;
  opts.faults.send_chunk_bytes = 100'000;
  opts.faults.between_chunks = [&rig] {
    rig.pass(std::chrono::microseconds(5));
    rig.plane().poll(rig.now);
  };
  rig.serve(pool, opts);
  test_batch what(pool, 8, 4u << 20);
  rig.submit(what, life, std::chrono::microseconds(80));
  rig.finish(what);
  EXPECT_EQ(what.batch.pages[7].status, page_status::timed_out);
  EXPECT_NE(what.memory[1], test_batch::untouched) << "the first bytes had come";
  EXPECT_EQ(rig.reader->channels(), 0u) << "what may still carry its bytes is closed";
  const auto returned = what.memory;
  rig.steps(2000);
  EXPECT_EQ(what.memory, returned);
  EXPECT_EQ(pool.pins(), 0);
}

/// Many batches for one peer, each on a connection of its own. Tests look at what the data plane
/// does in each single turn.
class tcp_turns : public testing::Test {
protected:
  static constexpr std::uint32_t batches = 48;
  static constexpr std::size_t page_bytes = 512u << 10;

  static tcp_data_plane_options options() {
    tcp_data_plane_options opts;
    opts.channels.channels_per_peer_max = batches;
    // The largest receive buffer that the machine allows.
    opts.socket.receive_buffer_bytes = 4u << 20;
    return opts;
  }

  /// Asks for all pages, and polls the server until the reader's sockets are full of page bytes.
  void fill_sockets() {
    tcp_page_server_options serving;
    serving.inc = life;
    rig.serve(pool, serving);
    auto first = read_together(1);
    for (const auto& each : first)
      rig.finish(*each);
    ASSERT_EQ(rig.reader->channels(), batches);
    what = read_together(page_bytes);
    rig.reader->poll(rig.now); // Makes the reader send its requests.
    while (rig.server->poll(rig.now)) {
    }
    ASSERT_EQ(arrived_bytes(), 0u);
  }

  std::vector<std::unique_ptr<test_batch>> read_together(std::size_t bytes) {
    std::vector<std::unique_ptr<test_batch>> made;
    for (std::uint32_t i = 0; i < batches; ++i) {
      made.push_back(std::make_unique<test_batch>(pool, 1, bytes));
      rig.submit(*made.back(), life, patience);
    }
    return made;
  }

  /// Returns how many bytes of the batches have arrived, to a few bytes for each batch. The bytes
  /// of a page arrive in order, so the end of the arrived bytes is where sixteen bytes in a row
  /// still have their old value. (One arrived byte in 256 happens to have this value.)
  std::size_t arrived_bytes() {
    static const std::vector<std::byte> untouched(16, test_batch::untouched);
    std::size_t sum = 0;
    arrived_.resize(what.size());
    for (std::size_t i = 0; i < what.size(); ++i) {
      const auto page = what[i]->bytes_of(0);
      auto& known = arrived_[i];
      while (known < page.size() &&
             std::memcmp(page.data() + known, untouched.data(),
                         std::min(page.size() - known, untouched.size())) != 0)
        known = std::min(page.size(), known + untouched.size());
      sum += known;
    }
    return sum;
  }

  static std::size_t open_descriptors() {
    std::size_t count = 0;
    for ([[maybe_unused]] const auto& each : std::filesystem::directory_iterator{"/proc/self/fd"})
      ++count;
    return count;
  }

  static constexpr clock::duration patience = std::chrono::seconds(5);
  test_pool pool;
  tcp_rig rig{options()};
  std::vector<std::unique_ptr<test_batch>> what;

private:
  /// For each batch: bytes that have arrived as of the last look.
  std::vector<std::size_t> arrived_;
};

TEST_F(tcp_turns, a_turn_takes_two_mib_whatever_waits_in_the_sockets) {
  fill_sockets();
  std::size_t most = 0;
  std::size_t before = arrived_bytes();
  std::uint32_t turns = 0;
  while (
      std::any_of(what.begin(), what.end(), [](const auto& b) { return !b->batch.complete(); })) {
    ASSERT_LT(++turns, 100'000u);
    rig.reader->poll(rig.now);
    const auto now = arrived_bytes();
    most = std::max(most, now - before);
    before = now;
    while (rig.server->poll(rig.now)) {
    }
  }
  for (const auto& each : what)
    EXPECT_TRUE(each->all(page_status::hit));
  EXPECT_GE(most, 1u << 20) << "nothing waited: this shows nothing";
  EXPECT_LE(most, (2u << 20) + (256u << 10)) << "the last read of a turn may go beyond it";
}

TEST_F(tcp_turns, batches_that_expire_together_finish_before_their_sockets_end) {
  fill_sockets();
  const auto open = open_descriptors();
  rig.pass(patience);
  rig.reader->poll(rig.now);
  for (const auto& each : what)
    EXPECT_TRUE(each->batch.complete());
  const auto left = std::count_if(
      what.begin(), what.end(), [](const auto& each) { return each->all(page_status::timed_out); });
  ASSERT_GE(left, batches / 2) << "too few were on their way";
  EXPECT_EQ(rig.reader->channels(), static_cast<std::size_t>(batches - left));
  const auto ended = open - open_descriptors();
  EXPECT_LE(ended, 8u) << "each may take half a millisecond";
  std::vector<std::vector<std::byte>> returned;
  for (const auto& each : what)
    returned.push_back(each->memory);
  for (std::uint32_t turn = 0; turn < batches; ++turn)
    rig.reader->poll(rig.now);
  EXPECT_EQ(open - open_descriptors(), static_cast<std::size_t>(left));
  for (std::uint32_t i = 0; i < batches; ++i)
    EXPECT_EQ(what[i]->memory, returned[i]) << "something was received after the end";
}

TEST_F(tcp_turns, a_batch_that_comes_too_late_costs_no_connection) {
  rig.serve(pool, life);
  test_batch late(pool, 1, page_bytes);
  rig.submit(late, life, clock::duration::zero());
  rig.step();
  EXPECT_TRUE(late.all(page_status::timed_out));
  EXPECT_EQ(rig.plane().stats().connects, 0u);
}

TEST(tcp_data_plane, memory_that_cannot_be_written_is_the_callers_fault_and_not_the_peers) {
  test_pool pool;
  tcp_data_plane_options opts;
  opts.channels.breaker.failures_to_open = 1;
  tcp_rig rig{opts};
  rig.serve(pool, life);
  constexpr std::size_t bytes = 64u << 10;
  auto* const locked = ::mmap(nullptr, bytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(locked, MAP_FAILED);
  for (int round = 0; round < 5; ++round) {
    test_batch wrong(pool, 2, bytes);
    wrong.batch.parts[1].data = static_cast<std::byte*>(locked);
    rig.read(wrong, life);
    EXPECT_EQ(to_string(wrong.batch.pages[1].status), "bad_size");
    test_batch right(pool, 2, bytes);
    rig.read(right, life);
    EXPECT_TRUE(right.all(page_status::hit));
  }
  EXPECT_EQ(rig.plane().stats().breaker_opened, 0u);
  ::munmap(locked, bytes);
}

TEST(tcp_data_plane, a_connection_that_was_closed_while_idle_is_replaced_without_a_miss) {
  test_pool pool;
  tcp_rig rig;
  rig.serve(pool, life);
  test_batch first(pool, 3, 1000);
  rig.read(first, life);
  // Restarts the server. The reader does not poll in between, so it still takes its connection for
  // good.
  rig.serve(pool, life);
  test_batch second(pool, 3, 1000);
  rig.read(second, life);
  EXPECT_TRUE(second.all(page_status::hit));
  EXPECT_EQ(rig.plane().stats().connects, 2u);
}

TEST(tcp_data_plane, idle_connections_and_peers_are_forgotten) {
  test_pool pool;
  tcp_rig rig;
  rig.serve(pool, life);
  test_batch what(pool, 3, 1000);
  rig.read(what, life);
  EXPECT_EQ(rig.reader->channels(), 1u);
  rig.pass(std::chrono::seconds(61));
  rig.steps(2);
  EXPECT_EQ(rig.reader->channels(), 0u);
}

TEST(tcp_data_plane, an_address_that_is_not_numeric_is_unreachable_and_never_looked_up) {
  tcp_rig rig;
  test_pool pool;
  test_batch what(pool, 1, 10);
  what.batch.peer = {{1}, life, "some-host.example", 1, "test"};
  what.batch.deadline = rig.now + std::chrono::seconds(1);
  rig.plane().submit(what.batch);
  rig.finish(what);
  EXPECT_TRUE(what.all(page_status::unreachable));
}

TEST(tcp_data_plane, batches_above_the_limit_are_refused) {
  test_pool pool;
  tcp_data_plane_options opts;
  opts.channels.batches_max = 2;
  tcp_rig rig(opts);
  rig.serve(pool, life, fault::silent);
  test_batch a(pool, 1, 10), b(pool, 1, 10), c(pool, 1, 10);
  rig.submit(a, life);
  rig.steps(2);
  rig.submit(b, life);
  rig.submit(c, life);
  EXPECT_TRUE(c.batch.complete() && c.all(page_status::refused));
  EXPECT_FALSE(a.batch.complete() || b.batch.complete());
  rig.plane().shutdown(); // Completes all batches, because they are destroyed before the rig is.
}

} // namespace
} // namespace peercache::rdma::tcp_data_plane_test
