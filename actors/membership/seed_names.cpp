#include "actors/membership/seed_names.hpp"

#include "common/assert.hpp"

#include <condition_variable>
#include <mutex>
#include <pthread.h>
#include <system_error>
#include <thread>
#include <utility>

namespace peercache::actors {

/// State that the look-up threads share with the owner. Guarded by a mutex, since a thread that
/// blocks in the resolver cannot be an actor.
struct seed_names::board {
  std::mutex lock;
  std::condition_variable changed;
  bool ended = false;         ///< The owner is gone.
  std::size_t unanswered = 0; ///< Seeds that were never looked up to the end.
  answers news;               ///< Answers that the owner has not taken.
};

seed_names::seed_names(answers lacking, const resolver& resolve, std::chrono::milliseconds pause)
    : board_(std::make_shared<board>()) {
  PEERCACHE_ASSERT(resolve);
  const auto seeds = lacking;
  board_->unanswered = seeds.size();
  board_->news = std::move(lacking);
  for (const auto& [seed, why] : seeds)
    try {
      std::thread([shared = board_, seed = seed, resolve, pause] {
        ::pthread_setname_np(::pthread_self(), "peercache-names");
        look_up(*shared, seed, resolve, pause);
      }).detach();
    } catch (const std::system_error& fault) {
      const std::lock_guard held(board_->lock);
      --board_->unanswered;
      board_->news.insert_or_assign(
          seed, error{errc::refused, std::string("no thread can look it up: ") + fault.what()});
    }
}

seed_names::~seed_names() {
  const std::lock_guard held(board_->lock);
  board_->ended = true;
  board_->changed.notify_all();
}

void seed_names::look_up(board& shared, const discovery::endpoint& seed, const resolver& resolve,
                         std::chrono::milliseconds pause) {
  for (bool first = true;; first = false) {
    auto address = resolve(seed.host);
    const bool found = static_cast<bool>(address);
    std::unique_lock held(shared.lock);
    if (shared.ended)
      return;
    shared.news.insert_or_assign(seed, std::move(address));
    shared.unanswered -= first ? 1 : 0;
    shared.changed.notify_all();
    if (found || shared.changed.wait_for(held, pause, [&shared] { return shared.ended; }))
      return;
  }
}

seed_names::answers seed_names::take() {
  return take_within(std::chrono::milliseconds(0));
}

seed_names::answers seed_names::take_within(std::chrono::milliseconds patience) {
  std::unique_lock held(board_->lock);
  board_->changed.wait_for(held, patience, [this] { return board_->unanswered == 0; });
  return std::exchange(board_->news, {});
}

} // namespace peercache::actors
