#include "client/notes/call_log.hpp"

#include "common/key_epoch.hpp"

#include <algorithm>
#include <utility>

namespace peercache::client {
namespace {

using std::chrono::duration_cast;
using std::chrono::milliseconds;

std::size_t bytes_of(const call_log::description& what) {
  auto bytes = what.door.size();
  for (const auto& field : what.fields)
    bytes += field.size();
  for (const auto& [name, value] : what.facts)
    bytes += name.size() + value.size();
  return bytes;
}

std::string packed(const page_key& key) {
  return {reinterpret_cast<const char*>(key.bytes.data()), key.bytes.size()};
}

} // namespace

std::int64_t call_log::number_of(time_point now) noexcept {
  return now.time_since_epoch() / bucket_time;
}

call_log::space* call_log::find(const page_key& id) {
  if (auto known = spaces_.find(id); known != spaces_.end())
    return &known->second;
  return spaces_.size() < spaces_max ? &spaces_[id] : nullptr;
}

call_log::bucket& call_log::bucket_at(space& in, time_point now) {
  const auto number = number_of(now);
  auto& one = in.by_time[static_cast<std::size_t>(number) % buckets];
  if (one.number != number) {
    one = {};
    one.number = number;
  }
  return one;
}

void call_log::describe(const page_key& space, description what) {
  if (bytes_of(what) > description_bytes_max)
    return;
  std::lock_guard guard{lock_};
  if (auto* known = find(space); known != nullptr && known->what != what) {
    known->what = std::move(what);
    changed_ = true;
  }
}

call_log::failed call_log::failed_at(const call& pages, std::size_t index, time_point now) {
  const auto text = pages.caller_key(index / pages.spaces.size());
  return {pages.kind, pages.results[index].status, now, pages.digests[index],
          std::string{text.size() <= caller_key_bytes_max ? text : ""}};
}

call_log::share call_log::share_of(const call& pages, std::size_t column, time_point now) {
  const auto most = pages.kind == link::call_kind::set ? refused_max : misses_max;
  share of;
  for (std::size_t i = column; i < pages.results.size(); i += pages.spaces.size()) {
    const auto status = pages.results[i].status;
    if (status == page_status::pending)
      continue;
    ++of.pages[static_cast<std::size_t>(status)];
    if (!is_success(status) && i < pages.digests.size() && of.lost.size() < most)
      of.lost.push_back(failed_at(pages, i, now));
  }
  return of;
}

void call_log::add_share(space& to, link::call_kind kind, share&& of, time_point now) {
  auto& numbers = bucket_at(to, now).pages;
  const auto first = static_cast<std::size_t>(kind) * page_status_count;
  for (std::size_t status = 0; status < of.pages.size(); ++status)
    numbers[first + status] += of.pages[status];
  const bool is_set = kind == link::call_kind::set;
  auto& newest = is_set ? to.refused : to.missed;
  for (auto& page : of.lost) {
    if (newest.size() >= (is_set ? refused_max : misses_max))
      newest.pop_front();
    newest.push_back(std::move(page));
  }
}

void call_log::note(const call& pages, time_point now) {
  std::vector<share> shares;
  for (std::size_t column = 0; column < pages.spaces.size(); ++column)
    shares.push_back(share_of(pages, column, now));
  std::lock_guard guard{lock_};
  changed_ = changed_ || !pages.results.empty();
  for (std::size_t column = 0; column < pages.spaces.size(); ++column)
    if (auto* in = find(pages.spaces[column]))
      add_share(*in, pages.kind, std::move(shares[column]), now);
}

void call_log::note_unasked(const page_key& space, const std::string& reason, std::uint64_t pages,
                            time_point now) {
  std::lock_guard guard{lock_};
  auto* in = find(space);
  if (in == nullptr)
    return;
  auto& reasons = bucket_at(*in, now).unasked;
  if (reasons.size() >= reasons_max && !reasons.contains(reason))
    return;
  reasons[reason] += pages;
  changed_ = true;
}

void call_log::add_rows(link::space_calls& to, const std::deque<failed>& pages, time_point now) {
  const auto oldest = number_of(now) - static_cast<std::int64_t>(buckets);
  for (const auto& page : pages) {
    if (number_of(page.at) <= oldest)
      continue;
    auto& row = to.failed.emplace_back();
    row.call = static_cast<std::uint8_t>(page.kind);
    row.status = static_cast<std::uint8_t>(page.status);
    row.age_ms = static_cast<std::uint64_t>(
        std::max<std::int64_t>(duration_cast<milliseconds>(now - page.at).count(), 0));
    row.digest = packed(page.digest);
    row.caller_key = page.caller_key;
  }
}

link::space_calls call_log::report_of(const page_key& id, const space& one, time_point now) {
  link::space_calls said;
  said.space = space_of(id).value;
  said.door = one.what.door;
  said.fields = one.what.fields;
  said.facts = one.what.facts;
  said.pages.assign(link::call_kinds * page_status_count, 0);
  const auto oldest = number_of(now) - static_cast<std::int64_t>(buckets);
  for (const auto& part : one.by_time) {
    if (part.number <= oldest)
      continue;
    for (std::size_t i = 0; i < said.pages.size(); ++i)
      said.pages[i] += part.pages[i];
    for (const auto& [reason, pages] : part.unasked)
      said.unasked[reason] += pages;
  }
  add_rows(said, one.missed, now);
  add_rows(said, one.refused, now);
  return said;
}

std::optional<link::call_report> call_log::take_report(time_point now) {
  link::call_report said;
  const bool seen = watch_.take(said, now);
  std::vector<std::pair<page_key, const space*>> all; // The pointers stay valid: elements of
                                                      // `spaces_` never move.
  {
    std::lock_guard guard{lock_};
    if (!std::exchange(changed_, false) && !seen)
      return std::nullopt;
    for (const auto& [id, one] : spaces_)
      all.emplace_back(id, &one);
  }
  for (const auto& [id, one] : all) {
    std::lock_guard guard{lock_};
    said.spaces.push_back(report_of(id, *one, now));
  }
  return said;
}

} // namespace peercache::client
