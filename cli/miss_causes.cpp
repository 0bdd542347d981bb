#include "cli/miss_causes.hpp"

#include "cli/miss_words.hpp"
#include "common/page_status.hpp"

#include <algorithm>
#include <cstring>
#include <fmt/format.h>

namespace peercache::cli {
namespace {

using link::call_kind;

/// Limit of the other spaces in which a missed page is looked for.
constexpr std::size_t others_max = 16;

std::uint64_t pages_of(const link::space_calls& calls, call_kind kind, page_status status) {
  const auto index =
      static_cast<std::size_t>(kind) * page_status_count + static_cast<std::size_t>(status);
  return index < calls.pages.size() ? calls.pages[index] : 0;
}

std::uint64_t pages_of(const link::space_calls& calls, call_kind kind) {
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < page_status_count; ++i)
    sum += pages_of(calls, kind, static_cast<page_status>(i));
  return sum;
}

std::uint64_t stored_in(const link::space_calls& calls) {
  return pages_of(calls, call_kind::set, page_status::stored) +
         pages_of(calls, call_kind::set, page_status::duplicate);
}

std::uint64_t hits_in(const link::space_calls& calls) {
  return pages_of(calls, call_kind::exists, page_status::hit) +
         pages_of(calls, call_kind::get, page_status::hit);
}

std::uint64_t asked_in(const link::space_calls& calls) {
  return pages_of(calls, call_kind::exists) + pages_of(calls, call_kind::get);
}

std::uint64_t unasked_in(const link::space_calls& calls) {
  std::uint64_t sum = 0;
  for (const auto& [reason, pages] : calls.unasked)
    sum += pages;
  return sum;
}

bool is_miss(const link::failed_page& page) {
  return page.call != static_cast<std::uint8_t>(call_kind::set);
}

key_space space_of_fields(const std::vector<std::string>& fields) {
  return key_space{std::vector<std::string_view>(fields.begin(), fields.end())};
}

const page_fate* fate_of(const std::map<std::uint64_t, page_fate>& fates, const page_key& key) {
  const auto found = fates.find(key.prefix());
  return found == fates.end() ? nullptr : &found->second;
}

/// Whether some node has the page, or had it.
bool was_stored(const page_fate* fate) {
  return fate != nullptr && (fate->is_there || !fate->losses.empty());
}

std::string space_of(const link::space_calls& calls) {
  return calls.fields.empty() ? std::string{"?"} : calls.fields.front();
}

} // namespace

page_key digest_of(const link::failed_page& page) noexcept {
  page_key key;
  if (page.digest.size() == sizeof key)
    std::memcpy(key.bytes.data(), page.digest.data(), sizeof key);
  return key;
}

miss_search::miss_search(std::vector<told_calls> told) : told_(std::move(told)) {
  for (const auto& from : told_)
    for (const auto& calls : from.report.spaces)
      add_space(from, calls);
  find_others();
  keep_newest();
}

void miss_search::keep_newest() {
  constexpr std::size_t pages_min = 4;
  const auto most =
      std::max(pages_min, keys_max / ((others_max + 1) * std::max<std::size_t>(uses_.size(), 1)));
  for (auto& from : told_)
    for (auto& calls : from.report.spaces)
      if (auto& failed = calls.failed; failed.size() > most)
        failed.erase(failed.begin(), failed.end() - static_cast<std::ptrdiff_t>(most));
}

void miss_search::add_space(const told_calls& from, const link::space_calls& calls) {
  const auto known = by_fields_.find(calls.fields);
  auto same = known == by_fields_.end()
                  ? spaces_.end()
                  : spaces_.begin() + static_cast<std::ptrdiff_t>(known->second);
  if (same == spaces_.end()) {
    same = spaces_.emplace(spaces_.end());
    if (!calls.fields.empty())
      by_fields_[calls.fields] = spaces_.size() - 1;
    same->sum.door = calls.door;
    same->sum.fields = calls.fields;
    same->keys = space_of_fields(calls.fields);
    same->sum.pages.assign(link::call_kinds * page_status_count, 0);
  }
  for (std::size_t i = 0; i < std::min(calls.pages.size(), same->sum.pages.size()); ++i)
    same->sum.pages[i] += calls.pages[i];
  for (const auto& [reason, pages] : calls.unasked)
    same->sum.unasked[reason] += pages;
  for (const auto& [name, value] : calls.facts)
    same->sum.facts[name] = value;
  for (const auto& page : calls.failed)
    if (!is_miss(page) && page.status < page_status_count)
      same->refused[digest_of(page).prefix()] = page.status;
  uses_.push_back({static_cast<std::size_t>(same - spaces_.begin()), from.report.age_ms, &calls});
  asked_ += asked_in(calls) + unasked_in(calls);
  missed_ += unasked_in(calls);
  for (const auto kind : {call_kind::exists, call_kind::get})
    missed_ += pages_of(calls, kind) - pages_of(calls, kind, page_status::hit);
}

void miss_search::find_others() {
  std::vector<key_parts> parts;
  for (std::size_t i = 0; i < std::min(spaces_.size(), compared_max); ++i)
    parts.push_back(parts_of(spaces_[i].sum.fields));
  for (std::size_t own = 0; own < parts.size(); ++own) {
    auto& one = spaces_[own];
    for (std::size_t i = 0; i < parts.size(); ++i) {
      const auto& other = spaces_[i].sum;
      if (other.door != one.sum.door || other.fields.empty() || one.sum.fields.empty())
        continue;
      if (auto differs = differences(parts[own], parts[i]); !differs.empty())
        one.others.emplace_back(i, std::move(differs));
    }
    std::stable_sort(one.others.begin(), one.others.end(), [](const auto& a, const auto& b) {
      return a.second.size() < b.second.size();
    });
    if (one.others.size() > others_max)
      one.others.resize(others_max);
  }
}

