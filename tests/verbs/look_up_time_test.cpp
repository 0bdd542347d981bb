// How long a look-up by READs takes beside single READs of the same devices: two dependent rounds
// of READs of 64 bytes, through a lane with a thread of its own, as a client does it.

#include "tests/rdma/verbs/area_batch.hpp"
#include "tests/verbs/rail_pair.hpp"
#include "tests/verbs/whole_path.hpp"

namespace peercache::rdma::look_up_time_test {
namespace {

using namespace std::chrono_literals;

constexpr incarnation life{1, 1};
constexpr auto patience = 60s;
constexpr std::uint32_t line_bytes = 64;
constexpr int calls = 400;

double p50_us(std::vector<clock::duration> times) {
  std::nth_element(times.begin(), times.begin() + times.size() / 2, times.end());
  return std::chrono::duration<double, std::micro>(times[times.size() / 2]).count();
}

/// The time of READs of 64 bytes with one doorbell, over a queue pair that the caller polls itself
/// without a pause, as ib_read_lat does.
double raw_p50_us(std::span<std::byte> served, std::size_t reads_at_once = 1) {
  const auto reads = verbs::must(verbs::device::open("rxe0", {}));
  const auto serves = verbs::must(verbs::device::open("rxe1", {}));
  const auto region = verbs::must(
      verbs::memory_region::register_memory(*serves, served, verbs::region_use::remote_read));
  std::vector<std::byte> landing(line_bytes);
  const auto landing_region = verbs::must(
      verbs::memory_region::register_memory(*reads, landing, verbs::region_use::local_write));
  verbs::rail_pair pair(*reads, *serves);
  auto piece = verbs::piece_of(landing_region, landing);
  std::vector<ibv_send_wr> chain(reads_at_once);
  for (std::size_t i = 0; i < chain.size(); ++i) {
    chain[i].sg_list = &piece;
    chain[i].num_sge = 1;
    chain[i].opcode = IBV_WR_RDMA_READ;
    chain[i].wr.rdma.remote_addr = region.address() + i * line_bytes;
    chain[i].wr.rdma.rkey = region.remote_key();
    chain[i].next = i + 1 < chain.size() ? &chain[i + 1] : nullptr;
  }
  chain.back().send_flags = IBV_SEND_SIGNALED;
  std::vector<clock::duration> times;
  for (int i = 0; i < calls; ++i) {
    const auto begin = clock::now();
    ibv_send_wr* bad = nullptr;
    EXPECT_EQ(pair.reader.pair.post(chain.data(), &bad), 0);
    ibv_wc done{};
    while (pair.reader.completions.poll({&done, 1}) == 0) {
    }
    times.push_back(clock::now() - begin);
    EXPECT_EQ(done.status, IBV_WC_SUCCESS);
  }
  return p50_us(std::move(times));
}

class look_up_time : public testing::Test {
protected:
  look_up_time() {
    node.add_area(area);
    what.batch.peer = node.endpoint();
  }

  void prepare(area_batch& what, std::size_t keys) {
    what.clear();
    for (std::size_t i = 0; i < keys; ++i)
      what.add(&area[(++next_ * 7919 % 16384) * line_bytes]);
    what.from(reinterpret_cast<std::uint64_t>(area.data()));
  }
  void read(area_batch& what) {
    lane->submit_short(what.batch);
    what.batch.wait();
  }
  double rounds_p50_us(int rounds) {
    std::vector<clock::duration> times;
    for (int i = 0; i < calls; ++i) {
      const auto begin = clock::now();
      what.batch.deadline = begin + patience;
      for (int round = 0; round < rounds; ++round) {
        prepare(what, 1);
        read(what);
        EXPECT_TRUE(what.all(page_status::hit));
      }
      times.push_back(clock::now() - begin);
    }
    return p50_us(std::move(times));
  }

  node_pool pool;
  std::vector<std::byte> area = numbered_bytes(1u << 20, 1);
  serving_node node{pool.memory.served(), life, {"rxe1"}};
  reading_rail rail{"rxe0", verbs_data_plane_options{}};
  std::unique_ptr<read_lane> lane = rail.lane();
  area_batch what{line_bytes};
  std::size_t next_ = 0;
};

/// Where the rail's thread did the work, each round would wake two threads, which takes 20 READs
/// and more here. Medians of a machine that is busy vary, so one good turn of five is enough.
TEST_F(look_up_time, a_round_costs_its_caller_less_than_another_read_of_the_device) {
  ASSERT_TRUE(rail.destinations().add(what.memory()));
  const auto until = clock::now() + patience;
  what.batch.deadline = until;
  do {
    prepare(what, 1);
    read(what);
  } while (!what.all(page_status::hit) && clock::now() < until);
  ASSERT_TRUE(what.all(page_status::hit));
  bool good = false;
  for (int turn = 0; turn < 5 && !good; ++turn) {
    const auto raw = raw_p50_us(area), one = rounds_p50_us(1), two = rounds_p50_us(2);
    std::cout << "p50: a READ of the device " << raw << " us, two with one doorbell "
              << raw_p50_us(area, 2) << " us, one through a lane " << one << " us (" << one / raw
              << "), two rounds " << two << " us (" << two / raw << ")\n";
    good = one < 2 * raw && two < 4 * raw;
  }
  EXPECT_TRUE(good);
  rail.destinations().remove(what.memory().data());
}

} // namespace
} // namespace peercache::rdma::look_up_time_test
