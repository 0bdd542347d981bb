#include "actors/gateway_actor.hpp"
#include "tests/actors/cluster_fixture.hpp"

namespace peercache::actors::gateway_strangers_test {
namespace {

/// A gateway, and an actor of a stranger that sends it messages by CAF's protocol.
class gateway_strangers : public cluster_fixture {
protected:
  gateway_actor gateway = spawn_gateway();

  ~gateway_strangers() override { stop(gateway); }

  gateway_actor spawn_gateway() {
    gateway_options options;
    options.cluster = "test";
    options.self = here;
    options.directory = shard_here;
    options.pool = pool;
    options.ready = [](bool, const std::string&) {};
    options.disk_scanned = [] { return 1.0; };
    options.caught_up = [] { return true; };
    options.pool_fault = [] { return std::string(); };
    options.session_is_dead = [](std::uint32_t) { return false; };
    options.session_is_held = [](std::uint32_t) { return true; };
    return system.spawn(run_gateway, std::move(options));
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
