// A million keys in one shard, moved, evicted and looked up at once by eight threads.

#include "actors/directory/shared_shard.hpp"
#include "common/page_key.hpp"
#include "directory/wire.hpp"
#include "discovery/hash_ring.hpp"
#include "tests/link/named_members.hpp"

#include <array>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <gtest/gtest.h>
#include <memory>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <thread>
#include <vector>

namespace peercache::actors {
namespace {

using directory::page_location;
using directory::tier;

constexpr std::uint32_t million = 1'000'000;
constexpr std::size_t writers = 3;
constexpr std::size_t readers = 5;
constexpr std::size_t batch_keys = 128;

/// One key's life, over and over: a page is set, set anew, evicted to disk, promoted by another
/// member, withdrawn from the disk, withdrawn. The number of a key's last change says all about it.
class lives {
public:
  static constexpr std::uint32_t changes_per_page = 6;
  enum class change : std::uint8_t { gone, set, set_anew, evicted, promoted, off_disk };

  lives(const incarnation& first, const incarnation& second) : first_(first), second_(second) {}

  static change of(std::uint32_t number) { return change(number % changes_per_page); }

  page_location set(std::uint32_t key, std::uint32_t number) const {
    return location(first_, key, gen_at(number), tier::memory);
  }
  page_location set_anew(std::uint32_t key, std::uint32_t number, tier where) const {
    return location(first_, key, gen_at(number) + 2, where);
  }
  page_location promoted(std::uint32_t key, std::uint32_t number) const {
    return location(second_, key, gen_at(number) + 4, tier::memory);
  }

  /// Whether a look-up may find these locations when `number` changes were made.
  bool are(std::uint32_t key, std::uint32_t number, std::span<const page_location> found) const {
    switch (of(number)) {
    case change::gone:
      return found.empty();
    case change::set:
      return found.size() == 1 && found[0] == set(key, number);
    case change::set_anew:
      return found.size() == 1 && found[0] == set_anew(key, number, tier::memory);
    case change::evicted:
      return found.size() == 1 && found[0] == set_anew(key, number, tier::disk);
    case change::promoted:
      return found.size() == 2 && found[0] == promoted(key, number) &&
             found[1] == set_anew(key, number, tier::disk);
    case change::off_disk:
      return found.size() == 1 && found[0] == promoted(key, number);
    }
    return false;
  }

private:
  static std::uint64_t gen_at(std::uint32_t number) { return 6 * (number / changes_per_page) + 2; }
  /// A location whose fields all follow from key, holder and generation.
  static page_location location(const incarnation& holder, std::uint32_t key, std::uint64_t gen,
                                tier where) {
    return {.node = {holder.low},
            .holder = holder,
            .gen = {gen},
            .checksum = (key + 1) * gen * 0x9e3779b97f4a7c15 | 1,
            .slot = {key ^ static_cast<std::uint32_t>(gen)},
            .length_bytes = key % 4096 + 1,
            .where = where};
  }

  incarnation first_, second_;
};

class million_keys : public testing::Test {
protected:
  const std::array<discovery::member, 2> members{link::member_named("first", 1),
                                                 link::member_named("second", 2)};
  const lives model{members[0].inc, members[1].inc};
  shared_shard shard{options()};
  std::vector<page_key> names;
  /// The number of each key's last change, noted before it and after it.
  std::vector<std::atomic<std::uint32_t>> begun, done;
  std::array<std::atomic<std::uint32_t>, writers> changing{}; ///< The key that each writer is at.
  std::atomic<std::uint64_t> looked_up{0};
  std::atomic<bool> over{false};

  million_keys() : begun(million), done(million) {
    names.reserve(million);
    for (std::uint32_t i = 0; i < million; ++i)
      names.push_back(key_space{}.key_of(std::to_string(i)));
  }

  directory::member_shard::options options() const {
    directory::member_shard::options all;
    all.self = members[0].id;
    all.replicas = 2;
    return all;
  }

  void SetUp() override {
    auto view = std::make_shared<discovery::view>();
    view->term = view->version = 1;
    view->members.assign(members.begin(), members.end());
    shard.lock()->follow({view, std::make_shared<discovery::hash_ring>(view->members)}, {});
  }

