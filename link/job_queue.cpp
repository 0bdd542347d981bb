#include "link/job_queue.hpp"

#include <caf/ref_counted.hpp>

#include <algorithm>
#include <utility>

namespace peercache::link {

namespace {

/// The queue whose worker this thread is; null: it is no worker.
thread_local const job_queue* worked_for = nullptr;
/// How many jobs may wait for the worker that made them ready, while others sleep.
constexpr std::size_t left_max = 3;

} // namespace

job_queue::job_queue() : clock_([this](time_point first) { sooner(first); }, [this] { help(); }) {}

job_queue::~job_queue() {
  for (auto* job : jobs_)
    if (job != nullptr)
      caf::intrusive_ptr_release(job);
}

void job_queue::push(caf::resumable* job) {
  bed* wakes = nullptr;
  {
    const std::lock_guard guard(lock_);
    jobs_.push_back(job);
    if (worked_for != this || jobs_.size() > left_max)
      wakes = call_one();
    else if (!asleep_.empty())
      clock_.look_after();
  }
  if (wakes != nullptr)
    wakes->called_.notify_one();
}

void job_queue::help() {
  const std::lock_guard guard(lock_);
  for (auto left = jobs_.size(); left > 0; --left)
    if (auto* wakes = call_one())
      wakes->called_.notify_one();
}

caf::resumable* job_queue::pop(bed& own) {
  worked_for = this;
  for (;;) {
    clock_.deliver_due();
    std::unique_lock guard(lock_);
    if (jobs_.empty()) {
      sleep(guard, own);
      continue;
    }
    auto* job = jobs_.front();
    jobs_.pop_front();
    return job;
  }
}

std::deque<caf::resumable*> job_queue::take_all() {
  const std::lock_guard guard(lock_);
  return std::exchange(jobs_, {});
}

void job_queue::sooner(time_point first) {
  if (worked_for == this)
    return;
  bed* wakes = nullptr;
  {
    const std::lock_guard guard(lock_);
    if (!is_watched(first))
      wakes = call_one();
  }
  if (wakes != nullptr)
    wakes->called_.notify_one();
}

bool job_queue::is_watched(time_point first) const noexcept {
  return std::any_of(asleep_.begin(), asleep_.end(),
                     [first](const bed* each) { return each->until_ <= first; });
}

job_queue::bed* job_queue::call_one() noexcept {
  const auto latest =
      std::max_element(asleep_.begin(), asleep_.end(), [](const bed* one, const bed* other) {
        return one->until_ < other->until_;
      });
  if (latest == asleep_.end())
    return nullptr;
  auto* chosen = *latest;
  asleep_.erase(latest);
  chosen->is_called_ = true;
  return chosen;
}

void job_queue::sleep(std::unique_lock<std::mutex>& guard, bed& own) {
  clock_.sleep_until_first();
  const auto first = clock_.first();
  own.until_ = is_watched(first) ? time_point::max() : first;
  asleep_.push_back(&own);
  const auto is_called = [&own] { return own.is_called_; };
  if (own.until_ == time_point::max())
    own.called_.wait(guard, is_called);
  else
    own.called_.wait_until(guard, own.until_, is_called);
  if (!std::exchange(own.is_called_, false))
    std::erase(asleep_, &own);
}

} // namespace peercache::link
