#include "actors/seed_names.hpp"

#include "common/assert.hpp"

#include <condition_variable>
#include <mutex>
#include <pthread.h>
#include <thread>
#include <utility>

namespace peercache::actors {

/// What the thread and the owner share.
struct seed_names::board {
  std::mutex lock;
  std::condition_variable end;
  bool ended = false; ///< The owner is gone.
  answers news;       ///< Answers that the owner has not taken.
};

seed_names::seed_names(answers lacking, resolver resolve, std::chrono::milliseconds pause)
    : board_(std::make_shared<board>()) {
  PEERCACHE_ASSERT(resolve);
  std::vector<discovery::endpoint> seeds;
  for (const auto& [seed, why] : lacking)
    seeds.push_back(seed);
  board_->news = std::move(lacking);
  std::thread([shared = board_, seeds = std::move(seeds), resolve = std::move(resolve),
               pause]() mutable {
    ::pthread_setname_np(::pthread_self(), "peercache-names");
    look_up(*shared, std::move(seeds), resolve, pause);
  }).detach();
}

seed_names::~seed_names() {
  const std::lock_guard held(board_->lock);
  board_->ended = true;
  board_->end.notify_all();
}

void seed_names::look_up(board& shared, std::vector<discovery::endpoint> lacking,
                         const resolver& resolve, std::chrono::milliseconds pause) {
  std::unique_lock held(shared.lock);
  while (!lacking.empty()) {
    if (shared.end.wait_for(held, pause, [&shared] { return shared.ended; }))
      return;
    std::vector<discovery::endpoint> still;
    for (const auto& seed : lacking) {
      held.unlock();
      auto found = resolve(seed.host);
      held.lock();
      if (shared.ended)
        return;
      if (!found)
        still.push_back(seed);
      shared.news.insert_or_assign(seed, std::move(found));
    }
    lacking = std::move(still);
  }
}

seed_names::answers seed_names::take() {
  const std::lock_guard held(board_->lock);
  return std::exchange(board_->news, {});
}

} // namespace peercache::actors
