// Tests of memory windows: whose key opens what, and until when.

#include "tests/rdma/verbs/verbs_windows_rig.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <set>
#include <span>

namespace peercache::rdma::verbs_windows_test {
namespace {

using namespace std::chrono_literals;

TEST_F(verbs_windows, a_reader_is_told_keys_of_windows_and_reads_with_them) {
  serve(with_windows());
  register_all();
  std::memset(pool->pages(), 0x5c, 8192);
  const auto reader = established();
  ASSERT_EQ(reader->chunks.size(), 3u);
  std::set<std::uint32_t> told;
  for (const auto& chunk : reader->chunks) {
    told.insert(chunk.rkey);
    EXPECT_EQ(reader->read(chunk), IBV_WC_SUCCESS);
  }
  EXPECT_EQ(
      reader->work(IBV_WR_RDMA_READ, reader->answer.pages_address, reader->chunks[0].rkey, 8192),
      IBV_WC_SUCCESS);
  EXPECT_EQ(reader->memory[8191], std::byte{0x5c});
  EXPECT_EQ(bindings(), 3u) << "one for each chunk, and none for a READ";
  for (const auto& window : fabric.windows()) {
    EXPECT_EQ(told.count(window.key), 1u);
    EXPECT_EQ(window.queue_pair, reader->answer.end.queue_pair);
    EXPECT_EQ(window.rights, unsigned{IBV_ACCESS_REMOTE_READ});
  }
}

TEST_F(verbs_windows, the_keys_of_the_regions_open_nothing) {
  serve(with_windows());
  register_all();
  for (const auto& region : fabric.regions()) {
    if (region.device != "nic0")
      continue;
    EXPECT_EQ(region.rights, unsigned{IBV_ACCESS_MW_BIND});
    const auto reader = established();
    EXPECT_EQ(reader->work(IBV_WR_RDMA_READ, region.address, region.remote_key, 64),
              IBV_WC_REM_ACCESS_ERR);
  }
}

/// The status of a READ by one reader with the key that another one was told.
class borrowed_key : public verbs_windows, public testing::WithParamInterface<bool> {};

TEST_P(borrowed_key, works_for_no_other_queue_pair_than_the_windows) {
  auto options = rail_options();
  options.windows = GetParam();
  serve(options);
  register_all();
  const auto owner = established("owner"), thief = established("thief");
  EXPECT_EQ(thief->read(owner->chunks[0]), GetParam() ? IBV_WC_REM_ACCESS_ERR : IBV_WC_SUCCESS);
  EXPECT_EQ(owner->read(owner->chunks[0]), IBV_WC_SUCCESS);
}

TEST_P(borrowed_key, ends_with_the_session_that_was_told_it) {
  auto options = rail_options();
  options.windows = GetParam();
  serve(options);
  register_all();
  const auto stays = established("stays");
  std::vector<region_chunk> of_old;
  {
    const auto leaves = established("leaves");
    of_old = leaves->chunks;
    EXPECT_EQ(fabric.windows().size(), GetParam() ? 6u : 0u);
  }
  settle();
  EXPECT_EQ(fabric.windows().size(), GetParam() ? 3u : 0u);
  EXPECT_EQ(stays->read(stays->chunks[1]), IBV_WC_SUCCESS);
  EXPECT_EQ(stays->read(of_old[1]), GetParam() ? IBV_WC_REM_ACCESS_ERR : IBV_WC_SUCCESS);
}

INSTANTIATE_TEST_SUITE_P(verbs_windows, borrowed_key, testing::Bool(), [](const auto& info) {
  return info.param ? "with_windows" : "without_windows";
});

TEST_F(verbs_windows, a_read_outside_and_a_write_fail) {
  serve(with_windows());
  register_all();
  const auto outside = established();
  auto chunk = outside->chunks[1];
  chunk.address += chunk.bytes - 4095;
  EXPECT_EQ(outside->read(chunk), IBV_WC_REM_ACCESS_ERR);
  const auto writes = established();
  fabric.open_rights(writes->answer.end.queue_pair);
  EXPECT_EQ(writes->work(IBV_WR_RDMA_WRITE, writes->chunks[0].address, writes->chunks[0].rkey, 8),
            IBV_WC_REM_ACCESS_ERR)
      << "by the window's rights, since the queue pair takes WRITEs";
}

TEST_F(verbs_windows, the_answer_waits_for_the_windows_of_what_is_served_and_later_ones_follow) {
  serve(with_windows());
  server->regions().register_next();
  server->regions().register_next();
  fabric.hold();
  auto reader = new_reader();
  reader->come(*server);
  settle();
  EXPECT_FALSE(heard(*reader));
  fabric.release();
  settle();
  reader->connect();
  reader->take_chunks();
  EXPECT_EQ(reader->chunks.size(), 2u) << "in one piece with the answer";
  reader->peer.say(verbs_ready{});
  settle();
  server->regions().register_next();
  settle();
  reader->take_chunks();
  ASSERT_EQ(reader->chunks.size(), 3u);
  for (const auto& each : reader->chunks)
    EXPECT_EQ(reader->read(each), IBV_WC_SUCCESS);
}

TEST_F(verbs_windows, an_answer_does_not_wait_for_ever_for_the_rest_and_a_stuck_session_ends) {
  serve(with_windows());
  register_all();
  fabric.hold();
  auto reader = new_reader();
  reader->come(*server);
  settle();
  ASSERT_EQ(fabric.step(), 1u);
  pass(199ms);
  EXPECT_FALSE(heard(*reader));
  pass(1ms);
  reader->connect();
  reader->peer.say(verbs_ready{});
  pass(1500ms);
  reader->take_chunks();
  EXPECT_EQ(reader->chunks.size(), 1u);
  EXPECT_TRUE(served(*reader));
  pass(600ms);
  EXPECT_FALSE(served(*reader));
  EXPECT_EQ(ended(session_end::no_window), 1u);
  fabric.release();
}

TEST_F(verbs_windows, many_chunks_and_readers_are_bound_within_the_completion_queue) {
  serve(with_windows(), 1200);
  register_all();
  const auto all = server->regions().chunks();
  ASSERT_GT(all, 500u);
  fabric.set_delay(1us, 20us);
  std::vector<std::unique_ptr<rail_reader>> readers;
  for (int i = 0; i < 40; ++i) {
    readers.push_back(new_reader("reader-" + std::to_string(i)));
    readers.back()->come(*server);
  }
  // Every third reader leaves while its bindings are under way.
  for (int turn = 0; turn < 2000; ++turn) {
    fabric.advance(10us);
    settle();
    if (turn < 13)
      readers[static_cast<std::size_t>(turn) * 3]->peer.fd.reset();
  }
  for (std::size_t i = 1; i < readers.size(); i += 3) {
    readers[i]->connect();
    readers[i]->take_chunks();
    ASSERT_EQ(readers[i]->chunks.size(), all);
    for (std::uint32_t at = 0; at < all; ++at)
      ASSERT_EQ(readers[i]->chunks[at].index, at);
  }
}

TEST_F(verbs_windows, the_first_of_many_readers_can_read_while_the_others_wait) {
  serve(with_windows(), 200);
  register_all();
  const auto all = server->regions().chunks();
  fabric.hold();
  auto first = new_reader("first"), second = new_reader("second");
  first->come(*server);
  second->come(*server);
  settle();
  for (std::uint32_t bound = 0; bound < all; ++bound) {
    EXPECT_FALSE(heard(*first));
    ASSERT_EQ(fabric.step(), 1u);
    settle();
  }
  EXPECT_TRUE(heard(*first));
  EXPECT_FALSE(heard(*second));
  first->connect();
  first->take_chunks();
  EXPECT_EQ(first->chunks.size(), all);
  fabric.release();
  settle();
  second->connect();
  second->take_chunks();
  EXPECT_EQ(second->chunks.size(), all);
}

TEST_F(verbs_windows, a_reader_with_many_keeps_others_waiting_for_a_turn_at_most) {
  serve(with_windows(), 1200);
  register_all();
  ASSERT_GT(server->regions().chunks(), 4 * binding_turns::bindings_per_turn);
  fabric.hold();
  auto first = new_reader("first"), second = new_reader("second");
  first->come(*server);
  second->come(*server);
  settle();
  const auto queue_pairs = [this] {
    std::set<std::uint32_t> those;
    for (const auto& window : fabric.windows())
      if (window.queue_pair != 0)
        those.insert(window.queue_pair);
    return those.size();
  };
  for (std::size_t bound = 1; bound <= binding_turns::bindings_per_turn; ++bound) {
    ASSERT_EQ(fabric.step(), 1u);
    settle();
    EXPECT_EQ(queue_pairs(), 1u) << bound;
  }
  // Bindings that the first reader had under way at the end of its turn have come before.
  ASSERT_EQ(fabric.step(), 1u);
  settle();
  EXPECT_EQ(queue_pairs(), 2u);
  fabric.release();
  settle();
}

TEST_F(verbs_windows, a_reader_whose_bindings_stand_still_keeps_others_waiting_for_a_turn_at_most) {
  serve(with_windows(), 200);
  register_all();
  fabric.hold();
  auto slow = new_reader("slow"), next = new_reader("next");
  slow->come(*server);
  next->come(*server);
  settle();
  pass(binding_turns::turn_time - 1ms);
  EXPECT_EQ(fabric.objects().windows, session_windows::depth) << "those of the first";
  pass(1ms);
  EXPECT_EQ(fabric.objects().windows, 2 * session_windows::depth);
  fabric.release();
  settle();
}

TEST(binding_turns, go_round_by_work_and_by_time) {
  using clock = binding_turns::clock;
  constexpr auto most = binding_turns::bindings_per_turn;
  clock::time_point now{};
  binding_turns line;
  EXPECT_FALSE(line.first());
  EXPECT_FALSE(line.pass(now));
  for (const std::uint64_t id : {1, 2, 3, 2})
    line.enter(id);
  line.used(most - 1, now);
  EXPECT_EQ(line.left(), 1u);
  EXPECT_FALSE(line.pass(now)) << "one is left to it";
  line.used(1, now);
  EXPECT_TRUE(line.pass(now));
  EXPECT_EQ(line.first(), 2u);
  EXPECT_EQ(line.left(), most);
  line.used(0, now);
  EXPECT_FALSE(line.pass(now + binding_turns::turn_time - 1ms));
  EXPECT_TRUE(line.pass(now + binding_turns::turn_time));
  EXPECT_EQ(line.first(), 3u);
  line.used(7, now);
  EXPECT_TRUE(line.leave(3));
  EXPECT_FALSE(line.leave(3));
  EXPECT_EQ(line.first(), 1u) << "behind all that came before its second turn";
  EXPECT_EQ(line.left(), most) << "of its own turn";
  EXPECT_TRUE(line.leave(2));
  line.used(most, now);
  EXPECT_TRUE(line.pass(now));
  EXPECT_EQ(line.first(), 1u) << "alone";
}

TEST_F(verbs_windows, all_end_before_the_port_that_goes_down_serves_again) {
  serve(with_windows());
  register_all();
  const auto reader = established();
  fabric.hold();
  auto half = new_reader("half");
  half->come(*server);
  settle();
  fabric.set_port_state("nic0", 1, IBV_PORT_DOWN);
  settle();
  EXPECT_EQ(fabric.objects().windows, 0u);
  fabric.release();
  fabric.set_port_state("nic0", 1, IBV_PORT_ACTIVE);
  settle();
  const auto again = established();
  EXPECT_EQ(again->read(again->chunks[0]), IBV_WC_SUCCESS);
}

/// A table of leases and the memory under them. A chunk ends at each multiple of its size, and the
/// alignment keeps such addresses out of the memory, so that each part is one chunk.
struct alignas(256 << 10) leased_memory {
  std::array<slot_entry, 64> leases;
  std::array<std::byte, 64 << 10> first;
  std::array<std::byte, 64 << 10> second;
};
static_assert(chunk_plan::unit_bytes % sizeof(leased_memory) == 0);

/// Memory under leases, which comes and goes while its readers read.
class windows_to_spans : public verbs_windows {
protected:
  void SetUp() override {
    first.fill(std::byte{1});
    second.fill(std::byte{2});
    auto made = verbs_rail_server::create(open("nic0"), with_windows(),
                                          served_region::leases(memory->leases));
    ASSERT_TRUE(made) << to_string(made.error());
    server = std::move(*made);
    register_all();
    ASSERT_TRUE(server->spans().add(first));
    ASSERT_TRUE(server->spans().add(second));
  }
  std::unique_ptr<rail_reader> worker(const std::string& name) {
    auto made = new_reader(name);
    made->greeting.service = data_service::handoff;
    made->come(*server);
    settle();
    made->connect();
    made->peer.say(verbs_ready{});
    settle();
    made->take_chunks();
    return made;
  }
  static region_chunk of(const rail_reader& reader, std::span<const std::byte> span) {
    for (const auto& each : reader.chunks)
      if (each.address == reinterpret_cast<std::uint64_t>(span.data()))
        return each;
    return {};
  }

