#include "tests/client/handoff/worker_rig.hpp"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <csignal>
#include <new>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

namespace peercache::client::test {
namespace {

using clock = std::chrono::steady_clock;
using handoff::room_state;
using std::chrono::milliseconds;

/// Longest times until a worker knows that its peer has died, and that its peer is silent. `margin`
/// is added to them because other programs use the machine, too.
constexpr auto death_is_seen_within = milliseconds(100);
constexpr auto silence_is_seen_within = milliseconds(2000);
constexpr auto margin = milliseconds(900);

constexpr handoff::room_id room{7};
/// A second room. Decode joins it after `room` over the same connection, so a prefill that has got
/// its join has got both joins.
constexpr handoff::room_id room_behind{8};
constexpr std::uint32_t page = 4;

enum class side { prefill, decode };
enum class fault { kill, freeze };

/// Shared memory by which the test's process and the victim's process tell each other their state.
struct shared_state {
  std::atomic<std::uint16_t> prefill_port{0};
  std::atomic<room_state> victims{room_state::bootstrapping}; ///< The state of the victim's room.
  std::atomic<bool> silent{false}; ///< Set by the test: the victim shall send no pages.
};

shared_state& map_shared() {
  auto* memory = ::mmap(nullptr, sizeof(shared_state), PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  EXPECT_NE(memory, MAP_FAILED);
  return *new (memory) shared_state;
}

/// A prefill worker that opens the rooms, and sends pages when it is told to.
class prefill_side {
public:
  explicit prefill_side(std::uint32_t required = 1)
      : worker_(std::move(*prefill_worker::start(tcp_options(), memory_.layout()))),
        room_(*worker_->open(room, required)), behind_(*worker_->open(room_behind, 1)) {
    memory_.fill(page, 0x42);
  }
  std::uint16_t port() const { return worker_->port(); }
  room_state poll() const { return room_.state.poll(); }
  /// Gives both rooms up, whatever became of them, and opens them again for one decode each.
  void open_again() {
    for (const auto* each : {&room_, &behind_})
      worker_->clear(each->id);
    room_ = *worker_->open(room, 1);
    behind_ = *worker_->open(room_behind, 1);
    sent_ = false;
  }
  bool send(bool last) {
    if (!worker_->prefix_pages(room_.id))
      return false;
    const std::uint32_t one[] = {page};
    if (!sent_ && !worker_->init(room_.id, 2))
      return false;
    sent_ = true;
    return static_cast<bool>(worker_->send(room_.id, one, last));
  }
  bool sent() const { return sent_; }
  bool has_all_joined() const { return worker_->prefix_pages(behind_.id).has_value(); }

private:
  worker_memory memory_;
  std::unique_ptr<prefill_worker> worker_;
  prefill_room room_, behind_;
  bool sent_ = false;
};

/// A decode worker that joins the rooms, and allocates pages for them.
class decode_side {
public:
  decode_side() : worker_(std::move(*decode_worker::start(tcp_options(), memory_.layout()))) {}
  void connect(std::uint16_t port) {
    allocated_ = false;
    for (const auto each : {room_behind, room}) {
      worker_->clear(each);
      state_ = *worker_->open(each);
      EXPECT_TRUE(worker_->connect(each, {{"127.0.0.1", port}}));
    }
  }
  /// Returns the state of `room`; allocates pages as soon as the room waits for them.
  room_state poll() {
    const auto now = state_.poll();
    if (now == room_state::waiting_for_input && !std::exchange(allocated_, true))
      for (const auto each : {room, room_behind}) {
        handoff::allocated_pages pages;
        if (each == room)
          pages.pages = {page, page + 1};
        // An error is ignored, because `poll` reports a failed room.
        (void)worker_->allocate(each, std::move(pages));
      }
    return now;
  }
  bool has_pages() const { return memory_.has(page, 0x42) && memory_.has(page + 1, 0x42); }

private:
  worker_memory memory_;
  std::unique_ptr<decode_worker> worker_;
  room_watch state_; ///< The state of `room`.
  bool allocated_ = false;
};

[[noreturn]] void play_prefill(shared_state& shared) {
  prefill_side prefill;
  shared.prefill_port = prefill.port();
  while (true) {
    if (!shared.silent && !prefill.sent())
      prefill.send(false);
    shared.victims = prefill.poll();
    std::this_thread::sleep_for(milliseconds(1));
  }
}

[[noreturn]] void play_decode(shared_state& shared) {
  decode_side decode;
  while (shared.prefill_port == 0)
    std::this_thread::sleep_for(milliseconds(1));
  decode.connect(shared.prefill_port);
  while (true) {
    shared.victims = decode.poll();
    std::this_thread::sleep_for(milliseconds(1));
  }
}

/// A worker in a child process, which the test kills or freezes.
class victim {
public:
  victim(side which, shared_state& shared) {
    pid_ = ::fork();
    if (pid_ != 0)
      return;
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    which == side::prefill ? play_prefill(shared) : play_decode(shared);
  }
  ~victim() {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  void suffer(fault what) const { ::kill(pid_, what == fault::kill ? SIGKILL : SIGSTOP); }
  void wake() const { ::kill(pid_, SIGCONT); }

private:
  pid_t pid_;
};

/// Waits until `holds` returns true. Returns how long that took.
milliseconds time_until(const std::function<bool()>& holds) {
  const auto begin = clock::now();
  EXPECT_TRUE(eventually(holds));
  return std::chrono::duration_cast<milliseconds>(clock::now() - begin);
}

void expect_in_time(fault what, milliseconds took) {
  const auto limit = what == fault::kill ? death_is_seen_within : silence_is_seen_within;
  EXPECT_LE(took.count(), (limit + margin).count());
  std::printf("[ measured ] %s: seen after %lld ms\n", what == fault::kill ? "kill -9" : "SIGSTOP",
              static_cast<long long>(took.count()));
}

/// Expects that a whole hand-over between the survivor and a new worker works.
void expect_works(prefill_side& prefill, decode_side& decode) {
  decode.connect(prefill.port());
  bool first = false, last = false;
  ASSERT_TRUE(eventually([&] {
    if (first && !last)
      last = prefill.send(true);
    first = first || prefill.send(false);
    return decode.poll() == room_state::success;
  }));
  EXPECT_TRUE(decode.has_pages());
}

class loss : public testing::TestWithParam<std::tuple<fault, room_state>> {
protected:
  fault what() const { return std::get<0>(GetParam()); }
  room_state state() const { return std::get<1>(GetParam()); }
};

TEST_P(loss, of_prefill_fails_the_room_at_decode_and_one_that_wakes_has_failed) {
  auto& shared = map_shared();
  shared.silent = state() == room_state::waiting_for_input;
  const victim prefill(side::prefill, shared);
  ASSERT_TRUE(eventually([&] { return shared.prefill_port != 0; }));
  decode_side decode;
  if (state() == room_state::bootstrapping)
    prefill.suffer(what()); // Before decode connects: nobody answers or listens.
  decode.connect(shared.prefill_port);
  if (state() != room_state::bootstrapping) {
    ASSERT_TRUE(eventually([&] { return decode.poll() == state(); }));
    prefill.suffer(what());
  }
  expect_in_time(what(), time_until([&] { return decode.poll() == room_state::failed; }));
  prefill_side next;
  expect_works(next, decode);
  // A prefill that was frozen before decode came knows of no decode that it could have lost.
  if (what() == fault::freeze && state() != room_state::bootstrapping) {
    prefill.wake();
    EXPECT_TRUE(eventually([&] { return shared.victims == room_state::failed; }));
  }
}

TEST_P(loss, of_decode_fails_the_room_at_prefill_and_one_that_wakes_has_failed) {
  auto& shared = map_shared();
  const victim decode(side::decode, shared);
  // In the state `bootstrapping` prefill's room waits for a second decode that never comes; else it
  // waits for pages.
  prefill_side prefill(state() == room_state::bootstrapping ? 2 : 1);
  shared.prefill_port = prefill.port();
  ASSERT_TRUE(eventually([&] { return shared.victims == room_state::waiting_for_input; }));
  ASSERT_TRUE(eventually([&] { return prefill.has_all_joined(); }));
  if (state() == room_state::transferring) {
    ASSERT_TRUE(prefill.send(false));
    ASSERT_TRUE(eventually([&] { return shared.victims == room_state::transferring; }));
  }
  decode.suffer(what());
  expect_in_time(what(), time_until([&] { return prefill.poll() == room_state::failed; }));
  decode_side next;
  prefill.open_again();
  expect_works(prefill, next);
  if (what() == fault::freeze) {
    decode.wake();
    EXPECT_TRUE(eventually([&] { return shared.victims == room_state::failed; }));
  }
}

std::string name_of(const testing::TestParamInfo<loss::ParamType>& info) {
  const auto& [what, state] = info.param;
  const char* states[] = {"", "bootstrapping", "waiting_for_input", "transferring"};
  return std::string(what == fault::kill ? "kill_in_" : "freeze_in_") +
         states[static_cast<std::size_t>(state)];
}

INSTANTIATE_TEST_SUITE_P(handoff, loss,
                         testing::Combine(testing::Values(fault::kill, fault::freeze),
                                          testing::Values(room_state::bootstrapping,
                                                          room_state::waiting_for_input,
                                                          room_state::transferring)),
                         name_of);

} // namespace
} // namespace peercache::client::test
