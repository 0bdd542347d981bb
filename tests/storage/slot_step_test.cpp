// Tests a reader's final check of a slot (`still_readable`) instruction by instruction. The reader
// is single-stepped; in each run the owner acts after one more instruction than in the run before.
// This tests the order of the loads in the compiled code, but not how a weakly ordered CPU would
// reorder them.

#include "heap_pool.hpp"
#include "tests/support/under_tsan.hpp"

#include <gtest/gtest.h>

#if defined(__x86_64__)

#include <csignal>
#include <cstdint>
#include <ucontext.h>
#include <vector>

namespace peercache::storage::slot_step_test {
namespace {

constexpr slot_id slot{3};
constexpr std::uint32_t length = 2 * limits::granule_bytes;

/// A slot that is filled but not yet published, which a reader of the host has found.
struct scene {
  heap_pool memory{16};
  slot_table slots = memory.slots();
  generation filling = slots.begin_fill(slot);

  scene() { slots.fill(slot, key_of(1), length, 1); }

  void publish() { slots.publish(slot, key_of(1), length, 1); }
  void remove() {
    publish();
    slots.give_up(slot, bytes_after::zeroed);
    slots.zero(slot, 0, length);
    slots.note_zeroed(slot);
  }
  void drop() { slots.drop(slot); }
  void fill_with_another_page() {
    slots.begin_fill(slot);
    slots.fill(slot, key_of(2), length, 2);
    slots.publish(slot, key_of(2), length, 2);
  }
};
using act = void (scene::*)();

/// The state of the trap handler, for the only thread that is single-stepped.
struct stepping {
  scene* at = nullptr;
  act turn = nullptr; ///< What the owner does after `turn_after` steps.
  /// The number of the reader's steps after which the owner acts; 0: never.
  std::uint64_t turn_after = 0;
  std::uint64_t steps = 0;
};
stepping now;

/// The bit of the x86 flags register that makes the CPU trap after each instruction.
constexpr std::uint64_t trap_flag = 1u << 8;

void on_step(int, siginfo_t*, void* context) {
  if (++now.steps != now.turn_after)
    return;
  (now.at->*now.turn)();
  auto& flags = static_cast<ucontext_t*>(context)->uc_mcontext.gregs[REG_EFL];
  // Ends single-stepping, because the owner has acted.
  flags &= ~static_cast<greg_t>(trap_flag);
}

/// Runs `still_readable` in single steps. Returns its result: whether the reader may use its copy.
bool last_look(scene& at, act turn, std::uint64_t turn_after) {
  now = {&at, turn, turn_after, 0};
  __builtin_ia32_writeeflags_u64(__builtin_ia32_readeflags_u64() | trap_flag);
  const bool may = at.slots.still_readable(slot, at.filling);
  __builtin_ia32_writeeflags_u64(__builtin_ia32_readeflags_u64() & ~trap_flag);
  return may;
}

/// Runs `last_look` many times, each time on a new slot after `before`, and with `turn` one step
/// later. Returns the result of each run.
std::vector<bool> last_looks(act before, act turn) {
  struct sigaction action {};
  struct sigaction of_others {};
  action.sa_sigaction = on_step;
  action.sa_flags = SA_SIGINFO;
  EXPECT_EQ(::sigaction(SIGTRAP, &action, &of_others), 0);
  std::vector<bool> answers;
  std::uint64_t steps = 1;
  for (std::uint64_t turn_after = 0; turn_after <= steps; ++turn_after) {
    scene fresh;
    if (before != nullptr)
      (fresh.*before)();
    const bool may = last_look(fresh, turn, turn_after);
    if (turn_after != 0)
      answers.push_back(may);
    else
      steps = now.steps;
  }
  EXPECT_EQ(::sigaction(SIGTRAP, &of_others, nullptr), 0);
  EXPECT_GT(answers.size(), 10u) << "it did not go in steps";
  return answers;
}

/// `remove` has overwritten the bytes that the reader copied. Before the next fill begins, only the
/// slot's generation shows this.
TEST(slot_step, bytes_that_were_overwritten_are_good_at_no_step_of_the_next_filling) {
  if (under_tsan)
    GTEST_SKIP() << "the thread sanitizer delays the signals that the steps are made of";
  for (const act before : {&scene::remove, &scene::drop}) {
    const auto answers = last_looks(before, &scene::fill_with_another_page);
    for (std::size_t step = 0; step < answers.size(); ++step)
      EXPECT_FALSE(answers[step]) << "step " << step << " of " << answers.size();
  }
}

TEST(slot_step, a_page_that_is_published_at_any_step_stays_the_same_page) {
  if (under_tsan)
    GTEST_SKIP() << "the thread sanitizer delays the signals that the steps are made of";
  const auto answers = last_looks(nullptr, &scene::publish);
  for (std::size_t step = 0; step < answers.size(); ++step)
    EXPECT_TRUE(answers[step]) << "step " << step << " of " << answers.size();
}

} // namespace
} // namespace peercache::storage::slot_step_test

#endif
