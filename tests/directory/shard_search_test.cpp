#include "directory/shard_search.hpp"

#include "common/page_key.hpp"
#include "common/test_guards.hpp"
#include "directory/shard.hpp"
#include "tests/directory/shard_records.hpp"

#include <array>
#include <functional>
#include <gtest/gtest-spi.h>
#include <gtest/gtest.h>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace peercache::directory::shard_search_test {
namespace {

/// The memory of a shard for a reader that is interrupted: at given loads the shard's writer does
/// things.
class interrupted {
public:
  struct script {
    std::map<std::size_t, std::function<void()>> at; ///< By the number of the load.
    std::size_t loads = 0;
  };
  interrupted(const shard_unit* base, script& told) : base_(base), told_(&told) {}
  std::uint64_t load(unit_number unit, std::size_t word,
                     std::memory_order = std::memory_order_relaxed) const {
    if (const auto now = told_->at.find(told_->loads++); now != told_->at.end())
      std::exchange(now->second, [] {})();
    return base_[unit].words[word].load();
  }
  void prefetch(unit_number) const noexcept {}
  static bool covers(const shard_header&, std::uint64_t, std::uint64_t) noexcept { return true; }

private:
  const shard_unit* base_;
  script* told_;
};

/// Two changes of a shard in which `before` holds, one after the other.
struct story {
  const char* name;
  std::function<void(shard&)> before, first, second;
};

std::vector<story> stories() {
  const auto publish = [](shard& to, std::size_t which, const page_location& what) {
    EXPECT_EQ(to.publish(numbered_key(which), what, publish_mode::always),
              publish_outcome::accepted);
  };
  const auto only_alice = [=](shard& s) { publish(s, 1, location_at(alice, 2)); };
  const auto both = [=](shard& s) {
    publish(s, 1, location_at(alice, 2));
    publish(s, 1, location_at(bob, 4, tier::disk));
  };
  const auto nothing = [](shard&) {};
  std::vector<story> all;
  all.push_back({"a newer generation, twice", only_alice,
                 [=](shard& s) { publish(s, 1, location_at(alice, 6)); },
                 [=](shard& s) { publish(s, 1, location_at(alice, 8, tier::disk)); }});
  all.push_back({"another holder, and the first one withdraws", only_alice,
                 [=](shard& s) { publish(s, 1, location_at(bob, 4)); },
                 [](shard& s) { EXPECT_TRUE(s.withdraw(numbered_key(1), alice, {2})); }});
  all.push_back({"a record that another key gets", only_alice,
                 [=](shard& s) {
                   publish(s, 1, location_at(bob, 4));
                   EXPECT_TRUE(s.withdraw(numbered_key(1), alice, {2}));
                 },
                 [=](shard& s) { publish(s, 2, location_at(alice, 10)); }});
  all.push_back({"a record that the key itself gets again", both,
                 [](shard& s) { EXPECT_TRUE(s.withdraw(numbered_key(1), bob, {4}, tier::disk)); },
                 [=](shard& s) { publish(s, 1, location_at(bob, 12)); }});
  all.push_back({"an index that grows", only_alice,
                 [=](shard& s) {
                   for (std::size_t i = 100; i < 400; ++i)
                     publish(s, i, location_at(bob, 2));
                 },
                 [=](shard& s) {
                   publish(s, 1, location_at(bob, 4));
                   EXPECT_TRUE(s.withdraw(numbered_key(1), alice, {2}));
                 }});
  all.push_back({"a holder that leaves, and another one with its number", both,
                 [](shard& s) { s.set_members(std::array{alice}); },
                 [=](shard& s) {
                   s.set_members(std::array{alice, incarnation{3, 3}});
                   publish(s, 1, location_at({3, 3}, 14));
                 }});
  all.push_back({"a key that comes and goes", nothing, only_alice,
                 [](shard& s) { EXPECT_TRUE(s.withdraw(numbered_key(1), alice, {2})); }});
  return all;
}

std::string told(const page_location& one) {
  return to_string(one.holder) + "/" + std::to_string(one.gen.value) + "/" +
         std::to_string(one.checksum) + "/" + std::to_string(one.slot.value) + "/" +
         std::to_string(one.length_bytes) + "/" + std::to_string(static_cast<int>(one.where));
}

std::string told(std::span<const page_location> all) {
  std::set<std::string> sorted;
  for (const auto& one : all)
    sorted.insert(told(one));
  std::string text;
  for (const auto& one : sorted)
    text += one + " ";
  return text;
}

std::string now(const shard& s) {
  std::array<page_location, limits::locations_per_key_max> out;
  return told({out.data(), s.lookup(numbered_key(1), out)});
}

/// Looks key 1 up while the writer does what the story says before loads `first` and `second` of
/// the reader. Returns false when the reader is done before.
bool play(const story& of, std::size_t first, std::size_t second) {
  shard s;
  s.set_members(std::array{alice, bob});
  of.before(s);
  std::set<std::string> right{now(s)};
  interrupted::script script;
  script.at[first] = [&] {
    of.first(s);
    right.insert(now(s));
  };
  const auto then = [&] {
    of.second(s);
    right.insert(now(s));
  };
  if (second != first) {
    script.at[second] = then;
  } else {
    script.at[first] = [&, begun = script.at[first]] {
      begun();
      then();
    };
  }
  shard_search search(interrupted(s.memory().base(), script));
  std::array<page_location, limits::locations_per_key_max> out;
  EXPECT_TRUE(search.begin());
  const auto hash = search.header().hash_of(numbered_key(1));
  const auto seen = search.look_ahead(hash);
  const auto count = search.find(numbered_key(1), hash, seen, out);
  EXPECT_TRUE(count);
  const auto answer = told({out.data(), count.value_or(0)});
  EXPECT_TRUE(right.contains(answer))
      << of.name << ": " << first << " " << second << ": " << answer;
  return script.loads > second;
}

void play_all() {
  for (const auto& of : stories())
    for (std::size_t first = 0; play(of, first, first) && !testing::Test::HasFailure(); ++first)
      for (auto second = first + 1; play(of, first, second); ++second)
        if (testing::Test::HasFailure())
          return;
}

TEST(shard_search, is_right_wherever_two_changes_interrupt_it) {
  play_all();
}

TEST(shard_search, without_its_guard_it_finds_what_never_was) {
  guard_switched_off off(guard::reread);
  testing::TestPartResultArray failures;
  {
    testing::ScopedFakeTestPartResultReporter caught(
        testing::ScopedFakeTestPartResultReporter::INTERCEPT_ONLY_CURRENT_THREAD, &failures);
    play_all();
  }
  EXPECT_GT(failures.size(), 0);
}

TEST(shard_search, gives_up_while_a_change_does_not_end) {
  shard s;
  s.set_members(std::array{alice});
  s.publish(numbered_key(1), location_at(alice, 2), publish_mode::always);
  auto search = s.reader();
  ASSERT_TRUE(search.begin());
  auto& changes = s.memory().at(header_unit).words[changes_word];
  ++changes;
  page_location out;
  EXPECT_FALSE(search.find(numbered_key(1), {&out, 1}));
  EXPECT_FALSE(search.begin());
  --changes;
  EXPECT_EQ(search.begin() ? search.find(numbered_key(1), {&out, 1}) : std::nullopt, 1u);
}

TEST(shard_search, keys_with_one_hash_are_told_apart) {
  // In a shard of one line per thousands of keys many hashes have the same home; the records say
  // whose they are.
  shard s;
  s.set_members(std::array{alice});
  for (std::size_t i = 0; i < 5000; ++i)
    ASSERT_EQ(s.publish(numbered_key(i), location_at(alice, 2 * i + 2), publish_mode::always),
              publish_outcome::accepted);
  for (std::size_t i = 0; i < 5000; i += 2)
    ASSERT_TRUE(s.withdraw(numbered_key(i), alice, {2 * i + 2}));
  page_location out;
  for (std::size_t i = 0; i < 5000; ++i) {
    ASSERT_EQ(s.lookup(numbered_key(i), {&out, 1}), i % 2);
    ASSERT_TRUE(i % 2 == 0 || out.gen.value == 2 * i + 2);
  }
}

} // namespace
} // namespace peercache::directory::shard_search_test
