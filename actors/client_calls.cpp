#include "actors/client_calls.hpp"

#include <utility>

namespace peercache::actors {
namespace {

constexpr std::chrono::milliseconds calls_window{calls_window_ms};

std::size_t failed_of(const call_report& report) {
  std::size_t pages = 0;
  for (const auto& space : report.spaces)
    pages += space.failed.size();
  return pages;
}

} // namespace

bool client_calls::take(std::uint64_t session, const std::string& client, call_report report,
                        time_point now) {
  forget_old(now);
  const auto known = open_.find(session);
  const auto before = known == open_.end() ? 0 : failed_of(known->second.report);
  const auto next = failed_of(report);
  while (failed_ - before + next > failed_max && !ended_.empty())
    drop_oldest();
  if (failed_ - before + next > failed_max)
    return false;
  failed_ += next - before;
  report.client = client;
  report.ended = false;
  open_[session] = {std::move(report), now};
  return true;
}

void client_calls::end(std::uint64_t session, time_point now) {
  forget_old(now);
  auto found = open_.find(session);
  if (found == open_.end())
    return;
  found->second.report.ended = true;
  ended_.push_back(std::move(found->second));
  open_.erase(found);
  if (ended_.size() > ended_max)
    drop_oldest();
}

void client_calls::forget_old(time_point now) {
  while (!ended_.empty() && now - ended_.front().at > calls_window)
    drop_oldest();
}

void client_calls::drop_oldest() {
  failed_ -= failed_of(ended_.front().report);
  ended_.pop_front();
}

calls_report client_calls::all(time_point now) const {
  calls_report said;
  const auto add = [&](const told& one) {
    const auto age = now - one.at;
    if (age > calls_window)
      return;
    auto& report = said.clients.emplace_back(one.report);
    report.age_ms = static_cast<std::uint64_t>(
        std::chrono::duration_cast<std::chrono::milliseconds>(age).count());
  };
  for (const auto& [session, one] : open_)
    add(one);
  for (const auto& one : ended_)
    add(one);
  return said;
}

} // namespace peercache::actors
