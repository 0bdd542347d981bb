#include "tests/actors/cluster_fixture.hpp"

#include <future>
#include <new>
#include <thread>

namespace peercache::actors {
namespace {

class pool_own_shard_test : public cluster_fixture {
protected:
  /// Commits a page while another thread has the shard's lock, so the pool tells the directory.
  void commit_while_locked(const page_key& key) {
    const auto filled = fill_slot(key, reserve());
    std::promise<void> locked;
    std::promise<void> done;
    std::thread holder([&] {
      const auto taken = own_shard->lock();
      locked.set_value();
      done.get_future().wait();
    });
    locked.get_future().wait();
    send_commit(filled);
    scheduler().run_once();
    done.set_value();
    holder.join();
  }
  void send_commit(const std::string& filled) {
    caf::anon_send(pool, commit_atom_v, filled, static_cast<std::uint8_t>(commit_mode::skip),
                   std::string{}, from_here{});
  }
  std::size_t records() { return own_shard->lock()->records().locations(); }
};

/// The page of a put is known in the node's own shard in the same handler, whatever others wait
/// for.
TEST_F(pool_own_shard_test, tells_its_own_shard_itself) {
  tell_everyone(topology_of({{here, shard_here}}, 1));
  put(key_named("a")); // Makes memory for records.
  const auto slot = reserve();
  auto pending =
      self->request(pool, caf::infinite, commit_atom_v, fill_slot(key_named("b"), slot),
                    static_cast<std::uint8_t>(commit_mode::skip), std::string{}, from_here{});
  scheduler().run_once();
  EXPECT_EQ(records(), 2u);
  pending.receive([](const std::string&, const std::string&) {},
                  [](const caf::error&) { FAIL() << "commit was refused"; });
}

/// A message that the directory has yet to answer keeps later changes behind it.
TEST_F(pool_own_shard_test, overtakes_no_message_to_its_own_directory) {
  tell_everyone(topology_of({{here, shard_here}}, 1));
  put(key_named("a"));
  const auto second = fill_slot(key_named("c"), reserve());
  commit_while_locked(key_named("b"));
  send_commit(second);
  scheduler().prioritize(pool);
  scheduler().run_once();
  EXPECT_EQ(records(), 1u) << "both wait for the directory";
  settle();
  EXPECT_EQ(records(), 3u);
}

/// The outcome of a change may depend on a view or a connection of which the directory has yet to
/// hear.
TEST_F(pool_own_shard_test, overtakes_no_topology_that_waits_at_its_own_directory) {
  tell_everyone(topology_of({{here, shard_here}}, 1));
  put(key_named("a"));
  const auto filled = fill_slot(key_named("b"), reserve());
  send_topology(shard_here, topology_of({{here, shard_here}}, 1));
  send_commit(filled);
  scheduler().prioritize(pool);
  scheduler().run_once();
  EXPECT_EQ(records(), 1u) << "the page waits behind the topology";
  settle();
  EXPECT_EQ(records(), 2u);
}

/// A directory that stands still answers some day, and then makes the changes that it was sent.
TEST_F(pool_own_shard_test, overtakes_no_message_that_its_directory_has_left_for_seconds) {
  const auto freeze = [](caf::event_based_actor* frozen, const std::string&) -> caf::behavior {
    frozen->set_default_handler(caf::skip);
    return {[](caf::ok_atom) {}};
  };
  // `freeze` takes an argument: without one CAF binds a reference to null, which UBSan reports.
  auto frozen = system.spawn(freeze, std::string{});
  tell_everyone(topology_of({{here, shard_here}}, 1));
  put(key_named("a"));
  caf::anon_send(pool, topology_atom_v,
                 topology_of({{here, caf::actor_cast<directory_actor>(frozen)}}, 1));
  settle();
  commit_while_locked(key_named("b"));
  pass(std::chrono::seconds(2));
  send_commit(fill_slot(key_named("c"), reserve()));
  std::string keys;
  append_record(keys, key_named("a"));
  caf::anon_send(pool, remove_atom_v, keys, from_here{});
  settle();
  EXPECT_EQ(locations(shard_here, key_named("a")).size(), 1u) << "the directory withdraws the page";
  EXPECT_EQ(records(), 1u);
  caf::anon_send_exit(frozen, caf::exit_reason::kill);
  settle();
  send_commit(fill_slot(key_named("d"), reserve()));
  settle();
  EXPECT_EQ(locations(shard_here, key_named("d")).size(), 1u) << "no message is left";
}

/// A directory that ends while it handles a change never answers it.
TEST_F(pool_own_shard_test, waits_for_no_directory_that_a_change_has_ended) {
  const auto fail = [](caf::event_based_actor*, const std::string&) -> caf::behavior {
    return {[](publish_atom, const std::string&, std::uint64_t, std::uint64_t) -> std::string {
      throw std::bad_alloc();
    }};
  };
  auto failing = system.spawn(fail, std::string{});
  tell_everyone(topology_of({{here, shard_here}}, 1));
  put(key_named("a"));
  caf::anon_send(pool, topology_atom_v,
                 topology_of({{here, caf::actor_cast<directory_actor>(failing)}}, 1));
  settle();
  commit_while_locked(key_named("b"));
  pass(std::chrono::seconds(2));
  send_commit(fill_slot(key_named("c"), reserve()));
  settle();
  EXPECT_EQ(locations(shard_here, key_named("c")).size(), 1u) << "no message is left";
}

} // namespace
} // namespace peercache::actors
