#include "tests/actors/gateway/gateway_fixture.hpp"

namespace peercache::actors::gateway_strangers_test {
namespace {

/// A gateway, and an actor of a stranger that sends it messages by CAF's protocol.
class gateway_strangers : public gateway_fixture {
protected:
  gateway_strangers() {
    auto options = usual_options();
    options.pool_fault = [] { return std::string(); };
    options.session_is_held = [](std::uint32_t) { return true; };
    spawn_gateway(std::move(options));
  }
};

TEST_F(gateway_strangers, remove_no_page) {
  tell_everyone(both());
  ASSERT_EQ(put(key_named("a")), page_status::stored);
  std::string keys;
  append_record(keys, key_named("a"));
  caf::anon_send(caf::actor_cast<caf::actor>(gateway), remove_atom_v, keys);
  settle();
  EXPECT_EQ(count_of(pool, metric::pool_pages), 1u);
  EXPECT_TRUE(ask<std::string>(gateway, remove_atom_v, keys, from_here{}));
  EXPECT_EQ(count_of(pool, metric::pool_pages), 0u) << "the look-up relay can say so";
}

} // namespace
} // namespace peercache::actors::gateway_strangers_test
