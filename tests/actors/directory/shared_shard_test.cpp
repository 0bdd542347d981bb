#include "actors/directory/shared_shard.hpp"
#include "common/page_key.hpp"
#include "directory/shard_batch.hpp"
#include "discovery/hash_ring.hpp"
#include "tests/link/named_members.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <future>
#include <gtest/gtest.h>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <vector>

namespace peercache::actors {
namespace {

using discovery::member;

/// A shard whose view has one member, which owns all keys.
class shared_shard_test : public testing::Test {
protected:
  const member self = link::member_named("here", 1);
  shared_shard shard{options()};

  directory::member_shard::options options() const {
    directory::member_shard::options all;
    all.self = self.id;
    all.replicas = 1;
    return all;
  }

  void SetUp() override {
    auto view = std::make_shared<discovery::view>();
    view->term = view->version = 1;
    view->members = {self};
    shard.lock()->follow({view, std::make_shared<discovery::hash_ring>(view->members)}, {});
  }

  static page_key key(std::size_t number) { return key_space{}.key_of(std::to_string(number)); }

  /// Publications of a key have ascending numbers. Generations that can be read are even.
  std::string publication(const page_key& which, std::uint64_t number) const {
    directory::publish_record record;
    record.key = which;
    record.location.node = self.id;
    record.location.holder = self.inc;
    record.location.gen = generation{2 * number};
    record.location.length_bytes = 4096;
    std::string batch;
    directory::append_publish(batch, record);
    return batch;
  }
  void publish(const page_key& which, std::uint64_t number) {
    ASSERT_TRUE(shard.lock()->publish(publication(which, number)));
  }

  std::string withdrawal(const page_key& which, std::uint64_t number) const {
    std::string batch;
    directory::append_withdraw(batch,
                               {which, self.inc, generation{2 * number}, directory::tier::memory});
    return batch;
  }
  void withdraw(const page_key& which, std::uint64_t number) {
    ASSERT_TRUE(directory::withdraw_batch(shard.lock()->records(), withdrawal(which, number)));
  }

