// Tests of what a program that speaks CAF's protocol can send to actors whose handles it has got.
// Messages that only the node's own process may send have an element of type `from_here`, which
// cannot be decoded from bytes.

#include "actors/directory/directory_door.hpp"
#include "tests/actors/cluster_fixture.hpp"

#include <caf/binary_deserializer.hpp>
#include <caf/binary_serializer.hpp>

namespace peercache::actors {
namespace {

class stranger_messages : public cluster_fixture {
protected:
  void SetUp() override {
    tell_everyone(both());
    ASSERT_EQ(put(key_named("a")), page_status::stored);
  }

  /// Sends an actor a message that its typed handle would not allow. Another process can send such
  /// a message, because it sends bytes.
  template <class Handle, class... Args>
  void say(const Handle& whom, Args... args) {
    caf::anon_send(caf::actor_cast<caf::actor>(whom), std::move(args)...);
    settle();
  }

  std::size_t places_of_a() {
    return locations(shard_here, key_named("a")).size() +
           locations(shard_there, key_named("a")).size();
  }
};

TEST_F(stranger_messages, do_not_make_a_shard_forget_its_records) {
  const auto newer = topology_of({{there, shard_there}}, 9);
  const auto without = discovery::encode_view(newer->view);
  const auto before = places_of_a();
  ASSERT_GT(before, 0u);
  for (const auto& shard : {shard_here, shard_there}) {
    say(shard, leave_atom_v, without);
    say(shard, give_atom_v, true, std::uint32_t{1000});
    say(shard, beat_atom_v);
  }
  EXPECT_EQ(places_of_a(), before);
  expel(shard_here, newer);
  expel(shard_there, newer);
  EXPECT_EQ(places_of_a(), 0u) << "the node itself can say so";
}

/// Other nodes have the handle of a directory's door.
TEST_F(stranger_messages, have_no_effect_at_a_door) {
  const auto newer = topology_of({{there, shard_there}}, 9);
  auto door = system.spawn(run_directory_door, directory_door_options{own_shard, shard_here});
  const auto before = places_of_a();
  say(door, leave_atom_v, discovery::encode_view(newer->view));
  say(door, give_atom_v, true, std::uint32_t{1000});
  say(door, lost_atom_v, std::string(8, 'x'));
  say(door, clear_atom_v);
  say(door, beat_atom_v);
  EXPECT_EQ(places_of_a(), before);
  EXPECT_FALSE(own_shard->lock()->gives());
  EXPECT_EQ(locations(door, key_named("a")).size(), 1u) << "the door goes on";
  stop(door);
}

TEST_F(stranger_messages, take_nothing_out_of_a_pool_and_put_nothing_into_it) {
  const auto slot = reserve();
  const auto pages = [this] { return count_of(pool, metric::pool_pages); };
  const auto before = pages();
  std::string a;
  append_record(a, key_named("a"));
  say(pool, remove_atom_v, a);
  say(pool, withdraw_atom_v);
  say(pool, clear_atom_v);
  say(pool, commit_atom_v, fill_slot(key_named("b"), slot), std::uint8_t{0}, std::string{});
  say(pool, restore_atom_v, fill_slot(key_named("b"), slot));
  EXPECT_EQ(pages(), before);
  EXPECT_GT(places_of_a(), 0u);
  say(pool, remove_atom_v, a, from_here{});
  EXPECT_EQ(pages(), before - 1) << "the gateway can say so";
}

/// If bytes could be decoded to the element `from_here`, a stranger could send a node's internal
/// messages.
TEST_F(stranger_messages, cannot_have_the_element_of_internal_ones) {
  const auto there_and_back = [this](const caf::message& said) {
    std::vector<char> bytes;
    caf::binary_serializer sink{system, bytes};
    if (sink(said))
      return false;
    caf::message heard;
    caf::binary_deserializer source{system, bytes};
    return !source(heard) && heard.size() == said.size();
  };
  EXPECT_TRUE(there_and_back(caf::make_message(beat_atom_v)));
  EXPECT_FALSE(there_and_back(caf::make_message(beat_atom_v, from_here{})));
  EXPECT_EQ(system.types().make_value("peercache::link::from_here"), nullptr);
}

} // namespace
} // namespace peercache::actors
