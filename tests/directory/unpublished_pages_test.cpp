#include "directory/unpublished_pages.hpp"

#include "common/page_key.hpp"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

namespace peercache::directory {
namespace {

class unpublished_pages_test : public testing::Test {
protected:
  static discovery::member member_named(const std::string& name) {
    discovery::member member;
    member.name = name;
    member.id = node_id_of(name);
    return member;
  }
  static page_key key(int number) { return key_space{}.key_of(std::to_string(number)); }

  unpublished_pages::chunk take(node_id queue, std::size_t count_max = 1000) {
    return pages.take(queue, 1000, count_max, ring, 2, where());
  }
  unpublished_pages::locate where() const {
    return [this](const page_key& key) {
      page_location found;
      found.gen = {2};
      return gone.count(key) > 0 ? std::nullopt : std::optional(found);
    };
  }

  publication answer(std::size_t count) const { return publication{count}; }

  const node_id first = node_id_of("first"), second = node_id_of("second");
  const std::vector<discovery::member> members{member_named("first"), member_named("second")};
  const discovery::hash_ring ring{members};
  std::set<page_key> gone;
  unpublished_pages pages;
};

TEST_F(unpublished_pages_test, each_owner_has_a_queue_of_its_own) {
  pages.add({key(1), first});
  pages.add({key(2), second});
  pages.add({key(3)});
  const auto sent = take(first);
  ASSERT_EQ(sent.pages.size(), 1u);
  ASSERT_EQ(sent.batches.size(), 1u);
  EXPECT_EQ(sent.batches[0].owner, first);
  EXPECT_EQ(sent.pages[0].gen, generation{2});
  pages.add({key(4), first});
  EXPECT_EQ(pages.ready(), (std::vector{unpublished_pages::all_owners, second}))
      << "of a queue one chunk is on its way at a time";
  EXPECT_EQ(take(unpublished_pages::all_owners).batches.size(), 2u);
  pages.settle(first, sent.pages, answer(1));
  EXPECT_EQ(take(first).pages.at(0).key, key(4));
}

TEST_F(unpublished_pages_test, what_was_not_heard_comes_again) {
  pages.add({key(1), first});
  pages.add({key(2), first});
  const auto sent = take(first);
  EXPECT_TRUE(pages.empty());
  EXPECT_FALSE(pages.idle());
  auto said = answer(2);
  said.unheard[1] = true;
  const auto after = pages.settle(first, sent.pages, said);
  EXPECT_FALSE(after.all_heard);
  EXPECT_TRUE(after.useless.empty());
  EXPECT_EQ(take(first).pages.at(0).key, key(2));
}

TEST_F(unpublished_pages_test, what_an_owner_missed_comes_first_and_is_not_counted) {
  pages.add({key(1), first});
  pages.add({key(2), first});
  pages.add({key(3), first, {}, true});
  const auto sent = take(first, 1);
  ASSERT_EQ(sent.pages.size(), 2u);
  EXPECT_EQ(sent.pages[0].key, key(3));
  EXPECT_EQ(sent.pages[1].key, key(1));
  EXPECT_EQ(sent.counted, 1u);
  auto said = answer(2);
  said.unheard[0] = true;
  pages.settle(first, sent.pages, said);
  const auto again = take(first, 0);
  ASSERT_EQ(again.pages.size(), 1u);
  EXPECT_EQ(again.pages[0].key, key(3)) << "missed twice";
  EXPECT_EQ(again.counted, 0u);
}

TEST_F(unpublished_pages_test, the_queue_of_an_owner_out_of_reach_has_an_end) {
  gone.insert(key(1));
  for (std::size_t i = 0; i < 4 * unpublished_pages::chunk_pages; ++i) {
    pages.add({key(static_cast<int>(i % 3)), first, {}, true});
    pages.tidy(first, where());
    ASSERT_LE(pages.size(), unpublished_pages::chunk_pages);
  }
  gone.insert(key(0));
  const auto sent = take(first);
  ASSERT_FALSE(sent.pages.empty());
  for (const auto& each : sent.pages)
    EXPECT_EQ(each.key, key(2)) << "no page is lost that is in memory";
}

TEST_F(unpublished_pages_test, a_copy_that_one_owner_refuses_is_told_to_all_and_then_dropped) {
  pages.add({key(1), first});
  const auto to_one = take(first);
  auto said = answer(1);
  said.duplicate[0] = true;
  EXPECT_TRUE(pages.settle(first, to_one.pages, said).useless.empty());
  const auto to_all = take(unpublished_pages::all_owners);
  ASSERT_EQ(to_all.pages.size(), 1u);
  const auto after = pages.settle(unpublished_pages::all_owners, to_all.pages, said);
  ASSERT_EQ(after.useless.size(), 1u);
  EXPECT_EQ(after.useless[0].key, key(1));
  EXPECT_TRUE(pages.idle());
}

TEST_F(unpublished_pages_test, what_left_memory_or_moved_on_is_forgotten) {
  pages.add({key(1), first});
  pages.add({key(2), node_id_of("who left")});
  gone.insert(key(1));
  EXPECT_TRUE(take(first).pages.empty());
  EXPECT_TRUE(take(node_id_of("who left")).pages.empty());
  EXPECT_TRUE(pages.idle());
}

/// A page must not stay queued for an owner that no longer owns its key: if that owner gets the key
/// again, the page would be queued twice.
TEST_F(unpublished_pages_test, what_an_owner_out_of_reach_owns_no_more_is_forgotten) {
  pages.add({key(1), first});
  pages.add({key(2), node_id_of("who left")});
  pages.add({key(3)});
  pages.forget_moved(ring, 2);
  EXPECT_EQ(pages.ready(), (std::vector{unpublished_pages::all_owners, first}));
  EXPECT_EQ(pages.size(), 2u);
}

TEST_F(unpublished_pages_test, a_chunk_on_its_way_outlives_a_clearing) {
  pages.add({key(1), first});
  pages.add({key(2), first});
  const auto sent = take(first, 1);
  ASSERT_EQ(sent.pages.size(), 1u);
  pages.clear();
  pages.add({key(3), first});
  EXPECT_TRUE(pages.ready().empty());
  pages.settle(first, sent.pages, answer(1));
  EXPECT_EQ(pages.ready(), std::vector{first});
  EXPECT_EQ(pages.size(), 1u);
}

} // namespace
} // namespace peercache::directory
