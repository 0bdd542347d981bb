#include "client/handoff/hand_over_counts.hpp"

#include <algorithm>
#include <ctime>
#include <numeric>

namespace peercache::client {

using metrics::metric;

void hand_over_counts::succeeded(std::uint64_t bytes) noexcept {
  ++succeeded_;
  bytes_ += bytes;
}

void hand_over_counts::failed(const handoff::room_failure& why, std::uint64_t now) {
  ++failed_[static_cast<std::size_t>(why.kind)];
  if (why.from_another_rank())
    return; // The other rank reports the reason.
  std::erase_if(last_failures_, [&](const failure& each) { return each.text == why.reason; });
  last_failures_.push_back({why.reason, now});
  if (last_failures_.size() > failures_kept)
    last_failures_.pop_front();
}

void hand_over_counts::took(std::chrono::microseconds from_offer_to_success) noexcept {
  seconds_.record(from_offer_to_success);
}

std::uint64_t hand_over_counts::rooms_failed() const noexcept {
  return std::accumulate(failed_.begin(), failed_.end(), std::uint64_t{0});
}

metrics::samples hand_over_counts::samples(std::string_view side, std::string_view worker,
                                           const handoff::rooms_by_state& rooms,
                                           std::size_t peers) const {
  metrics::samples now;
  for (std::size_t i = 0; i < handoff::room_state_count; ++i) {
    const auto state = static_cast<handoff::room_state>(i);
    now.set(metric::handoff_rooms, {side, to_string(state)}, rooms[state]);
  }
  now.set(metric::handoff_peers, {side}, peers);
  now.set(metric::handoff_rooms_total, {side, "succeeded"}, succeeded_);
  now.set(metric::handoff_rooms_total, {side, "failed"}, rooms_failed());
  now.set(metric::handoff_bytes_total, {side}, bytes_);
  for (std::size_t kind = 0; kind < failed_.size(); ++kind)
    if (failed_[kind] != 0)
      now.set(metric::handoff_failures_total,
              {side, to_string(static_cast<handoff::failure_kind>(kind))}, failed_[kind]);
  for (const auto& each : last_failures_)
    now.set(metric::handoff_last_failure_seconds, {worker, each.text}, each.seconds);
  if (reads() != 0) {
    now.set(metric::handoff_reads_total, {"good"}, reads(handoff::read_end::good));
    now.set(metric::handoff_reads_total, {"refused"}, reads(handoff::read_end::refused));
    now.set(metric::handoff_reads_total, {"failed"}, reads(handoff::read_end::failed));
    now.set(metric::handoff_seconds, {}, seconds_.snapshot());
  }
  return now;
}

std::uint64_t unix_seconds() noexcept {
  return static_cast<std::uint64_t>(std::time(nullptr));
}

} // namespace peercache::client
