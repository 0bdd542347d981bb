#include "directory/remote_search.hpp"

#include "common/assert.hpp"
#include "common/guards.hpp"
#include "directory/wire.hpp"

#include <algorithm>
#include <utility>

namespace peercache::directory {

remote_search::remote_search(std::span<const page_key> keys, known_shard_ptr known, asking how,
                             const memory& lines)
    : how_(std::move(how)), lines_(lines), known_(std::move(known)) {
  PEERCACHE_ASSERT(!keys.empty() && keys.size() <= keys_max);
  keys_.resize(keys.size());
  units_.reserve(keys.size() + 1);
  for (std::size_t i = 0; i < keys.size(); ++i)
    keys_[i].key = keys[i];
  if (known_)
    begin_keys();
  begin_round();
}

void remote_search::begin_keys() {
  phase_ = phase::keys;
  for (auto& key : keys_)
    remember(key = {.key = key.key, .hash = known_->header.hash_of(key.key)});
}

/// Takes over what a former search knows of the key's line.
void remote_search::remember(open_key& key) const {
  known_lines::line line;
  if (lines_.of == nullptr ||
      !lines_.of->find(key.key, key.hash, {lines_.shard, known_->header.changes}, lines_.now, line))
    return;
  key.line = line.number;
  key.line_words = line.words;
  key.found[0] = line.found;
  key.remembered = true;
}

/// Keeps what the lines of keys with one record led to.
void remote_search::keep_lines() const {
  if (lines_.of == nullptr)
    return;
  for (const auto& key : keys_)
    if (key.count == 1 && !key.remembered)
      lines_.of->keep(key.key, key.hash, {lines_.shard, known_->header.changes},
                      {key.line, key.line_words, key.found[0]}, lines_.now);
}

unit_number remote_search::unit_of(const open_key& key) const noexcept {
  const auto& header = known_->header;
  return key.next == step::record ? key.record
                                  : header.line_unit(header.home_of(key.hash) + key.line);
}

/// Whether the next round is more than records, which show by themselves that they are right.
bool remote_search::reads_lines() const noexcept {
  return std::any_of(keys_.begin(), keys_.end(), [](const auto& key) {
    return key.next == step::line || key.next == step::line_again;
  });
}

void remote_search::begin_round() {
  if (state_ != state::reading)
    return;
  if (++rounds_ > rounds_max) {
    state_ = state::ask;
    return;
  }
  units_.clear();
  with_header_ = phase_ == phase::header || (phase_ == phase::keys && reads_lines());
  if (with_header_)
    units_.push_back(header_unit);
  if (phase_ == phase::holders)
    for (std::uint32_t i = 0; i < (fresh_.holders + 1) / 2; ++i)
      units_.push_back(fresh_.holders_unit + i);
  if (phase_ == phase::keys)
    for (const auto& key : keys_)
      if (key.next != step::done)
        units_.push_back(unit_of(key));
  reads_ += units_.size();
}

void remote_search::take(std::span<const unit_words> arrived) {
  PEERCACHE_ASSERT(state_ == state::reading && arrived.size() == units_.size());
  switch (phase_) {
  case phase::header:
    take_header(arrived[0]);
    break;
  case phase::holders:
    take_holders(arrived);
    break;
  case phase::keys:
    take_keys(arrived);
    break;
  }
  begin_round();
}

void remote_search::take_header(const unit_words& words) {
  const auto header = shard_header::decode(words);
  phase_ = phase::header;
  if (!header || !header->whole())
    return;
  if (header->forbidden || header->by == view_number{} || (header->holders + 1) / 2 > units_max) {
    state_ = state::ask;
    return;
  }
  fresh_ = *header;
  phase_ = phase::holders;
  if (fresh_.holders == 0)
    take_holders({});
}

void remote_search::take_holders(std::span<const unit_words> arrived) {
  auto made = std::make_shared<known_shard>();
  made->header = fresh_;
  for (std::uint32_t i = 0; i < fresh_.holders; ++i) {
    shard_holder::words words;
    std::copy_n(arrived[i / 2].begin() + i % 2 * words.size(), words.size(), words.begin());
    const auto holder = shard_holder::decode(words);
    if (!holder) {
      phase_ = phase::header;
      return;
    }
    made->holders.push_back(*holder);
  }
  known_ = std::move(made);
  begin_keys();
}

void remote_search::take_keys(std::span<const unit_words> arrived) {
  if (with_header_ && arrived[0] != known_->header.encode() && guard_on(guard::reread))
    return take_header(arrived[0]);
  std::size_t next = with_header_ ? 1 : 0;
  bool all_done = true;
  for (auto& key : keys_) {
    if (key.next != step::done)
      take(key, arrived[next++]);
    all_done = all_done && key.next == step::done;
  }
  if (all_done)
    finish();
}

void remote_search::take(open_key& key, const unit_words& words) const {
  if (key.next == step::record)
    return take_record(key, words);
  const bool as_before = words == key.line_words && !line_changes(words[0]);
  if (key.next == step::line_again && (as_before || !guard_on(guard::reread)))
    return leave_line(key);
  if (key.remembered)
    return take_remembered(key, words);
  take_line(key, words);
}

/// Takes the words of a line that a former search has followed to the key's only record.
void remote_search::take_remembered(open_key& key, const unit_words& words) {
  if (words == key.line_words || !guard_on(guard::reread)) {
    key.count = 1;
    key.next = step::done;
  } else if (key.line != 0) {
    begin_again(key); // The key may be in a line before this one by now.
  } else {
    key.remembered = false;
    take_line(key, words);
  }
}

void remote_search::take_line(open_key& key, const unit_words& words) {
  key.line_words = words;
  key.word = 0;
  key.others = false;
  follow_next_place(key);
}

/// Goes on with the next place of the line that may be the key's.
void remote_search::follow_next_place(open_key& key) {
  key.count = key.records = 0;
  while (++key.word < words_per_unit) {
    const auto place = key.line_words[key.word];
    if (place == 0 || high_half(place) != key.hash)
      continue;
    key.record = low_half(place);
    key.next = step::record;
    return;
  }
  if (key.others)
    key.next = step::line_again;
  else
    leave_line(key);
}

void remote_search::leave_line(open_key& key) {
  const bool passed = keys_passed(key.line_words[0]) != 0;
  key.next = passed ? step::line : step::done;
  ++key.line;
}

/// @param words a copy: what was judged is what is told
void remote_search::take_record(open_key& key, unit_words words) const {
  const auto number = holder_in(words);
  const auto* holder = number < known_->holders.size() ? &known_->holders[number] : nullptr;
  if (holder == nullptr || !is_of(words, words_of(key.key), holder->inc)) {
    if (key.records == 0) {
      key.others = true;
      return follow_next_place(key);
    }
    return begin_again(key); // The list changed behind its first record.
  }
  if (holder->node == node_id{} && guard_on(guard::reread))
    return begin_again(key); // The holder's first record: the header is another one.
  key.record = next_in(words);
  const bool full = ++key.records == limits::locations_per_key_max;
  // The list has changed: what comes behind the records that were READ twice is not known.
  if (guard_on(guard::reread) && (has_holder(key, *holder) || (full && key.record != no_unit)))
    return begin_again(key);
  if (!holder->gone)
    add_location(shard_record::decode(words).location(*holder), key.found, key.count);
  if (full || key.record == no_unit)
    key.next = key.count > 0 ? step::done : step::line_again;
}

/// Whether a record of this holder was READ in the key's list.
bool remote_search::has_holder(const open_key& key, const shard_holder& holder) noexcept {
  return std::any_of(key.found.begin(), key.found.begin() + key.count,
                     [&](const auto& each) { return each.holder == holder.inc; });
}

void remote_search::begin_again(open_key& key) {
  key = {.key = key.key, .hash = key.hash};
}

void remote_search::finish() {
  const bool some_missing =
      std::any_of(keys_.begin(), keys_.end(), [](const auto& key) { return key.count == 0; });
  // By another view the shard may own other keys than the reader thinks: its node knows.
  state_ = some_missing && known_->header.by != how_.by ? state::ask : state::found;
  keep_lines();
}

std::string remote_search::answer() const {
  PEERCACHE_ASSERT(state_ == state::found);
  std::string answer;
  answer.reserve(keys_.size() * (1 + wire::location_bytes));
  for (const auto& key : keys_) {
    if (key.count > 0 || how_.owns(key.key))
      append_answer(answer, {key.found.data(), key.count});
    else
      append_not_mine(answer, how_.by);
  }
  return answer;
}

} // namespace peercache::directory