  std::string batch_that_makes(std::uint32_t key, std::uint32_t number, bool& withdraws) const {
    std::string batch;
    const auto& name = names[key];
    const auto before = number - 1; // `gone` ends the page of the change before.
    switch (lives::of(number)) {
    case lives::change::set:
      directory::append_publish(batch, {name, model.set(key, number)});
      break;
    case lives::change::set_anew:
      directory::append_publish(batch, {name, model.set_anew(key, number, tier::memory)});
      break;
    case lives::change::evicted:
      directory::append_publish(batch, {name, model.set_anew(key, number, tier::disk)});
      break;
    case lives::change::promoted:
      directory::append_publish(batch, {name, model.promoted(key, number)});
      break;
    case lives::change::off_disk:
      withdraws = true;
      directory::append_withdraw(
          batch, {name, members[0].inc, model.set_anew(key, number, tier::disk).gen, tier::disk});
      break;
    case lives::change::gone:
      withdraws = true;
      directory::append_withdraw(
          batch, {name, members[1].inc, model.promoted(key, before).gen, tier::memory});
      break;
    }
    return batch;
  }

  void change_one(std::uint32_t key) {
    const auto locked = shard.lock();
    const auto number = begun[key] + 1;
    begun[key] = number;
    bool withdraws = false;
    const auto batch = batch_that_makes(key, number, withdraws);
    if (withdraws) {
      const auto forgotten = directory::withdraw_batch(locked->records(), batch);
      ASSERT_TRUE(forgotten && *forgotten == 1);
    } else {
      const auto outcomes = locked->publish(batch);
      ASSERT_TRUE(outcomes);
      ASSERT_EQ(outcomes->at(0), static_cast<char>(directory::publish_outcome::accepted));
    }
    done[key] = number;
  }

  void change_all(std::uint32_t writer) {
    for (auto key = writer; key < million && !HasFailure(); key += writers) {
      changing[writer] = key;
      change_one(key);
    }
  }

  /// Any key; in half of all calls one that is changing or will soon be.
  std::uint32_t next_key(std::mt19937& random) const {
    const auto drawn = random();
    if (drawn % 2 == 0)
      return drawn / 2 % million;
    const auto ahead = drawn / 2 % 64 * writers;
    return static_cast<std::uint32_t>((changing[drawn / 128 % writers] + ahead) % million);
  }

  void look_up_some(std::mt19937& random) {
    std::array<std::uint32_t, batch_keys> keys, before;
    std::string question;
    for (std::size_t i = 0; i < batch_keys; ++i) {
      keys[i] = next_key(random);
      before[i] = done[keys[i]];
      directory::append_lookup(question, names[keys[i]]);
    }
    const auto answer = shard.try_look_up(question);
    if (!answer)
      return;
    ASSERT_TRUE(*answer);
    directory::answer_reader reader(**answer);
    std::array<page_location, limits::locations_per_key_max> found;
    for (std::size_t i = 0; i < batch_keys; ++i) {
      std::size_t count = 0;
      ASSERT_TRUE(reader.next(found, count));
      const auto after = begun[keys[i]].load();
      bool right = false;
      for (auto number = before[i]; number <= after && !right; ++number)
        right = model.are(keys[i], number, {found.data(), count});
      ASSERT_TRUE(right) << "key " << keys[i] << ", changes " << before[i] << " to " << after
                         << ", locations: " << count;
    }
    looked_up += batch_keys;
  }
};

TEST_F(million_keys, moved_evicted_and_looked_up_at_once_are_always_answered_right) {
  std::vector<std::jthread> asking;
  for (unsigned i = 0; i < readers; ++i)
    asking.emplace_back([this, i] {
      std::mt19937 random(i);
      while (!over && !HasFailure())
        look_up_some(random);
    });
  {
    std::vector<std::jthread> writing;
    for (unsigned i = 0; i < writers; ++i)
      writing.emplace_back([this, i] {
        // Each key lives once and is set again; more, until the readers have had their turns.
        for (std::uint32_t pass = 0; !HasFailure() && pass < 4 * lives::changes_per_page &&
                                     (pass <= lives::changes_per_page || looked_up < million);
             ++pass)
          change_all(i);
      });
  }
  over = true;
  asking.clear();
  std::printf("[ measured ] looked up %.1f million keys meanwhile\n",
              static_cast<double>(looked_up) / million);
  ASSERT_GE(looked_up, million);
  looked_up = 0;
  std::mt19937 random(0);
  for (std::size_t i = 0; i < million / batch_keys && !HasFailure(); ++i)
    look_up_some(random);
  EXPECT_EQ(looked_up, million / batch_keys * batch_keys) << "nothing changes any longer";
}

} // namespace
} // namespace peercache::actors
