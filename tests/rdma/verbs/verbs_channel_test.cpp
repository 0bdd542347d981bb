// Tests of what is special to verbs channels: where bytes arrive, the fence, late bytes.

#include "common/test_guards.hpp"
#include "tests/rdma/verbs/verbs_rig.hpp"
#include "tests/support/fake_verbs/fake_verbs.hpp"

#include <thread>

namespace peercache::rdma::verbs_channel_test {
namespace {

using tests::fake_fabric;
using tests::fake_work;
using namespace std::chrono_literals;

constexpr incarnation life{1, 1};

/// Tests with a reader and a server, each with a fake device of its own, on a fabric that the test
/// controls.
class verbs_channel_test : public testing::Test {
protected:
  verbs_channel_test() {
    fabric.add(tests::roce_device("fake0", 1));
    fabric.add(tests::roce_device("fake1", 2));
  }

  void start(verbs_data_plane_options options = {}) {
    rig.emplace(verbs_rig_devices{"fake0", "fake1",
                                  [this](plane_rig& one) {
                                    one.now += 10us;
                                    fabric.advance(10us);
                                  }},
                std::move(options));
    rig->serve(pool, life);
  }

  void TearDown() override {
    fabric.before_each(nullptr);
    fabric.in_the_middle(nullptr);
    if (rig)
      rig->plane().shutdown();
    rig.reset();
    EXPECT_TRUE(fabric.objects().none());
    EXPECT_EQ(fabric.misuse(), std::vector<std::string>{});
  }

  const rail_counters& counters() { return rig->rail->counters; }
  bool registers(test_batch& what) {
    return static_cast<bool>(rig->rail->destinations->add(what.memory));
  }
  /// Gives the slot up and fills it with other bytes, as the pool's owner does in an eviction.
  void overwrite(slot_id slot, std::size_t bytes) {
    rig->memory.entry(slot).generation.fetch_add(1);
    std::fill_n(rig->memory.page(slot), bytes, std::byte{0xEE});
    rig->memory.entry(slot).generation.fetch_add(1);
  }

