#include "handoff_router.hpp"

#include "common/assert.hpp"
#include "engine_rank.hpp"

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <new>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

namespace peercache::handoff_stress {

namespace {

using std::chrono::milliseconds;

/// Longest times for which one side may keep a room open after the room has failed at the other
/// side, and after a fault of a process. The first is longer than the failure's message takes, the
/// second longer than workers need to notice a dead process.
constexpr auto time_after_failure = milliseconds(200);
constexpr auto time_after_fault = milliseconds(4000);

handoff_board* map_board() {
  auto* memory = ::mmap(nullptr, sizeof(handoff_board), PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  PEERCACHE_ASSERT(memory != MAP_FAILED);
  return new (memory) handoff_board;
}

} // namespace

handoff_router::handoff_router(const handoff_plan& plan)
    : plan_(plan), board_(map_board()), random_(plan.seed), begun_(clock::now()) {
  for (std::uint32_t rank = 0; rank < plan_.ranks(); ++rank)
    start_rank(rank);
}

handoff_router::~handoff_router() {
  for (auto& each : processes_)
    if (each.pid > 0) {
      ::kill(each.pid, SIGKILL);
      ::waitpid(each.pid, nullptr, 0);
    }
  ::munmap(board_, sizeof *board_);
}

void handoff_router::start_rank(std::uint32_t rank) {
  board_->ranks[rank].port = 0;
  const auto parent = ::getpid();
  const auto child = ::fork();
  PEERCACHE_ASSERT(child >= 0);
  if (child != 0) {
    processes_[rank] = {child, {}};
    return;
  }
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() == parent)
    run_rank(plan_, *board_, rank, next_serial_ - 1);
  std::_Exit(0);
}

void handoff_router::run() {
  next_fault_ = clock::now() + milliseconds(500);
  while (broken_.empty()) {
    const auto now = clock::now();
    const bool moved = step_rooms(now);
    step_faults(now);
    check_processes();
    if (at_begin_.empty() && ended_ >= std::min<std::uint64_t>(2000, plan_.rooms / 5))
      at_begin_ = footprints();
    if (is_over(now) && std::all_of(posted_.begin(), posted_.end(),
                                    [](const auto& each) { return each.serial == 0; }))
      break;
    if (!moved)
      std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
  ended_at_ = clock::now();
  finish();
}

bool handoff_router::is_over(clock::time_point now) const {
  return next_serial_ > plan_.rooms || now - begun_ >= plan_.seconds_max ||
         (plan_.stop_at_wrong && found() != 0);
}

bool handoff_router::step_rooms(clock::time_point now) {
  bool moved = false;
  for (std::uint32_t cell = 0; cell < plan_.rooms_at_a_time; ++cell) {
    if (posted_[cell].serial != 0) {
      if (!has_ended(cell)) {
        end_late(cell, now);
        continue;
      }
      account(cell);
      moved = true;
    }
    if (!is_over(now)) {
      post(cell, now);
      moved = true;
    }
  }
  return moved;
}

bool handoff_router::has_ended(std::uint32_t cell) const {
  const auto& ended = board_->rooms[cell].ended;
  return std::all_of(ended.begin(), ended.begin() + plan_.ranks(), [](const auto& each) {
    return each.load(std::memory_order_acquire) != outcome::none;
  });
}

void handoff_router::account(std::uint32_t cell) {
  const auto& ended = board_->rooms[cell].ended;
  const bool success = std::all_of(ended.begin(), ended.begin() + plan_.ranks(),
                                   [](const auto& each) { return each == outcome::success; });
  ++ended_;
  succeeded_ += success ? 1 : 0;
  works_again_ |= success && posted_[cell].serial >= after_fault_;
  posted_[cell] = {};
}

void handoff_router::post(std::uint32_t cell, clock::time_point now) {
  auto& room = board_->rooms[cell];
  for (auto& each : room.ended)
    each = outcome::none;
  for (auto& each : room.engine_failed)
    each = false;
  room.time_is_over = false;
  posted_[cell] = {next_serial_, now, {}};
  room.serial.store(next_serial_++, std::memory_order_release);
}

/// Ends a room that only one side knows to be over. In production SGLang's time-outs do this, but
/// later.
void handoff_router::end_late(std::uint32_t cell, clock::time_point now) {
  auto& room = board_->rooms[cell];
  auto& mine = posted_[cell];
  const auto killed = std::any_of(room.ended.begin(), room.ended.end(),
                                  [](const auto& each) { return each == outcome::killed; });
  const bool failed = room.engine_failed[0] || room.engine_failed[1];
  if (mine.failed_at == clock::time_point{} && (killed || failed))
    mine.failed_at = now;
  if (mine.failed_at != clock::time_point{} &&
      now - mine.failed_at >= (killed ? time_after_fault : time_after_failure))
    room.time_is_over.store(true, std::memory_order_release);
  if (now - mine.at >= plan_.patience)
    broken_ = "room " + std::to_string(mine.serial) + " does not end";
}

// -- methods that make faults happen to the ranks

void handoff_router::step_faults(clock::time_point now) {
  wake(now);
  const auto& faults = plan_.faults;
  const auto every = std::max(faults.kill_every, faults.freeze_every);
  if (every.count() == 0 || is_over(now))
    return;
  if (!works_again_) {
    if (now - fault_at_ >= plan_.patience)
      broken_ = "no new room has succeeded since a fault";
    return;
  }
  if (now < next_fault_)
    return;
  const bool kill =
      faults.kill_every.count() != 0 && (faults.freeze_every.count() == 0 || random_() % 2 == 0);
  kill ? kill_one() : freeze_one(now);
  after_fault_ = next_serial_;
  works_again_ = false;
  fault_at_ = now;
  const auto half = static_cast<std::uint64_t>(every.count() / 2);
  next_fault_ = now + milliseconds(half + random_() % (2 * half + 1));
}

void handoff_router::kill_one() {
  const auto rank = static_cast<std::uint32_t>(random_() % plan_.ranks());
  auto& victim = processes_[rank];
  ::kill(victim.pid, SIGKILL);
  ::waitpid(victim.pid, nullptr, 0);
  ++kills_;
  for (std::uint32_t cell = 0; cell < plan_.rooms_at_a_time; ++cell) {
    auto open = outcome::none;
    board_->rooms[cell].ended[rank].compare_exchange_strong(open, outcome::killed);
  }
  start_rank(rank);
}

/// Freezes a random rank; every second time for so long that its peers end the connections to it.
void handoff_router::freeze_one(clock::time_point now) {
  auto& victim = processes_[random_() % plan_.ranks()];
  ::kill(victim.pid, SIGSTOP);
  victim.frozen_until = now + milliseconds(++freezes_ % 2 == 1 ? 3000 : random_() % 1000);
}

void handoff_router::wake(clock::time_point now) {
  for (auto& each : processes_)
    if (each.frozen_until != clock::time_point{} && now >= each.frozen_until) {
      ::kill(each.pid, SIGCONT);
      each.frozen_until = {};
    }
}

void handoff_router::check_processes() {
  for (std::uint32_t rank = 0; rank < plan_.ranks(); ++rank) {
    int status = 0;
    if (::waitpid(processes_[rank].pid, &status, WNOHANG) == 0)
      continue;
    processes_[rank].pid = -1;
    broken_ = "rank " + std::to_string(rank) + " has ended by itself, status " +
              std::to_string(WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status));
  }
}

// -- methods that end a run

void handoff_router::finish() {
  if (broken_.empty()) {
    at_end_ = footprints();
    wake(clock::time_point::max());
    board_->finish.store(true, std::memory_order_release);
    if (!wait_for_idle())
      broken_ = "a rank does not come to its end";
  }
}

bool handoff_router::wait_for_idle() {
  const auto until = clock::now() + plan_.patience;
  while (true) {
    const bool all = std::all_of(
        board_->ranks.begin(), board_->ranks.begin() + plan_.ranks(),
        [](const rank_cell& each) { return each.idle.load(std::memory_order_acquire); });
    if (all || clock::now() > until)
      return all;
    std::this_thread::sleep_for(milliseconds(1));
  }
}

std::vector<handoff_router::footprint> handoff_router::footprints() const {
  std::vector<footprint> all;
  for (std::uint32_t rank = 0; rank < plan_.ranks(); ++rank) {
    const std::filesystem::path proc = "/proc/" + std::to_string(processes_[rank].pid);
    footprint each;
    std::error_code ignored;
    for (std::filesystem::directory_iterator at(proc / "fd", ignored), end; at != end;
         at.increment(ignored))
      ++each.descriptors;
    std::uint64_t size = 0, resident = 0;
    std::ifstream(proc / "statm") >> size >> resident;
    each.rss_kib = resident * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE)) / 1024;
    all.push_back(each);
  }
  return all;
}

