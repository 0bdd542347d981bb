#include "link/beats.hpp"

#include "actors/link_names.hpp"
#include "tests/support/actor_fixture.hpp"

namespace peercache::actors {
namespace {

using namespace std::chrono_literals;

using beating_actor =
    caf::typed_actor<caf::reacts_to<beat_atom, from_here>, caf::reacts_to<turn_atom, from_here>>;

struct beating_state {
  link::beats beats;
  int* counted = nullptr;
};

/// An actor that plans its next beat 500 ms ahead, and at a `turn_atom` one 50 ms ahead. Counts its
/// beats in `counted`.
beating_actor::behavior_type beating(beating_actor::stateful_pointer<beating_state> self,
                                     int* counted) {
  self->state.counted = counted;
  self->state.beats.plan(self, 500ms);
  return {
      [self](beat_atom, from_here) {
        if (!self->state.beats.due(self->clock().now()))
          return;
        ++*self->state.counted;
        self->state.beats.plan(self, 500ms);
      },
      [self](turn_atom, from_here) { self->state.beats.plan(self, 50ms); },
  };
}

class beats_test : public test::actor_fixture {
protected:
  int count = 0;
  beating_actor actor = system.spawn(beating, &count);

  void TearDown() override { stop(actor); }
};

TEST_F(beats_test, an_actor_beats_once_a_period) {
  settle();
  for (int i = 1; i <= 5; ++i) {
    pass(500ms);
    EXPECT_EQ(count, i);
  }
}

TEST_F(beats_test, a_beat_is_brought_forward_and_the_one_before_does_nothing) {
  settle();
  pass(100ms);
  for (int i = 0; i < 3; ++i)
    caf::anon_send(actor, turn_atom_v, from_here{});
  settle();
  pass(50ms);
  EXPECT_EQ(count, 1);
  // The beat after the early one comes at the time that was planned first.
  pass(350ms);
  EXPECT_EQ(count, 2);
  pass(499ms);
  EXPECT_EQ(count, 2);
  pass(1ms);
  EXPECT_EQ(count, 3);
}

} // namespace
} // namespace peercache::actors
