#include "client/pool/slot_request.hpp"

#include "common/interruption.hpp"

namespace peercache::client {

bool slot_request::answer(std::string packed_slots, page_status why_not) {
  {
    std::lock_guard guard{lock_};
    if (given_up_ || outcome_)
      return false;
    outcome_ = outcome{std::move(packed_slots), why_not};
  }
  answered_.notify_one();
  return true;
}

slot_request::outcome slot_request::wait(deadline until) {
  std::unique_lock guard{lock_};
  if (wait_interruptibly(guard, answered_, until, [this] { return outcome_.has_value(); }))
    return std::move(*outcome_);
  given_up_ = true;
  return {{}, page_status::timed_out};
}

} // namespace peercache::client