std::uint64_t handoff_router::sum(std::atomic<std::uint64_t> rank_cell::*counter) const {
  std::uint64_t all = 0;
  for (const auto& each : board_->ranks)
    all += (each.*counter).load();
  return all;
}

std::uint64_t handoff_router::found() const {
  return sum(&rank_cell::wrong_pages) + sum(&rank_cell::late_writes);
}

/// Whether the ranks use no more file descriptors and memory at the end of the run than soon after
/// its beginning. Allows for data connections that come and go with aborted reads, and for memory
/// that an allocator keeps. Always true when ranks were killed.
bool handoff_router::flat() const {
  if (kills_ != 0)
    return true;
  for (std::size_t i = 0; i < at_begin_.size() && i < at_end_.size(); ++i)
    if (at_end_[i].descriptors > at_begin_[i].descriptors + 40 ||
        at_end_[i].rss_kib > at_begin_[i].rss_kib + at_begin_[i].rss_kib / 10 + 16 * 1024)
      return false;
  return true;
}

/// Whether the run has handed prompts over: at least half of them, since a fifth is aborted and
/// some time out beside a busy machine; with kills and freezes at least one. Always true of the
/// rooms that show a guard, most of which are aborted.
bool handoff_router::worked() const {
  if (plan_.rooms_like != handoff_plan::profile::any_room)
    return true;
  return succeeded_ > 0 && (kills_ + freezes_ != 0 || 2 * succeeded_ >= ended_);
}

