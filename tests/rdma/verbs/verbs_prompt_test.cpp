// Tests of how much work the hand-over of a prompt takes: READs, doorbells and allocations, by the
// transfer plan of two engines and by decode's rooms.

#include "handoff/lease_table.hpp"
#include "handoff/receiver_rooms.hpp"
#include "handoff/transfer_plan.hpp"
#include "tests/rdma/verbs/verbs_rig.hpp"
#include "tests/support/fake_verbs/fake_verbs.hpp"

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <numeric>

/// Counts what the program takes from the heap: the linker puts this function in the place of
/// `operator new` (tests/CMakeLists.txt).
static std::atomic<std::uint64_t> allocations = 0;
extern "C" void* __real__Znwm(std::size_t bytes);
extern "C" void* __wrap__Znwm(std::size_t bytes) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  return __real__Znwm(bytes);
}

namespace peercache::rdma::verbs_prompt_test {
namespace {

using namespace std::chrono_literals;

constexpr incarnation life{1, 1};
constexpr std::uint32_t page_tokens = 16;
constexpr std::uint32_t head_bytes = 64;
constexpr std::uint32_t pages = 64;

/// Memory and layout of one rank of an engine, which has a part of the model's heads.
struct engine_rank {
  std::span<std::byte> memory;
  handoff::worker_ranks ranks;
  std::uint32_t heads = 1;    ///< Heads of the model, over all ranks.
  std::uint32_t buffers = 64; ///< One buffer each for K and V of 32 layers.

  handoff::kv_layout layout() const {
    handoff::kv_layout made;
    made.dtype = "bfloat16";
    made.page_tokens = page_tokens;
    made.kv_heads = heads;
    made.ranks = ranks;
    const auto item = page_tokens * heads / ranks.tp_size * head_bytes;
    for (std::uint32_t i = 0; i < buffers; ++i) {
      handoff::kv_buffer buffer;
      buffer.item_bytes = item;
      buffer.length_bytes = std::uint64_t{item} * pages;
      buffer.address = reinterpret_cast<std::uint64_t>(memory.data()) + i * buffer.length_bytes;
      made.buffers.push_back(buffer);
    }
    return made;
  }
};

/// Tests with a prefill rank's memory, which a fake rail serves, and a decode rank that reads it.
class verbs_prompt_test : public testing::Test {
protected:
  verbs_prompt_test() {
    fabric.add(tests::roce_device("fake0", 1));
    fabric.add(tests::roce_device("fake1", 2));
    rig.emplace(verbs_rig_devices{"fake0", "fake1",
                                  [this](plane_rig& one) {
                                    one.now += 10us;
                                    fabric.advance(10us);
                                  }},
                verbs_data_plane_options{}, data_service::handoff);
    rig->serve(pool, life);
    leases.emplace(rig->lent->table(), life);
    auto* words = reinterpret_cast<std::uint32_t*>(rig->lent->memory().data());
    std::iota(words, words + memory.size() / sizeof *words, 1u);
    EXPECT_TRUE(rig->rail->destinations->add(memory));
  }

  void TearDown() override {
    rig->rail->destinations->remove(memory.data());
    rig->plane().shutdown();
    leases.reset();
    rig.reset();
    EXPECT_EQ(fabric.misuse(), std::vector<std::string>{});
  }

  static std::shared_ptr<const handoff::transfer_plan> plan(const engine_rank& from,
                                                            const engine_rank& to) {
    auto made = handoff::transfer_plan::create(from.layout(), to.layout());
    EXPECT_TRUE(made) << to_string(made.error());
    return std::make_shared<handoff::transfer_plan>(std::move(*made));
  }
  static std::vector<std::uint32_t> consecutive() {
    std::vector<std::uint32_t> all(pages);
    std::iota(all.begin(), all.end(), 0u);
    return all;
  }
  /// All pages, no page behind the previous one.
  static std::vector<std::uint32_t> backwards() {
    auto all = consecutive();
    std::reverse(all.begin(), all.end());
    return all;
  }

