#include "common/forks.hpp"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <pthread.h>
#include <unistd.h>
#include <vector>

namespace peercache {
namespace {

std::atomic<std::uint32_t> forks{0}; ///< Number of forks between the first process and this one.

struct file_list {
  std::mutex lock;
  std::vector<int> files; ///< Files to close in a child; guarded by `lock`.
};

/// The list of files to close in children; never destroyed, since a fork may come while the process
/// ends.
file_list& closed_in_children() {
  static auto& made = *new file_list;
  return made;
}

/// Takes the list's lock before a fork: the child gets the list as it is at that moment, so no
/// thread may be changing it.
void before_fork() {
  closed_in_children().lock.lock();
}

void after_fork_in_parent() {
  closed_in_children().lock.unlock();
}

void after_fork_in_child() {
  forks.fetch_add(1, std::memory_order_relaxed);
  auto& list = closed_in_children();
  for (const auto file : list.files)
    ::close(file);
  list.files.clear();
  list.lock.unlock();
}

void watch_forks() noexcept {
  static const int failed =
      ::pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
  (void)failed; // Without memory the handlers are not registered, and forks go unnoticed.
}

} // namespace

home_process::home_process() noexcept {
  watch_forks();
  forks_before_ = forks.load(std::memory_order_relaxed);
}

bool home_process::is_here() const noexcept {
  return forks_before_ == forks.load(std::memory_order_relaxed);
}

void close_in_children(int file) {
  watch_forks();
  auto& list = closed_in_children();
  std::lock_guard guard{list.lock};
  list.files.push_back(file);
}

void close_noted(int file) noexcept {
  auto& list = closed_in_children();
  std::lock_guard guard{list.lock};
  std::erase(list.files, file);
  ::close(file);
}

} // namespace peercache
