#include "actors/gateway/client_calls.hpp"

#include "common/page_status.hpp"

#include <algorithm>
#include <unordered_set>
#include <utility>

namespace peercache::actors {
namespace {

constexpr std::chrono::milliseconds calls_window{calls_window_ms};

/// Bytes of memory that an element of a report takes besides its texts.
constexpr std::size_t element_bytes = 96;

std::size_t bytes_of(const space_calls& space) {
  std::size_t bytes =
      element_bytes + space.door.size() + space.pages.size() * sizeof(std::uint64_t);
  for (const auto& field : space.fields)
    bytes += element_bytes + field.size();
  for (const auto& [name, value] : space.facts)
    bytes += element_bytes + name.size() + value.size();
  for (const auto& [reason, pages] : space.unasked)
    bytes += element_bytes + reason.size();
  for (const auto& page : space.failed)
    bytes += element_bytes + page.digest.size() + page.caller_key.size();
  return bytes;
}

std::size_t bytes_of(const call_report& report) {
  std::size_t bytes = element_bytes;
  for (const auto& space : report.spaces)
    bytes += bytes_of(space);
  for (const auto& call : report.slow)
    bytes += element_bytes + call.peer.size() + call.digest.size();
  for (const auto& use : report.uses)
    bytes += element_bytes + use.pages.size() * sizeof(std::uint64_t);
  return bytes + report.data_plane.size();
}

/// Adds pages to the row of their key space, as stored or as asked for. `pages` has `width` numbers
/// for each kind of call.
void add_pages(session_space& to, const std::vector<std::uint64_t>& pages, std::size_t width) {
  for (std::size_t i = 0; i < pages.size(); ++i)
    (static_cast<call_kind>(i / width) == call_kind::set ? to.stored : to.asked) += pages[i];
}

} // namespace

bool client_calls::take(std::uint64_t session, const std::string& client, call_report report,
                        time_point now) {
  forget_old(now);
  const auto known = open_.find(session);
  const auto before = known == open_.end() ? 0 : bytes_of(known->second.report);
  const auto next = bytes_of(report);
  if (next > report_bytes_max)
    return false;
  while (bytes_ - before + next > bytes_max && !ended_.empty())
    drop_oldest();
  if (bytes_ - before + next > bytes_max)
    return false;
  bytes_ += next - before;
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
    drop_least();
}

std::vector<session_space> client_calls::spaces_of(std::uint64_t session) const {
  std::vector<session_space> spaces;
  const auto known = open_.find(session);
  if (known == open_.end())
    return spaces;
  const auto& report = known->second.report;
  for (const auto& each : report.spaces) {
    auto& row = spaces.emplace_back();
    row.space = each.space;
    row.door = each.door;
    row.fields = each.fields;
    add_pages(row, each.pages, page_status_count);
  }
  std::unordered_set<std::uint64_t> described;
  for (const auto& row : spaces)
    described.insert(row.space);
  for (const auto& use : report.uses) {
    if (described.contains(use.space))
      continue;
    auto& row = spaces.emplace_back();
    row.space = use.space;
    add_pages(row, use.pages, 1);
  }
  return spaces;
}

std::string client_calls::data_plane_of(std::uint64_t session) const {
  const auto known = open_.find(session);
  return known == open_.end() ? std::string{} : known->second.report.data_plane;
}

void client_calls::forget_old(time_point now) {
  while (!ended_.empty() && now - ended_.front().at > calls_window)
    drop_oldest();
}

void client_calls::drop_oldest() {
  bytes_ -= bytes_of(ended_.front().report);
  ended_.pop_front();
}

void client_calls::drop_least() {
  const auto least = std::find_if(ended_.begin(), ended_.end(),
                                  [](const told& one) { return one.report.spaces.empty(); });
  if (least == ended_.end())
    return drop_oldest();
  bytes_ -= bytes_of(least->report);
  ended_.erase(least);
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
