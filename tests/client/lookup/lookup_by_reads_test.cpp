#include "client/lookup/lookup_by_reads.hpp"

#include "client/lookup/lookup_channels.hpp"
#include "client/lookup/remote_shards.hpp"
#include "client/read/read_plane.hpp"
#include "directory/shard.hpp"
#include "directory/shard_batch.hpp"
#include "rdma/read_lane.hpp"

#include <cstring>
#include <gtest/gtest.h>
#include <memory>
#include <vector>

namespace peercache::client::lookup_by_reads_test {
namespace {

using namespace std::chrono_literals;
using directory::view_number;
using state = lookup_carrier::state;

constexpr incarnation alice{1, 1};
constexpr view_number view{3, 4};

page_key key(std::size_t number) {
  return key_space{}.key_of(std::to_string(number));
}

/// An owner whose shard is READ by a lane that serves it from this process's memory.
class lookup_by_reads_test : public testing::Test {
protected:
  directory::shard shard;
  counters totals;
  std::unique_ptr<read_plane> plane;
  std::vector<std::unique_ptr<rdma::read_lane>> lanes;
  std::unique_ptr<remote_shards> shards;
  lookup_channels channels{"test"};
  link::peer owner;
  page_status outcome = page_status::hit; ///< What becomes of each READ.
  bool alone = false;
  bool late = false; ///< READs end only when they are cancelled.
  std::vector<rdma::read_batch*> outstanding;
  std::size_t cancelled = 0;

  void SetUp() override {
    shard.set_members(std::array{alice});
    shard.set_view(view);
    client_options options;
    options.rails.mode = rdma::plane_mode::tcp;
    auto made = read_plane::create(options);
    ASSERT_TRUE(made);
    plane = std::move(*made);
    auto& lane = *lanes.emplace_back(std::make_unique<rdma::read_lane>());
    lane.how = rdma::read_lane::kind::rail;
    lane.submit = [this](rdma::read_batch& batch) { submit(batch); };
    lane.cancel = [this](const rdma::read_batch&) {
      ++cancelled;
      outstanding.back()->fail(page_status::closed);
    };
    auto landing = landing_stock::create(*plane, 2, remote_shards::landing_bytes);
    ASSERT_TRUE(landing);
    shards = std::make_unique<remote_shards>(lanes, std::move(*landing), "test", totals);
    owner.self.inc = alice;
    owner.self.host = "127.0.0.1";
    owner.self.rails = 1;
  }

  void submit(rdma::read_batch& batch) {
    EXPECT_FALSE(batch.judged);
    outstanding.push_back(&batch);
    if (late)
      return;
    for (auto& page : batch.pages) {
      ASSERT_EQ(page.length_bytes, directory::shard_unit_bytes);
      const auto unit =
          static_cast<directory::unit_number>(page.source.address / directory::shard_unit_bytes);
      for (std::size_t i = 0; i < directory::words_per_unit; ++i) {
        const auto word = shard.memory().at(unit).words[i].load();
        std::memcpy(batch.parts[page.first_part].data + i * sizeof word, &word, sizeof word);
      }
      page.status = outcome;
    }
    batch.finish();
  }

  std::unique_ptr<lookup_by_reads> carrier() {
    return std::make_unique<lookup_by_reads>(
        *shards, channels, owner,
        directory::remote_search::asking{view, [](const page_key&) { return true; }}, alone);
  }

  static std::string question(std::size_t from, std::size_t count) {
    std::string batch;
    for (std::size_t i = from; i < from + count; ++i)
      directory::append_lookup(batch, key(i));
    return batch;
  }

  /// Asks to the end. @param asked the packed keys
  static state run(lookup_carrier& with, const std::string& asked) {
    auto now = with.start(asked);
    while (now == state::asking && with.wait_briefly(std::chrono::steady_clock::now() + 1s))
      now = with.advance();
    return now;
  }
};

TEST_F(lookup_by_reads_test, answers_as_the_owner_would) {
  for (std::size_t i = 0; i < 300; ++i)
    shard.publish(key(i), {.node = {1}, .holder = alice, .gen = {2 * i + 2}, .length_bytes = 64},
                  directory::publish_mode::always);
  for (int turn = 0; turn < 2; ++turn) {
    alone = turn == 1;
    const auto with = carrier();
    const auto asked = question(200, 200);
    ASSERT_EQ(run(*with, asked), state::answered);
    EXPECT_TRUE(with->answer() == *directory::lookup_batch(shard, asked));
  }
  EXPECT_EQ(totals.lookups_read, 2u);
  EXPECT_EQ(totals.lookups_asked_after_all, 0u);
}

TEST_F(lookup_by_reads_test, a_key_that_was_found_before_takes_one_round_of_two_reads) {
  shard.publish(key(1), {.node = {1}, .holder = alice, .gen = {2}, .length_bytes = 64},
                directory::publish_mode::always);
  const auto asked = question(1, 1);
  run(*carrier(), asked); // Learns the header and the holders as well.
  const auto rounds = outstanding.size();
  const auto reads = totals.shard_reads.load();
  const auto again = carrier();
  ASSERT_EQ(run(*again, asked), state::answered);
  EXPECT_TRUE(again->answer() == *directory::lookup_batch(shard, asked));
  EXPECT_EQ(outstanding.size() - rounds, 1u);
  EXPECT_EQ(totals.shard_reads - reads, 2u);
}

TEST_F(lookup_by_reads_test, what_a_question_may_have) {
  EXPECT_TRUE(shards->can_read(owner, 32));
  EXPECT_TRUE(shards->can_read(owner, directory::remote_search::keys_max * 32));
  EXPECT_FALSE(shards->can_read(owner, (directory::remote_search::keys_max + 1) * 32));
  owner.self.rails = 0;
  EXPECT_FALSE(shards->can_read(owner, 32));
}

TEST_F(lookup_by_reads_test, an_owner_whose_shard_cannot_be_read_is_asked) {
  outcome = page_status::unreachable;
  const auto with = carrier();
  // No server listens at the owner's look-up port, so the question over TCP fails.
  EXPECT_EQ(run(*with, question(1, 1)), state::broken);
  EXPECT_EQ(totals.lookups_asked_after_all, 1u);
  EXPECT_FALSE(shards->can_read(owner, 32)) << "for a while";
}

TEST_F(lookup_by_reads_test, an_owner_without_a_view_is_asked_and_read_again) {
  shard.set_view({});
  EXPECT_EQ(run(*carrier(), question(1, 1)), state::broken);
  EXPECT_TRUE(shards->can_read(owner, 32));
}

TEST_F(lookup_by_reads_test, more_look_ups_than_there_is_memory_for_ask) {
  const auto first = shards->take_memory();
  const auto second = shards->take_memory();
  EXPECT_EQ(run(*carrier(), question(1, 1)), state::broken);
  EXPECT_TRUE(outstanding.empty());
}

TEST_F(lookup_by_reads_test, reads_that_are_under_way_are_cancelled_before_their_memory_ends) {
  late = true;
  {
    const auto with = carrier();
    const auto asked = question(1, 1);
    EXPECT_EQ(with->start(asked), state::asking);
    EXPECT_EQ(with->advance(), state::asking);
  }
  EXPECT_EQ(cancelled, 1u);
}

} // namespace
} // namespace peercache::client::lookup_by_reads_test