bool handoff_router::good() const {
  return broken_.empty() && found() == 0 && flat() && worked() && sum(&rank_cell::rooms_left) == 0;
}

nlohmann::json handoff_router::report() const {
  constexpr std::array<const char*, cause_count> causes = {
      "aborted_here", "aborted_there", "other_rank", "lost", "read_failed", "timed_out", "other"};
  auto failures = nlohmann::json::object();
  for (std::size_t i = 0; i < cause_count; ++i) {
    std::uint64_t count = 0;
    for (const auto& each : board_->ranks)
      count += each.failures[i].load();
    failures[causes[i]] = count;
  }
  const auto of = [](const std::vector<footprint>& all, std::uint64_t footprint::*what) {
    auto list = nlohmann::json::array();
    for (const auto& each : all)
      list.push_back(each.*what);
    return list;
  };
  const std::chrono::duration<double> took = ended_at_ - begun_;
  nlohmann::json json = {
      {"model", plan_.model.name},
      {"tp", std::to_string(plan_.prefill_ranks) + ":" + std::to_string(plan_.decode_ranks)},
      {"seed", plan_.seed},
      {"rooms", ended_},
      {"succeeded", succeeded_},
      {"failed", ended_ - succeeded_},
      {"failures_at_ranks", failures},
      {"wrong", sum(&rank_cell::wrong_pages)},
      {"late_writes", sum(&rank_cell::late_writes)},
      {"found", found() != 0},
      {"bytes", sum(&rank_cell::bytes)},
      {"tokens_max", std::min(plan_.tokens_max, plan_.pages() * plan_.model.page_tokens)},
      {"kills", kills_},
      {"freezes", freezes_},
      {"descriptors_begin", of(at_begin_, &footprint::descriptors)},
      {"descriptors_end", of(at_end_, &footprint::descriptors)},
      {"rss_kib_begin", of(at_begin_, &footprint::rss_kib)},
      {"rss_kib_end", of(at_end_, &footprint::rss_kib)},
      {"rooms_and_leases_left", sum(&rank_cell::rooms_left)},
      {"flat", flat()},
      {"seconds", took.count()}};
  if (!broken_.empty())
    json["broken"] = broken_;
  if (!plan_.guard.empty())
    json[plan_.guard_off ? "without" : "control"] = plan_.guard;
  return json;
}

} // namespace peercache::handoff_stress