  /// Returns which publication an answer to one key's look-up names; 0: no location.
  static std::uint64_t publication_of(const std::string& answer) {
    directory::answer_reader reader(answer);
    std::array<directory::page_location, limits::locations_per_key_max> found;
    std::size_t count = 0;
    EXPECT_TRUE(reader.next(found, count));
    return count > 0 ? found[0].gen.value / 2 : 0;
  }
};

TEST_F(shared_shard_test, a_look_up_waits_for_no_lock) {
  publish(key(1), 1);
  std::string question;
  directory::append_lookup(question, key(1));
  const auto taken = shard.lock();
  const auto answer =
      std::async(std::launch::async, [&] { return shard.try_look_up(question); }).get();
  ASSERT_TRUE(answer);
  EXPECT_EQ(publication_of(**answer), 1u);
}

TEST_F(shared_shard_test, a_look_up_is_answered_by_the_view_that_was_taken_last) {
  std::string question;
  directory::append_lookup(question, key(1));
  const auto is_foreign = [&] {
    const auto answer = *shard.try_look_up(question);
    EXPECT_TRUE(answer);
    return static_cast<std::uint8_t>(answer->front()) == directory::wire::not_mine;
  };
  EXPECT_FALSE(is_foreign());
  shard.lock()->leave({1, 1});
  EXPECT_TRUE(is_foreign());
}

TEST_F(shared_shard_test, when_its_actor_has_ended_nothing_is_answered) {
  std::string question;
  directory::append_lookup(question, key(1));
  shard.end();
  EXPECT_FALSE(shard.try_look_up(question));
}

TEST_F(shared_shard_test, counts_the_look_ups_of_both_ways) {
  std::string question;
  directory::append_lookup(question, key(1));
  directory::append_lookup(question, key(2));
  EXPECT_TRUE(shard.look_up(question));
  EXPECT_TRUE(*shard.try_look_up(question));
  EXPECT_EQ(shard.counted().lookups, 4u);
  EXPECT_EQ(shard.counted().foreign, 0u);
}

/// Changes the shard in a thread of its own, which has no lock.
template <class Change>
auto elsewhere(Change change) {
  return std::async(std::launch::async, change).get();
}

TEST_F(shared_shard_test, a_change_that_would_wait_is_not_made) {
  publish(key(1), 1);
  const auto published = publication(key(2), 1);
  const auto withdrawn = withdrawal(key(1), 1);
  const auto is_published = [&] { return shard.try_publish(published, {}).has_value(); };
  const auto is_withdrawn = [&] { return shard.try_withdraw(withdrawn).has_value(); };
  {
    const auto taken = shard.lock();
    EXPECT_FALSE(elsewhere(is_published));
    EXPECT_FALSE(elsewhere(is_withdrawn));
    EXPECT_EQ(taken->records().locations(), 1u);
  }
  EXPECT_TRUE(is_published());
  EXPECT_TRUE(is_withdrawn());
  EXPECT_EQ(shard.lock()->records().locations(), 1u);
  EXPECT_EQ(shard.counted().published, 1u);
  EXPECT_EQ(shard.counted().withdrawn, 1u);
  shard.end();
  EXPECT_FALSE(is_published());
  EXPECT_FALSE(is_withdrawn());
}

TEST_F(shared_shard_test, a_change_with_which_the_actor_has_more_to_do_is_not_made) {
  publish(key(1), 1);
  EXPECT_FALSE(shard.try_publish(publication(key(2), 1), {1, 2})) << "of a view that is not known";
  const auto other = link::member_named("other", 2);
  auto view = std::make_shared<discovery::view>();
  view->term = 1;
  view->version = 2;
  view->members = {self, other};
  std::ranges::sort(view->members, {}, &member::id);
  shard.lock()->follow({view, std::make_shared<discovery::hash_ring>(view->members)}, {});
  shard.lock()->begin_to_give(directory::member_shard::afterwards::drains, {},
                              [](const directory::handed_over&) {});
  EXPECT_FALSE(shard.try_withdraw(withdrawal(key(1), 1))) << "those who get the records must hear";
  EXPECT_EQ(shard.lock()->records().locations(), 1u);
}

TEST_F(shared_shard_test, a_change_that_would_overtake_an_announced_message_is_not_made) {
  publish(key(1), 1);
  const auto are_made = [&] {
    const bool published = shard.try_publish(publication(key(2), 1), {}).has_value();
    EXPECT_EQ(shard.try_withdraw(withdrawal(key(2), 1)).has_value(), published);
    return published;
  };
  EXPECT_TRUE(are_made());
  shard.announce();
  shard.announce();
  EXPECT_FALSE(are_made());
  shard.heard();
  EXPECT_FALSE(are_made()) << "the second message waits";
  shard.heard();
  EXPECT_TRUE(are_made());
}

/// Publishes and withdraws pages while threads look them up: each answer must say what was true of
/// its key at some time between the question and the answer.
TEST_F(shared_shard_test, an_answer_is_true_at_some_time_between_question_and_answer) {
  constexpr std::size_t keys = 256;
  constexpr std::uint64_t changes = 30'000;
  /// Number of the writer's last change of a key, noted before it (`begun`) and after it (`done`).
  /// An odd number is a publication, the even number after it its withdrawal.
  struct model {
    std::atomic<std::uint64_t> begun{0}, done{0};
  };
  std::vector<model> models(keys);
  std::vector<page_key> names;
  for (std::size_t i = 0; i < keys; ++i)
    names.push_back(key(i));
  std::atomic<bool> over{false};
  std::atomic<std::uint64_t> answers{0};
  const auto ask = [&](unsigned seed) {
    std::mt19937 random(seed);
    while (!over) {
      const auto which = random() % keys;
      std::string question;
      directory::append_lookup(question, names[which]);
      const auto before = models[which].done.load();
      const auto answer =
          seed % 2 == 0 ? shard.try_look_up(question) : std::optional(shard.look_up(question));
      const auto after = models[which].begun.load();
      if (!answer)
        continue;
      const auto found = publication_of(**answer);
      ++answers;
      if (found == 0)
        ASSERT_TRUE(before % 2 == 0 || before < after) << "the page was there throughout";
      else
        ASSERT_TRUE(found % 2 == 1 && before <= found && found <= after)
            << before << " " << found << " " << after;
    }
  };
  std::vector<std::jthread> threads;
  for (unsigned i = 0; i < 4; ++i)
    threads.emplace_back(ask, i);
  std::mt19937 random(7);
  for (std::uint64_t i = 0; !HasFailure() && (i < changes || answers < changes / 10); ++i) {
    const auto which = random() % keys;
    auto& now = models[which];
    const auto next = now.begun + 1;
    now.begun = next;
    if (next % 2 == 1)
      publish(names[which], next);
    else
      withdraw(names[which], next - 1);
    now.done = next;
  }
  over = true;
}

} // namespace
} // namespace peercache::actors