  fake_fabric fabric{7};
  test_pool pool;
  std::optional<verbs_rig> rig;
};

TEST_F(verbs_channel_test, reads_go_straight_into_registered_memory) {
  start();
  test_batch what(pool, 20, 100'000);
  ASSERT_TRUE(registers(what));
  rig->read(what, life);
  EXPECT_TRUE(what.all(page_status::hit));
  for (std::size_t i = 0; i < 20; ++i)
    ASSERT_TRUE(what.holds(pool, i));
  EXPECT_EQ(counters().bounced_bytes, 0u);
  EXPECT_EQ(counters().payload_bytes, 20u * 100'000);
}

TEST_F(verbs_channel_test, a_batch_may_be_there_before_its_thread_polls_for_the_first_time) {
  start();
  test_batch what(pool, 3, 5000);
  std::thread owner([&] {
    rig->read(what, life);
    rig->plane().shutdown();
  });
  owner.join();
  EXPECT_TRUE(what.all(page_status::hit));
}

TEST_F(verbs_channel_test, reads_into_other_memory_go_through_a_bounce_block_and_are_counted) {
  start();
  test_batch what(pool, 3, 300'000);
  rig->read(what, life);
  EXPECT_TRUE(what.all(page_status::hit));
  for (std::size_t i = 0; i < 3; ++i)
    ASSERT_TRUE(what.holds(pool, i));
  EXPECT_EQ(counters().bounced_bytes, 3u * 300'000);
}

TEST_F(verbs_channel_test, a_page_half_in_registered_memory_arrives_whole) {
  start();
  test_batch what;
  what.add(pool, pool.put(200'000), 4);
  what.lay_out();
  const auto& part = what.batch.parts[1];
  ASSERT_TRUE(rig->rail->destinations->add({part.data, part.bytes}));
  rig->read(what, life);
  EXPECT_TRUE(what.all(page_status::hit));
  EXPECT_TRUE(what.holds(pool, 0));
  EXPECT_EQ(counters().bounced_bytes, 200'000u - part.bytes);
}

TEST_F(verbs_channel_test, a_batch_is_validated_behind_one_fence_whatever_its_size) {
  verbs_data_plane_options options;
  options.send_depth = 64;
  start(options);
  test_batch what(pool, 3000, 5000);
  ASSERT_TRUE(registers(what));
  rig->read(what, life);
  EXPECT_TRUE(what.all(page_status::hit));
  EXPECT_EQ(counters().fences, 1u);
  EXPECT_LE(counters().entry_reads, 3000u / 128 + 5) << "neighbours share a READ";
  EXPECT_LT(counters().doorbells, 6000u / 16);
}

TEST_F(verbs_channel_test, a_slot_that_is_overwritten_in_mid_read_is_stale) {
  start();
  test_batch what(pool, 1, 50'000);
  ASSERT_TRUE(registers(what));
  fabric.in_the_middle([&](const fake_work& work) {
    if (work.bytes > sizeof(slot_entry))
      overwrite(what.batch.pages[0].slot, 50'000);
  });
  rig->read(what, life);
  EXPECT_TRUE(what.all(page_status::stale));
}

TEST_F(verbs_channel_test, without_the_generation_check_an_overwritten_slot_would_be_a_hit) {
  const guard_switched_off off(guard::generation);
  start();
  test_batch what(pool, 1, 50'000);
  what.batch.pages[0].verify = false;
  ASSERT_TRUE(registers(what));
  fabric.in_the_middle([&](const fake_work& work) {
    if (work.bytes > sizeof(slot_entry))
      overwrite(what.batch.pages[0].slot, 50'000);
  });
  rig->read(what, life);
  EXPECT_TRUE(what.all(page_status::hit));
  EXPECT_FALSE(what.holds(pool, 0));
}

TEST_F(verbs_channel_test, what_is_read_without_validation_arrives_and_is_no_hit) {
  verbs_data_plane_options options;
  options.payload_only = true;
  options.send_depth = 64;
  start(options);
  test_batch what(pool, 300, 5000);
  ASSERT_TRUE(registers(what));
  rig->read(what, life);
  EXPECT_TRUE(what.all(page_status::stale));
  for (std::size_t i = 0; i < 300; ++i)
    ASSERT_TRUE(what.holds(pool, i));
  EXPECT_EQ(counters().fences, 0u);
  EXPECT_EQ(counters().entry_reads, 0u);
}

/// Tests on a device that carries out READs between two fences in any order. If it READs an entry
/// before the payload, the test overwrites the slot in between.
class fence_test : public verbs_channel_test {
protected:
  /// Reads pages in `rounds` rounds. Returns how many hits had wrong bytes.
  int wrong_hits(int rounds) {
    fabric.set_reorder(true);
    fabric.set_delay(1us, 60us);
    int wrong = 0;
    for (int i = 0; i < rounds; ++i) {
      test_batch what(pool, 1, 9000);
      what.batch.pages[0].verify = false;
      EXPECT_TRUE(registers(what));
      bool entry_read = false;
      fabric.before_each([&](const fake_work& work) {
        const bool payload = work.bytes > sizeof(slot_entry);
        if (payload && entry_read)
          overwrite(what.batch.pages[0].slot, 9000);
        entry_read |= !payload;
      });
      rig->read(what, life);
      fabric.before_each(nullptr);
      wrong += what.all(page_status::hit) && !what.holds(pool, 0) ? 1 : 0;
      rig->rail->destinations->remove(what.memory.data());
    }
    return wrong;
  }
};

TEST_F(fence_test, the_entry_is_read_after_the_last_byte_of_the_payload) {
  start();
  EXPECT_EQ(wrong_hits(100), 0);
}

TEST_F(fence_test, without_the_fence_wrong_bytes_would_be_hits) {
  const guard_switched_off off(guard::fence);
  start();
  EXPECT_GT(wrong_hits(100), 0);
}

TEST_F(verbs_channel_test, no_byte_arrives_after_a_time_out) {
  start();
  fabric.set_delay(10ms, 20ms);
  test_batch what(pool, 8, 40'000);
  ASSERT_TRUE(registers(what));
  test_batch first(pool, 1, 100);
  rig->read(first, life); // Makes the connection.
  rig->submit(what, life, 5ms);
  rig->finish(what);
  EXPECT_TRUE(what.all(page_status::timed_out));
  const auto returned = what.memory;
  fabric.advance(5s);
  rig->steps(100);
  EXPECT_EQ(what.memory, returned);
}

TEST_F(verbs_channel_test, work_that_the_device_refuses_is_a_miss_and_the_next_read_works) {
  start();
  test_batch what(pool, 2, 5000);
  fabric.fail(tests::fake_call::post_send, EIO);
  rig->read(what, life);
  EXPECT_TRUE(what.all(page_status::unreachable));
  EXPECT_GT(counters().refused_work, 0u);
  test_batch again(pool, 2, 5000);
  rig->read(again, life);
  EXPECT_TRUE(again.all(page_status::hit));
}

TEST_F(verbs_channel_test, the_servers_queue_pair_gone_is_counted_by_its_status) {
  start();
  test_batch first(pool, 1, 100);
  rig->read(first, life);
  test_batch what(pool, 2, 5000);
  fabric.set_delay(1ms, 1ms);
  rig->submit(what, life);
  rig->steps(3);
  rig->stop_serving();
  rig->finish(what);
  EXPECT_TRUE(what.all(page_status::unreachable));
}

/// If one peer's name had bytes that are not text, a collector of metrics would refuse the whole
/// text.
TEST_F(verbs_channel_test, a_peer_is_counted_under_a_name_that_can_be_printed) {
  start();
  rig->server_name = "a\n\xff";
  rig->serve(pool, life);
  test_batch what(pool, 2, 5000);
  rig->read(what, life);
  EXPECT_TRUE(what.all(page_status::hit));
  std::vector<std::string> names;
  counters().peers.for_each(
      [&](const std::string& name, const peer_counts&) { names.push_back(name); });
  EXPECT_EQ(names, std::vector<std::string>{"a??"});
}

TEST_F(verbs_channel_test, a_rail_whose_port_goes_down_says_so_and_comes_back) {
  start();
  test_batch first(pool, 1, 100);
  rig->read(first, life);
  fabric.set_port_state("fake0", 1, IBV_PORT_DOWN);
  rig->pass(10ms);
  rig->steps(3);
  EXPECT_FALSE(counters().usable);
  EXPECT_EQ(counters().channels, 0u);
  fabric.set_port_state("fake0", 1, IBV_PORT_ACTIVE);
  rig->pass(10ms);
  rig->steps(3);
  EXPECT_TRUE(counters().usable);
  test_batch again(pool, 1, 100);
  rig->read(again, life);
  EXPECT_TRUE(again.all(page_status::hit));
}

TEST_F(verbs_channel_test, a_page_across_chunks_of_the_region_arrives_whole) {
  start();
  rig->chunk_bytes = 2u << 20;
  rig->serve(pool, life);
  test_batch what(pool, 3, 5u << 20);
  ASSERT_TRUE(registers(what));
  rig->read(what, life);
  EXPECT_TRUE(what.all(page_status::hit));
  for (std::size_t i = 0; i < 3; ++i)
    EXPECT_TRUE(what.holds(pool, i));
}

/// The first piece of the page is READ, but the second cannot be. The batch must end only when the
/// READ of the first piece has ended.
TEST_F(verbs_channel_test, a_page_that_reaches_into_an_unregistered_chunk_is_unreachable) {
  start();
  rig->chunk_bytes = 2u << 20;
  rig->chunks_at_start = 2; // The first two chunks hold the slot table and only a part of the page.
  rig->serve(pool, life);
  fabric.set_delay(1ms, 1ms);
  test_batch what(pool, 1, 5u << 20);
  ASSERT_TRUE(registers(what));
  rig->read(what, life);
  EXPECT_TRUE(what.all(page_status::unreachable));
  EXPECT_GT(counters().payload_reads, 0u);
  const auto returned = what.memory;
  fabric.advance(1s);
  rig->steps(100);
  EXPECT_EQ(what.memory, returned) << "bytes came after the batch was given back";
  while (rig->server->regions().register_next()) {
  }
  rig->steps(100);
  what.batch.reset();
  rig->read(what, life);
  EXPECT_TRUE(what.all(page_status::hit)) << "the chunks were announced meanwhile";
}

TEST_F(verbs_channel_test, entries_never_take_the_last_bounce_block) {
  verbs_data_plane_options options;
  options.bounce_bytes = 2 * bounce_memory::block_bytes;
  start(options);
  fabric.set_delay(100us, 100us);
  std::vector<std::unique_ptr<test_batch>> many;
  for (int i = 0; i < 6; ++i)
    many.push_back(std::make_unique<test_batch>(pool, 4, 9000));
  for (auto& each : many)
    rig->submit(*each, life);
  for (auto& each : many) {
    rig->finish(*each);
    EXPECT_TRUE(each->all(page_status::hit));
  }
}

TEST_F(verbs_channel_test, nothing_is_registered_after_the_start) {
  start();
  test_batch first(pool, 1, 100);
  rig->read(first, life);
  const auto before = fabric.counts("fake0").registrations + fabric.counts("fake1").registrations;
  for (int i = 0; i < 20; ++i) {
    test_batch what(pool, 10, 70'000);
    rig->read(what, life);
    EXPECT_TRUE(what.all(page_status::hit));
  }
  EXPECT_EQ(fabric.counts("fake0").registrations + fabric.counts("fake1").registrations, before);
}

} // namespace
} // namespace peercache::rdma::verbs_channel_test