  const std::unique_ptr<leased_memory> memory = std::make_unique<leased_memory>();
  std::array<std::byte, 64 << 10>& first = memory->first;
  std::array<std::byte, 64 << 10>& second = memory->second;
};

TEST_F(windows_to_spans, every_reader_has_its_own_to_each_span_and_to_the_leases) {
  const auto one = worker("one"), other = worker("other");
  ASSERT_EQ(one->chunks.size(), 3u);
  ASSERT_EQ(other->chunks.size(), 3u);
  EXPECT_EQ(fabric.windows().size(), 6u);
  EXPECT_EQ(one->read(of(*one, first)), IBV_WC_SUCCESS);
  EXPECT_EQ(one->memory[0], std::byte{1});
  EXPECT_EQ(one->read(of(*one, second)), IBV_WC_SUCCESS);
  EXPECT_EQ(one->memory[0], std::byte{2});
  EXPECT_EQ(other->read(of(*one, second)), IBV_WC_REM_ACCESS_ERR);
}

TEST_F(windows_to_spans, a_span_that_is_removed_takes_its_windows_with_it_at_once) {
  const auto one = worker("one"), other = worker("other");
  const auto regions = fabric.objects().regions;
  EXPECT_TRUE(server->spans().remove(first.data()));
  EXPECT_EQ(fabric.objects().regions, regions - 1) << "while both are still served";
  EXPECT_EQ(fabric.windows().size(), 4u);
  EXPECT_EQ(other->read(of(*other, second)), IBV_WC_SUCCESS);
  EXPECT_EQ(one->read(of(*one, first)), IBV_WC_REM_ACCESS_ERR);
  settle();
  EXPECT_EQ(ended(session_end::memory_removed), 2u);
  ASSERT_TRUE(server->spans().add(first));
  settle();
  const auto again = worker("one");
  ASSERT_EQ(again->chunks.size(), 3u);
  EXPECT_EQ(again->read(of(*again, first)), IBV_WC_SUCCESS);
}

TEST_F(windows_to_spans, a_span_that_goes_while_it_is_bound_leaves_nothing_behind) {
  fabric.hold();
  auto reader = new_reader();
  reader->greeting.service = data_service::handoff;
  reader->come(*server);
  settle();
  EXPECT_EQ(fabric.objects().windows, 3u);
  EXPECT_TRUE(server->spans().remove(second.data()));
  EXPECT_EQ(fabric.objects().windows, 2u);
  fabric.release();
  settle();
  EXPECT_TRUE(reader->told_end());
  EXPECT_EQ(fabric.objects().windows, 0u);
}

} // namespace
} // namespace peercache::rdma::verbs_windows_test