  void add(read_batch& batch, const handoff::piece& piece, const handoff::lease& under) {
    page_read page;
    page.key = under.key;
    page.slot = under.slot;
    page.gen = under.gen;
    page.source = {piece.source.address, piece.source.stride_bytes, piece.source.rows,
                   piece.source.row_bytes};
    page.length_bytes = piece.bytes;
    page.first_part = piece.first_part;
    page.part_count = piece.part_count;
    page.verify = false;
    batch.pages.push_back(page);
  }
  void read(read_batch& batch) {
    batch.peer = rig->peer(life);
    batch.deadline = rig->now + 5s;
    rig->plane().submit(batch);
    while (!batch.complete())
      rig->steps(1);
    EXPECT_TRUE(std::all_of(batch.pages.begin(), batch.pages.end(),
                            [](const auto& page) { return page.status == page_status::hit; }));
  }
  /// Reads all pages by the plan alone. Returns the number of pieces.
  std::size_t read_prompt(const engine_rank& from, const engine_rank& to,
                          const std::vector<std::uint32_t>& to_pages = consecutive()) {
    handoff::offered_pages offer;
    offer.pages = consecutive();
    offer.last = true;
    handoff::allocated_pages room;
    room.pages = to_pages;
    const auto made = plan(from, to);
    auto pieces = made->pieces(offer, room);
    EXPECT_TRUE(pieces) << to_string(pieces.error());
    const auto under = leases->take(1);
    read_batch batch;
    while (const auto piece = pieces->next(batch.parts))
      add(batch, *piece, *under);
    read(batch);
    return batch.pages.size();
  }
  /// Reads all pages as decode does for a room. Returns the number of pieces.
  std::size_t read_room(const engine_rank& from, const engine_rank& to) {
    constexpr handoff::room_id number{7};
    constexpr handoff::peer_id peer{1};
    handoff::receiver_rooms rooms({}, {1});
    EXPECT_TRUE(rooms.open(number));
    EXPECT_TRUE(rooms.connect(number, {{peer, plan(from, to)}}));
    handoff::allocated_pages room;
    room.pages = consecutive();
    EXPECT_TRUE(rooms.allocate(number, room));
    const auto under = leases->take(number.value);
    handoff::offered_pages offered;
    offered.pages = consecutive();
    offered.last = true;
    rooms.offered(peer, {number, {1}, *under, offered}, rig->now);
    std::size_t pieces = 0;
    while (auto order = rooms.next_read()) {
      read_batch batch;
      batch.parts = std::move(order->parts);
      for (const auto& piece : order->pieces)
        add(batch, piece, order->under);
      read(batch);
      pieces += order->pieces.size();
      rooms.finish_read(order->id, handoff::read_end::good, "", rig->now);
    }
    EXPECT_EQ(rooms.poll(number), handoff::room_state::success);
    return pieces;
  }

  const rail_counters& counters() { return rig->rail->counters; }

  tests::fake_fabric fabric{7};
  test_pool pool;
  std::vector<std::byte> memory = std::vector<std::byte>(16u << 20);
  std::optional<verbs_rig> rig;
  std::optional<handoff::lease_table> leases;
};

TEST_F(verbs_prompt_test, that_is_contiguous_is_one_read_a_buffer_and_one_look_at_its_lease) {
  const engine_rank source{rig->lent->memory(), {}};
  const engine_rank destination{memory, {}};
  EXPECT_EQ(read_room(source, destination), 64u);
  EXPECT_EQ(counters().payload_reads, 64u);
  EXPECT_EQ(counters().entry_reads, 1u);
  const auto bytes = source.layout().buffers[0].length_bytes * 64;
  EXPECT_TRUE(std::equal(memory.begin(), memory.begin() + static_cast<std::ptrdiff_t>(bytes),
                         rig->lent->memory().begin()));
}

TEST_F(verbs_prompt_test, from_two_ranks_to_one_takes_at_most_one_read_for_16_tokens) {
  engine_rank source{rig->lent->memory(), {}};
  source.heads = 2;
  source.buffers = 2;
  source.ranks.tp = 1;
  source.ranks.tp_size = 2;
  engine_rank destination{memory, {}};
  destination.heads = 2;
  destination.buffers = 2;
  read_prompt(source, destination);
  EXPECT_LE(counters().payload_reads, 2 * pages * page_tokens / 16);
  EXPECT_EQ(counters().bounced_bytes, 0u);
  for (std::uint32_t token = 0; token < 2 * pages * page_tokens; ++token) {
    const auto* from = rig->lent->memory().data() + token * head_bytes;
    ASSERT_TRUE(std::equal(from, from + head_bytes,
                           memory.data() + std::size_t{token} * 2 * head_bytes + head_bytes))
        << "token " << token;
  }
}

TEST_F(verbs_prompt_test, that_is_scattered_costs_little_work_a_piece) {
  const engine_rank source{rig->lent->memory(), {}};
  const engine_rank destination{memory, {}};
  // The first time connects, and makes room for as many pieces.
  read_prompt(source, destination, backwards());
  const auto reads = counters().payload_reads.load();
  const auto doorbells = counters().doorbells.load();
  const auto entries = counters().entry_reads.load();
  const std::uint64_t before = allocations;
  const auto pieces = read_prompt(source, destination, backwards());
  const auto taken = allocations - before;
  ASSERT_EQ(pieces, 64u * pages);
  const auto of = [pieces](std::uint64_t count) { return double(count) / double(pieces); };
  std::printf("[ measured ] a piece: %.3f READs, %.3f doorbells, %.3f looks at leases, %.3f "
              "allocations\n",
              of(counters().payload_reads - reads), of(counters().doorbells - doorbells),
              of(counters().entry_reads - entries), of(taken));
  EXPECT_EQ(counters().payload_reads - reads, pieces);
  EXPECT_LE(of(counters().doorbells - doorbells), 1.0 / 16);
  EXPECT_LE(of(counters().entry_reads - entries), 1.0 / 16);
  // The fake device takes memory once for a READ.
  EXPECT_LE(of(taken), 1 + 1.0 / 16);
}

TEST_F(verbs_prompt_test, cannot_be_written_from_afar) {
  const engine_rank source{rig->lent->memory(), {}};
  const engine_rank destination{memory, {}};
  read_prompt(source, destination);
  // Decode must have got only regions that may be READ, and not be written to.
  for (const auto& region : fabric.regions())
    EXPECT_EQ(region.rights & (tests::remote_write_right | tests::remote_atomic_right), 0u);
  EXPECT_FALSE(fabric.regions().empty());
}

} // namespace
} // namespace peercache::rdma::verbs_prompt_test
