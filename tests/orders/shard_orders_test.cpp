// A directory shard that is read while it changes (directory/shard_search.hpp and
// directory/shard_changes.hpp) by C++20's memory model. Each order that docs/memory_order.md calls
// needed is weakened, and the checker finds what it prevents.

#include "litmus.hpp"

#include <gtest/gtest.h>

namespace peercache::litmus {
namespace {

using enum order;

/// The orders of `line_change` and `shard_search::find_once`.
struct line {
  order begun = release; ///< The fence behind the odd version.
  order ended = release;
  order first_look = acquire;
  order between = acquire; ///< The reader's fence.
};

/// Two words of a record that change together, between an odd and an even version of its line.
bool reads_half_a_record(const line& how) {
  constexpr int version = 0;
  constexpr int gen = 1;
  constexpr int slot = 2;
  return allows({{store(version, 1, relaxed), fence(how.begun), store(gen, 1, relaxed),
                  store(slot, 1, relaxed), store(version, 2, how.ended)},
                 {load(version, how.first_look), load(slot, relaxed), load(gen, relaxed),
                  fence(how.between), load(version, relaxed)}},
                [](const readings& read) {
                  const bool trusted = read.at(1, 0) == read.at(1, 4) && read.at(1, 0) % 2 == 0;
                  return trusted && read.at(1, 1) != read.at(1, 2);
                });
}

TEST(shard_orders, a_record_is_read_between_two_equal_even_versions) {
  EXPECT_FALSE(reads_half_a_record({}));
  EXPECT_TRUE(reads_half_a_record({.begun = relaxed}));
  EXPECT_TRUE(reads_half_a_record({.ended = relaxed}));
  EXPECT_TRUE(reads_half_a_record({.first_look = relaxed}));
  EXPECT_TRUE(reads_half_a_record({.between = relaxed}));
}

/// A place that names a record: `set_first`, and the fence behind the load of the place. Whether
/// its reader takes the words that lay there before.
bool follows_a_place_to_old_words(order named, order followed) {
  constexpr int record = 0;
  constexpr int place = 1;
  return allows({{store(record, 1, relaxed), store(place, 1, named)},
                 {load(place, relaxed), fence(followed), load(record, relaxed)}},
                [](const readings& read) { return read.at(1, 0) == 1 && read.at(1, 2) == 0; });
}

TEST(shard_orders, a_place_names_a_record_that_is_in_memory) {
  EXPECT_FALSE(follows_a_place_to_old_words(release, acquire));
  EXPECT_TRUE(follows_a_place_to_old_words(relaxed, acquire));
  EXPECT_TRUE(follows_a_place_to_old_words(release, relaxed));
}

/// An index that has grown, its header, and the fence of `begin`. Whether a reader of the header
/// finds an empty index.
bool begins_in_an_empty_index(order stored, order begun) {
  constexpr int index = 0;
  constexpr int header = 1;
  return allows({{store(index, 1, relaxed), fence(stored), store(header, 1, relaxed)},
                 {load(header, relaxed), fence(begun), load(index, relaxed)}},
                [](const readings& read) { return read.at(1, 0) == 1 && read.at(1, 2) == 0; });
}

TEST(shard_orders, what_a_header_names_is_in_memory) {
  EXPECT_FALSE(begins_in_an_empty_index(release, acquire));
  EXPECT_TRUE(begins_in_an_empty_index(relaxed, acquire));
  EXPECT_TRUE(begins_in_an_empty_index(release, relaxed));
}

/// A record that changes behind a new header, for a reader that goes by the header before: it reads
/// the record, then the count of changes. Whether it takes both.
bool mixes_an_old_header_with_a_new_record(order changed, order looked) {
  constexpr int header = 0;
  constexpr int record = 1;
  return allows({{store(header, 1, relaxed), fence(changed), store(record, 1, relaxed)},
                 {load(record, relaxed), fence(looked), load(header, relaxed)}},
                [](const readings& read) { return read.at(1, 0) == 1 && read.at(1, 2) == 0; });
}

TEST(shard_orders, who_reads_a_change_behind_a_header_sees_the_header) {
  EXPECT_FALSE(mixes_an_old_header_with_a_new_record(release, acquire));
  EXPECT_TRUE(mixes_an_old_header_with_a_new_record(relaxed, acquire));
  EXPECT_TRUE(mixes_an_old_header_with_a_new_record(release, relaxed));
}

} // namespace
} // namespace peercache::litmus
