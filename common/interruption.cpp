#include "common/interruption.hpp"

#include <algorithm>
#include <utility>

namespace peercache {
namespace {

thread_local interruption* of_this_thread = nullptr;

} // namespace

interruption::interruption(std::function<bool()> look)
    : look_(std::move(look)), outer_(of_this_thread), due_(clock::now() + interval) {
  of_this_thread = this;
}

interruption::~interruption() {
  of_this_thread = outer_;
}

bool interruption::possible() noexcept {
  return of_this_thread != nullptr;
}

bool interruption::given() noexcept {
  return of_this_thread != nullptr && of_this_thread->given_;
}

bool interruption::look() {
  auto* const mine = of_this_thread;
  if (mine == nullptr || mine->given_ || clock::now() < mine->due_)
    return given();
  mine->given_ = mine->look_();
  mine->due_ = clock::now() + interval;
  return mine->given_;
}

interruption::clock::time_point interruption::next_look(clock::time_point until) noexcept {
  const auto* mine = of_this_thread;
  return mine == nullptr || mine->given_ ? until : std::min(until, mine->due_);
}

} // namespace peercache
