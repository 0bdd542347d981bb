#include "client/pool/call_start.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

namespace peercache::client {
namespace {

class dated_pages_test : public testing::Test {
protected:
  struct page {
    page_key key;
    int bytes = 0;
  };

  static page_key key_in_space(std::string_view space, int number) {
    return key_space{std::span{&space, 1}}.key_of(std::to_string(number));
  }

  std::unique_ptr<storage::epoch_block> block = std::make_unique<storage::epoch_block>();
  storage::epoch_table epochs{*block};
  std::vector<page_key> keys{key_in_space("a", 1), key_in_space("b", 2), key_in_space("a", 3)};
};

TEST_F(dated_pages_test, no_key_is_copied_while_nothing_was_ever_cleared) {
  const dated_pages<page_key> now{epochs, keys};
  EXPECT_EQ(now.pages().data(), keys.data());
  EXPECT_TRUE(now.known());
  const dated_pages<page_key> without{storage::epoch_table{}, keys};
  EXPECT_EQ(without.pages().data(), keys.data());
}

TEST_F(dated_pages_test, no_key_is_copied_when_other_spaces_were_cleared) {
  epochs.raise(space_named("c"), 1);
  const dated_pages<page_key> now{epochs, keys};
  EXPECT_EQ(now.pages().data(), keys.data());
}

TEST_F(dated_pages_test, keys_of_a_space_that_was_cleared_have_its_epoch) {
  epochs.raise(space_named("a"), 7);
  const dated_pages<page_key> now{epochs, keys};
  ASSERT_EQ(now.pages().size(), 3u);
  EXPECT_EQ(epoch_of(now.pages()[0]), 7u);
  EXPECT_EQ(now.pages()[1], keys[1]);
  EXPECT_EQ(epoch_of(now.pages()[2]), 7u);
  EXPECT_EQ(space_of(now.pages()[0]), space_named("a"));
  EXPECT_EQ(epoch_of(keys[0]), 0u) << "the caller's stay as they are";
}

TEST_F(dated_pages_test, a_page_keeps_what_it_has_beside_its_key) {
  epochs.raise(space_named("a"), 7);
  const std::vector<page> pages{{keys[0], 10}, {keys[1], 20}};
  const dated_pages<page> now{epochs, pages};
  EXPECT_EQ(epoch_of(now.pages()[0].key), 7u);
  EXPECT_EQ(now.pages()[0].bytes, 10);
  EXPECT_EQ(now.pages()[1].bytes, 20);
}

TEST_F(dated_pages_test, nothing_is_known_while_a_change_does_not_end) {
  epochs.raise(space_named("a"), 7);
  block->changes.fetch_add(1);
  const dated_pages<page_key> now{epochs, keys};
  EXPECT_FALSE(now.known());
}

} // namespace
} // namespace peercache::client
