#include "tests/real/handoff/loss_rig.hpp"

#include <algorithm>
#include <csignal>
#include <gtest/gtest.h>
#include <new>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <utility>

namespace peercache::client::test {

using handoff::room_state;
using std::chrono::milliseconds;

namespace {

constexpr handoff::room_id room{7};
/// The room whose join follows that of `room`.
constexpr handoff::room_id room_behind{8};
constexpr std::uint32_t page = 4;

void pause() {
  std::this_thread::sleep_for(milliseconds(1));
}

[[noreturn]] void play_prefill(shared_state& shared, const worker_options& options) {
  prefill_side prefill(options);
  shared.prefill_port = prefill.port();
  for (std::uint32_t round = 0;; pause()) {
    if (const std::uint32_t wanted = shared.round; wanted != round) {
      prefill.open_again();
      shared.begun = round = wanted;
    }
    prefill.send(shared.chunks);
    shared.victims = prefill.poll();
  }
}

[[noreturn]] void play_decode(shared_state& shared, const worker_options& options) {
  decode_side decode(options);
  while (shared.prefill_port == 0)
    pause();
  decode.connect({options.host, shared.prefill_port});
  for (std::uint32_t round = 0;; pause()) {
    if (const std::uint32_t wanted = shared.round; wanted != round) {
      shared.right = false;
      decode.connect({options.host, shared.prefill_port});
      shared.begun = round = wanted;
    }
    const auto now = decode.poll();
    shared.right = now == room_state::success && decode.has_pages();
    shared.victims = now;
  }
}

} // namespace

shared_state& map_shared() {
  auto* memory = ::mmap(nullptr, sizeof(shared_state), PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  EXPECT_NE(memory, MAP_FAILED);
  return *new (memory) shared_state;
}

prefill_side::prefill_side(const worker_options& options, std::uint32_t required)
    : worker_(std::move(*prefill_worker::start(options, memory_.layout()))),
      room_(*worker_->open(room, required)), behind_(*worker_->open(room_behind, 1)) {
  memory_.fill(page, 0x42);
}

void prefill_side::open_again() {
  for (const auto* each : {&room_, &behind_})
    worker_->clear(each->id);
  room_ = *worker_->open(room, 1);
  behind_ = *worker_->open(room_behind, 1);
  sent_ = 0;
}

bool prefill_side::send(std::uint32_t chunks) {
  if (!worker_->prefix_pages(room_.id))
    return false;
  const std::uint32_t one[] = {page};
  while (sent_ < std::min(chunks, 2u)) {
    if (sent_ == 0 && !worker_->init(room_.id, 2))
      return false;
    if (!worker_->send(room_.id, one, ++sent_ == 2))
      return false;
  }
  return true;
}

decode_side::decode_side(const worker_options& options)
    : worker_(std::move(*decode_worker::start(options, memory_.layout()))) {}

void decode_side::connect(const handoff::worker_address& prefill) {
  allocated_ = false;
  for (auto each : {page, page + 1})
    memory_.fill(each, 0);
  for (const auto each : {room_behind, room}) {
    worker_->clear(each);
    state_ = *worker_->open(each);
    EXPECT_TRUE(worker_->connect(each, {prefill}));
  }
}

room_state decode_side::poll() {
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

bool decode_side::has_pages() const {
  return memory_.has(page, 0x42) && memory_.has(page + 1, 0x42);
}

victim::victim(side which, shared_state& shared, const worker_options& options,
               const std::function<void()>& enter) {
  pid_ = ::fork();
  if (pid_ != 0)
    return;
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  enter();
  which == side::prefill ? play_prefill(shared, options) : play_decode(shared, options);
}

victim::~victim() {
  kill();
}

void victim::kill() {
  if (pid_ == 0)
    return;
  ::kill(pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
  pid_ = 0;
}

void victim::freeze() const {
  ::kill(pid_, SIGSTOP);
}

void victim::wake() const {
  ::kill(pid_, SIGCONT);
}

milliseconds time_until(const std::function<bool()>& holds) {
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_TRUE(eventually(holds));
  return std::chrono::duration_cast<milliseconds>(std::chrono::steady_clock::now() - begin);
}

void expect_works(prefill_side& prefill, decode_side& decode) {
  decode.connect({"127.0.0.1", prefill.port()});
  ASSERT_TRUE(eventually([&] {
    prefill.send(2);
    return decode.poll() == room_state::success;
  }));
  EXPECT_TRUE(decode.has_pages());
}

} // namespace peercache::client::test
