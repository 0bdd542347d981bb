#include "client/pool/viewed_page.hpp"
#include "common/test_guards.hpp"
#include "tests/client/actors/call_rig.hpp"

namespace peercache::client {
namespace {

using namespace std::chrono_literals;

class page_view_test : public testing::Test {
protected:
  result<std::unique_ptr<viewed_page>> find(const page_key& wanted, bool verify = true) {
    return viewed_page::find(pool, wanted, hold, storage::holder_tag{7}, verify);
  }
  static page_key key(int i) { return key_space{}.key_of(std::to_string(i)); }
  bool is_held(slot_id slot) const {
    return pool->holds.is_held(slot, std::chrono::steady_clock::now());
  }

  played_node node{"near"};
  own_pool_ptr pool = std::make_shared<own_pool>(
      std::move(*storage::pool_memory::attach(node.memory.name(), node.memory.owner())));
  std::chrono::milliseconds hold{10s};
  std::vector<std::byte> bytes = std::vector<std::byte>(8192, std::byte{3});
  directory::page_location page = node.hold(key(1), bytes);
};

TEST_F(page_view_test, shows_the_bytes_where_they_lie) {
  const auto found = find(key(1));
  ASSERT_TRUE(found);
  const auto seen = pool->slots.bytes((*found)->at.slot, (*found)->at.length_bytes);
  EXPECT_EQ(seen.data(), pool->slots.bytes(page.slot, 8192).data());
  EXPECT_EQ(seen.size(), 8192u);
  EXPECT_TRUE((*found)->intact());
}

TEST_F(page_view_test, what_the_pool_gave_up_is_intact_no_more) {
  const auto found = find(key(1));
  ASSERT_TRUE(found);
  node.evict(page);
  EXPECT_FALSE((*found)->intact());
  EXPECT_EQ(find(key(1)).error().code, errc::not_found);
}

TEST_F(page_view_test, a_page_of_before_a_clear_is_intact_no_more) {
  const key_space llama{std::array<std::string_view, 1>{"llama"}};
  node.hold(llama.key_of("page"), bytes);
  const auto found = find(llama.key_of("page"));
  ASSERT_TRUE(found);
  node.memory.epochs().raise(space_named("llama"), 1);
  EXPECT_FALSE((*found)->intact());
}

TEST_F(page_view_test, keeps_the_page_from_eviction_until_it_ends) {
  node.memory.holds().limit(16);
  node.memory.holds().open(page.slot);
  {
    auto found = find(key(1));
    ASSERT_TRUE(found);
    EXPECT_TRUE((*found)->held);
    EXPECT_TRUE(is_held(page.slot));
    (*found)->release();
  }
  EXPECT_FALSE(is_held(page.slot));
  hold = 0ms;
  const auto loose = find(key(1));
  ASSERT_TRUE(loose);
  EXPECT_FALSE((*loose)->held);
  EXPECT_FALSE(is_held(page.slot));
}

TEST_F(page_view_test, bytes_of_another_checksum_are_refused_and_not_held) {
  node.memory.holds().limit(16);
  node.memory.holds().open(page.slot);
  node.memory.slots().bytes(page.slot, 8192)[4096] ^= std::byte{1};
  EXPECT_EQ(find(key(1)).error().code, errc::io_failed);
  EXPECT_FALSE(is_held(page.slot));
  EXPECT_TRUE(find(key(1), false)) << "nobody compared them";
  const guard_switched_off unchecked{guard::checksum};
  EXPECT_TRUE(find(key(1)));
}

} // namespace
} // namespace peercache::client