std::vector<page_key> miss_search::keys_of(const use& of, const link::failed_page& page) const {
  std::vector<page_key> keys{digest_of(page)};
  if (!page.caller_key.empty())
    for (const auto& [index, differs] : spaces_[of.space].others)
      keys.push_back(spaces_[index].keys.key_of(page.caller_key));
  return keys;
}

std::vector<page_key> miss_search::keys() const {
  std::vector<page_key> all;
  for (const auto& one : uses_)
    for (const auto& page : one.calls->failed) {
      if (!is_miss(page) || page.status != static_cast<std::uint8_t>(page_status::not_found))
        continue;
      const auto more = keys_of(one, page);
      all.insert(all.end(), more.begin(), more.end());
    }
  return all;
}

std::optional<miss_search::verdict>
miss_search::judge_lost(const use& of, const link::failed_page& page, const fate_map& fates) const {
  const auto* fate = fate_of(fates, digest_of(page));
  const auto missed_ago = page.age_ms + of.told_ago_ms;
  const link::lost_page* last = nullptr; // The newest loss that came before the miss.
  if (fate != nullptr)
    for (const auto& each : fate->losses)
      if (each.age_ms >= missed_ago && (last == nullptr || each.age_ms < last->age_ms))
        last = &each;
  if (last == nullptr)
    return std::nullopt;
  auto words = words_of_loss(static_cast<link::page_loss>(last->how), last->age_ms - missed_ago);
  return verdict{words.cause, words.detail, words.fix, {}};
}

miss_search::verdict miss_search::stored_with(const std::vector<key_difference>& differs,
                                              const char* how) {
  return {cause_of_difference(differs.front()), how, fix_of_difference(differs.front()), differs};
}

std::optional<miss_search::verdict> miss_search::judge_others(const space& in,
                                                              const link::failed_page& page,
                                                              const fate_map& fates) const {
  for (const auto& [index, differs] : in.others) {
    const auto* fate = page.caller_key.empty()
                           ? nullptr
                           : fate_of(fates, spaces_[index].keys.key_of(page.caller_key));
    if (was_stored(fate))
      return stored_with(differs, "the page is stored, in another key space");
  }
  return std::nullopt;
}

/// The differences to another space in which pages of this model are stored and in which equal
/// prompts have other keys. Null when there is no such space.
const std::vector<key_difference>* miss_search::other_keys(const space& in) const {
  for (const auto& [index, differs] : in.others) {
    const auto& other = spaces_[index].sum;
    const bool differ_in_keys = std::any_of(
        differs.begin(), differs.end(), [](const auto& one) { return changes_keys(one.field); });
    if (differ_in_keys && stored_in(other) > 0 && space_of(other) == space_of(in.sum))
      return &differs;
  }
  return nullptr;
}

/// Whether the directory did not say where the page is, or the same page in another space.
bool miss_search::is_unknown(const use& of, const link::failed_page& page,
                             const fate_map& fates) const {
  const auto keys = keys_of(of, page);
  return std::any_of(keys.begin(), keys.end(), [&](const page_key& key) {
    const auto* fate = fate_of(fates, key);
    return fate != nullptr && fate->is_unknown;
  });
}

miss_search::verdict miss_search::judge_unstored(const space& in) const {
  const auto stored = stored_in(in.sum);
  if (stored == 0)
    for (std::size_t i = 0; i < page_status_count; ++i)
      if (const auto status = static_cast<page_status>(i);
          !is_success(status) && pages_of(in.sum, call_kind::set, status) > 0) {
        auto words = words_of_refusal(status);
        return {words.cause, words.detail, words.fix, {}};
      }
  auto words = words_of_unstored(in.sum.facts, stored > 0);
  if (const auto* differs = other_keys(in))
    words.detail += fmt::format("; engines with another {} store pages of this model too, which "
                                "have other keys and are never found here",
                                differs->front().field);
  return {words.cause, words.detail, words.fix, {}};
}

miss_search::verdict miss_search::judge(const use& of, const link::failed_page& page,
                                        const fate_map& fates) const {
  const auto& in = spaces_[of.space];
  const auto as_verdict = [](worded_cause words) {
    return verdict{std::move(words.cause), std::move(words.detail), std::move(words.fix), {}};
  };
  if (const auto status = static_cast<page_status>(page.status); status != page_status::not_found)
    return as_verdict(words_of_status(status));
  if (auto lost = judge_lost(of, page, fates))
    return *lost;
  if (auto elsewhere = judge_others(in, page, fates))
    return *elsewhere;
  if (was_stored(fate_of(fates, digest_of(page))))
    return {"stored_later",
            "the page was stored after it was asked for",
            "nothing: the first prompt of its kind misses",
            {}};
  if (const auto refused = in.refused.find(digest_of(page).prefix()); refused != in.refused.end())
    return as_verdict(words_of_refusal(static_cast<page_status>(refused->second)));
  if (is_unknown(of, page, fates))
    return as_verdict(words_of_unknown());
  // A page that is missed in a space with pages of its own may simply be new, so other keys are
  // blamed only where the space has none.
  if (const auto* differs = other_keys(in);
      differs != nullptr && stored_in(in.sum) == 0 && hits_in(in.sum) == 0)
    return stored_with(*differs, "pages of this model are stored in another key space, where equal "
                                 "prompts have other keys");
  return judge_unstored(in);
}

} // namespace peercache::cli
