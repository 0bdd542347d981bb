#include "tests/actors/cluster_fixture.hpp"

#include <future>
#include <thread>

namespace peercache::actors {
namespace {

using pool_own_shard_test = cluster_fixture;

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
  EXPECT_EQ(own_shard->lock()->records().locations(), 2u);
  pending.receive([](const std::string&, const std::string&) {},
                  [](const caf::error&) { FAIL() << "commit was refused"; });
}

/// A message that the directory has yet to answer keeps later changes behind it.
TEST_F(pool_own_shard_test, overtakes_no_message_to_its_own_directory) {
  tell_everyone(topology_of({{here, shard_here}}, 1));
  put(key_named("a"));
  std::promise<void> locked;
  std::promise<void> done;
  std::thread holder([&] {
    const auto taken = own_shard->lock();
    locked.set_value();
    done.get_future().wait();
  });
  locked.get_future().wait();
  const auto first = fill_slot(key_named("b"), reserve());
  const auto second = fill_slot(key_named("c"), reserve());
  caf::anon_send(pool, commit_atom_v, first, static_cast<std::uint8_t>(commit_mode::skip),
                 std::string{}, from_here{});
  scheduler().run_once();
  done.set_value();
  holder.join();
  caf::anon_send(pool, commit_atom_v, second, static_cast<std::uint8_t>(commit_mode::skip),
                 std::string{}, from_here{});
  scheduler().prioritize(pool);
  scheduler().run_once();
  EXPECT_EQ(own_shard->lock()->records().locations(), 1u) << "both wait for the directory";
  settle();
  EXPECT_EQ(own_shard->lock()->records().locations(), 3u);
}

} // namespace
} // namespace peercache::actors
