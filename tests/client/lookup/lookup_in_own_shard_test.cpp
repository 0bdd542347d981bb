#include "client/lookup/lookup_in_own_shard.hpp"

#include "common/key_epoch.hpp"
#include "directory/shard.hpp"
#include "directory/shard_batch.hpp"
#include "directory/shard_object.hpp"

#include <array>
#include <gtest/gtest.h>
#include <memory>
#include <string>
#include <unistd.h>

namespace peercache::client::lookup_in_own_shard_test {
namespace {

using directory::view_number;
using state = lookup_carrier::state;

constexpr incarnation alice{1, 1};
constexpr view_number view{3, 4};
constexpr std::size_t records = 10'000;

page_key key(std::size_t number) {
  return key_space{}.key_of(std::to_string(number));
}

/// The shard of this host's node, which this process has mapped as a client does. Nobody listens at
/// the node's look-up port, so a question that goes there fails.
class lookup_in_own_shard_test : public testing::Test {
protected:
  const std::string pool = "/peercache-test-" + std::to_string(::getpid()) + "-own-0123";
  result<directory::shard_object> object =
      directory::shard_object::create(pool, directory::shard::units_for(records), {});
  directory::shard shard{records, object ? object->file() : -1};
  std::unique_ptr<const directory::attached_shard> mapped;
  std::unique_ptr<storage::epoch_block> block = std::make_unique<storage::epoch_block>();
  storage::epoch_table epochs{*block};
  lookup_channels channels{"test"};
  link::peer owner;
  counters totals;

  void SetUp() override {
    ASSERT_TRUE(object) << to_string(object.error());
    shard.set_members(std::array{alice});
    shard.set_view(view);
    for (std::size_t i = 0; i < 100; ++i)
      shard.publish(key(i), {.node = {1}, .holder = alice, .gen = {2 * i + 2}, .length_bytes = 64},
                    directory::publish_mode::always);
    auto attached = directory::attached_shard::attach(pool, {});
    ASSERT_TRUE(attached) << to_string(attached.error());
    mapped = std::move(*attached);
    owner.self.inc = alice;
    owner.self.host = "127.0.0.1";
  }

  static std::string question(std::size_t from, std::size_t count) {
    std::string batch;
    for (std::size_t i = from; i < from + count; ++i)
      directory::append_lookup(batch, key(i));
    return batch;
  }

  std::unique_ptr<lookup_in_own_shard> carrier(const view_number& by = view) {
    return std::make_unique<lookup_in_own_shard>(
        *mapped, epochs, channels, owner,
        directory::remote_search::asking{by, [](const page_key&) { return true; }}, totals);
  }

  /// How the question ends over TCP: nobody answers.
  static bool is_asked(lookup_carrier& with, const std::string& asked) {
    auto now = with.start(asked);
    for (int i = 0; i < 100 && now == state::asking; ++i) {
      auto awaited = with.awaited();
      ::poll(&awaited, 1, 1000);
      now = with.advance();
    }
    return now == state::broken;
  }
};

TEST_F(lookup_in_own_shard_test, answers_at_once_as_the_node_would) {
  const auto with = carrier();
  const auto asked = question(50, 100);
  ASSERT_EQ(with->start(asked), state::answered);
  EXPECT_TRUE(with->answer() == *directory::lookup_batch(shard, asked));
  EXPECT_EQ(totals.lookups_own, 1u);
}

TEST_F(lookup_in_own_shard_test, by_another_view_the_node_is_asked) {
  EXPECT_TRUE(is_asked(*carrier({3, 5}), question(1, 1)));
  shard.set_view({});
  EXPECT_TRUE(is_asked(*carrier(), question(1, 1)));
  EXPECT_EQ(totals.lookups_asked_after_all, 2u);
}

TEST_F(lookup_in_own_shard_test, a_page_that_was_cleared_is_not_found_from_the_clear_on) {
  epochs.raise(space_of(key(1)), 5);
  const auto with = carrier();
  const auto asked = question(1, 1);
  ASSERT_EQ(with->start(asked), state::answered);
  directory::answer_reader reader(with->answer());
  std::array<directory::page_location, limits::locations_per_key_max> found;
  std::size_t count = 1;
  ASSERT_TRUE(reader.next(found, count));
  EXPECT_EQ(count, 0u);
}

TEST_F(lookup_in_own_shard_test, the_shard_of_a_node_outside_its_cluster_is_not_read) {
  epochs.close();
  EXPECT_TRUE(is_asked(*carrier(), question(1, 1)));
}

TEST_F(lookup_in_own_shard_test, while_a_change_does_not_end_the_node_is_asked) {
  auto& changes = shard.memory().at(directory::header_unit).words[directory::changes_word];
  ++changes;
  EXPECT_TRUE(is_asked(*carrier(), question(1, 1)));
  --changes;
  const auto asked = question(1, 1);
  EXPECT_EQ(carrier()->start(asked), state::answered);
}

} // namespace
} // namespace peercache::client::lookup_in_own_shard_test
