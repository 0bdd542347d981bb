#include "client/calls/read_plan.hpp"

#include "client/calls/page_length.hpp"
#include "common/assert.hpp"

#include <algorithm>
#include <utility>

namespace peercache::client {
namespace {

/// Stands in `asked_` for a page whose key the directory has answered for.
constexpr std::uint32_t no_longer_asked = UINT32_MAX;

/// Whether a status says that the page's place was out of date, which is worth a second look, and
/// not that the page is unreadable.
bool place_was_stale(page_status status) noexcept {
  return status == page_status::stale || status == page_status::holder_gone ||
         status == page_status::wrong_key;
}

} // namespace

read_plan::read_plan(std::span<const get_page> pages, std::span<page_result> results,
                     location_cache& locations, stale_records& stale)
    : pages_(pages), results_(results), locations_(locations), stale_(stale) {
  PEERCACHE_ASSERT(pages.size() == results.size());
  missing_.reserve(pages_.size());
  for (std::uint32_t i = 0; i < pages_.size(); ++i) {
    results_[i] = {};
    results_[i].length_bytes = client::length_of(pages_[i].parts);
    if (results_[i].length_bytes == 0)
      end(i, page_status::bad_size);
    else
      missing_.push_back(i);
  }
}

read_plan::past& read_plan::past_of(std::uint32_t index) {
  if (pasts_.empty())
    pasts_.resize(pages_.size());
  return pasts_[index];
}

void read_plan::end(std::uint32_t index, page_status status, page_origin origin) {
  auto& result = results_[index];
  PEERCACHE_ASSERT(result.status == page_status::pending && status != page_status::pending);
  PEERCACHE_ASSERT((origin != page_origin::none) == (status == page_status::hit));
  result.status = status;
  result.origin = origin;
}

bool read_plan::may_read_from(const directory::page_location& at) const {
  return at.holder != known_.left && known_.is_member(at);
}

bool read_plan::is_own(const page& which) const noexcept {
  return known_.own != incarnation{} && which.location.holder == known_.own;
}

void read_plan::remember(std::uint32_t index, const directory::page_location& location) {
  const bool in_own_pool = location.where == directory::tier::memory &&
                           (location.holder == known_.own || location.holder == known_.left);
  if (!in_own_pool)
    locations_.store(pages_[index].key, location);
}

void read_plan::locate(std::uint32_t index, const directory::page_location& location) {
  PEERCACHE_ASSERT(results_[index].status == page_status::pending);
  located_.push_back({index, location});
}

void read_plan::follow(readers_cluster known) {
  PEERCACHE_ASSERT(located_.empty() && known.is_member);
  known_ = std::move(known);
}

std::vector<std::uint32_t> read_plan::take_missing() {
  return std::exchange(missing_, {});
}

void read_plan::looked_at_own_host(std::uint32_t index,
                                   const std::optional<directory::page_location>& here) {
  if (!here) {
    locations_.prefetch(pages_[index].key); // For `take_remembered`.
    return missing_.push_back(index);
  }
  PEERCACHE_ASSERT(here->holder == known_.own);
  if (pasts_.empty())
    return locate(index, *here);
  auto& its = pasts_[index];
  its.denied = {}; // The page lies in this host's pool, so no holder is asked for it.
  if (its.avoided != known_.own)
    return locate(index, *here);
  its.here_again = here;
  missing_.push_back(index);
}

std::size_t read_plan::take_remembered() {
  if (looks_ > 1)
    return 0;
  return std::erase_if(missing_, [&](std::uint32_t index) {
    const auto known = locations_.find(pages_[index].key);
    if (!known || known->length_bytes != results_[index].length_bytes || !known_.is_member(*known))
      return false;
    locate(index, *known);
    return true;
  });
}

promote_plan read_plan::ask_holders() {
  promote_plan asked(promote_plan::questions::growing);
  if (pasts_.empty())
    return asked;
  for (const auto index : missing_) {
    const auto& its = pasts_[index];
    if (its.denied.value == 0)
      continue;
    directory::page_location holder;
    holder.holder = its.avoided;
    holder.length_bytes = results_[index].length_bytes;
    asked.add(index, pages_[index].key, holder);
  }
  return asked;
}

std::vector<page_key> read_plan::keys_missing() const {
  std::vector<page_key> keys;
  keys.reserve(missing_.size());
  for (const auto index : missing_)
    keys.push_back(pages_[index].key);
  return keys;
}

std::vector<page_key> read_plan::ask_directory() {
  PEERCACHE_ASSERT(unanswered_ == 0);
  auto keys = keys_missing();
  asked_ = std::exchange(missing_, {});
  unanswered_ = asked_.size();
  return keys;
}

void read_plan::looked_up(std::size_t nth, const lookup_answer& answer, reader_place& reader) {
  PEERCACHE_ASSERT(nth < asked_.size() && answer.status != page_status::pending);
  const auto index = std::exchange(asked_[nth], no_longer_asked);
  if (index == no_longer_asked)
    return;
  --unanswered_;
  const auto its = pasts_.empty() ? past{} : pasts_[index];
  const bool holder_is_asked = its.denied.value != 0;
  if (answer.status != page_status::hit) {
    if (holder_is_asked)
      pasts_[index].unless_holder = answer.status;
    else if (its.here_again)
      locate(index, *its.here_again);
    else
      end(index, answer.status);
    return;
  }
  reader.avoided = its.avoided;
  reader.length_bytes = results_[index].length_bytes;
  const auto& best = choose_location(answer, reader);
  remember(index, best);
  // The directory still names the holder that denied the page. The holder knows better and is
  // asked.
  if (holder_is_asked && best.holder == its.avoided) {
    pasts_[index].unless_holder = page_status::stale;
    return;
  }
  if (holder_is_asked)
    pasts_[index].denied = {};
  locate(index, its.here_again && best.holder == known_.own ? *its.here_again : best);
}

std::uint64_t read_plan::located_bytes() const noexcept {
  std::uint64_t bytes = 0;
  for (const auto& one : located_)
    bytes += results_[one.index].length_bytes;
  return bytes;
}

promote_plan read_plan::take_cold() {
  const auto is_cold = [](const page& one) { return one.location.where == directory::tier::disk; };
  promote_plan cold(promote_plan::questions::growing);
  for (const auto& one : located_)
    if (is_cold(one)) {
      if (one.location.length_bytes == results_[one.index].length_bytes)
        cold.add(one.index, pages_[one.index].key, one.location);
      else
        end(one.index, page_status::bad_size);
    }
  std::erase_if(located_, is_cold);
  return cold;
}

bool read_plan::can_be_read(const page& which) {
  if (is_own(which))
    return true;
  const auto& at = which.location;
  if (!may_read_from(at)) {
    decide(which.index, at, page_status::holder_gone, page_origin::none);
    return false;
  }
  if (at.length_bytes != results_[which.index].length_bytes) {
    decide(which.index, at, page_status::bad_size, page_origin::none);
    return false;
  }
  return true;
}

std::vector<read_plan::page> read_plan::take_round() {
  auto round = std::exchange(located_, {});
  std::erase_if(round, [this](const page& which) { return !can_be_read(which); });
  PEERCACHE_ASSERT(std::none_of(round.begin(), round.end(), [](const page& which) {
    return which.location.where == directory::tier::disk;
  }));
  return round;
}

bool read_plan::may_copy(const page& which, bool late) {
  PEERCACHE_ASSERT(is_own(which));
  if (late) {
    // The page's place stays in the location cache, because it is not out of date.
    end(which.index, page_status::timed_out);
    return false;
  }
  if (which.location.length_bytes == results_[which.index].length_bytes)
    return true;
  decide(which.index, which.location, page_status::bad_size, page_origin::own_host);
  return false;
}

void read_plan::copied(const page& which, page_status status) {
  if (status == page_status::timed_out)
    end(which.index, status); // The page's place stays in the location cache: it is right.
  else
    decide(which.index, which.location, status, page_origin::own_host);
}

void read_plan::was_read(std::uint32_t index, const directory::page_location& used,
                         page_status status, page_origin origin) {
  PEERCACHE_ASSERT(origin != page_origin::none && used.holder != known_.own);
  decide(index, used, status, origin);
}

void read_plan::locate_promoted(std::uint32_t index, const directory::page_location& location) {
  PEERCACHE_ASSERT(location.where == directory::tier::memory);
  remember(index, location);
  locate(index, location);
  past_of(index).promoted = true;
}

void read_plan::promoted(const promote_plan::place& now, bool late) {
  if (now.location)
    return locate_promoted(now.index, *now.location);
  // The disk no longer had the page, or did not give it in time; the directory may know better in a
  // second look.
  locations_.erase(pages_[now.index].key);
  if (late)
    end(now.index, page_status::timed_out);
  else if (is_last_look())
    end(now.index, page_status::stale);
  else
    missing_.push_back(now.index);
}

void read_plan::told_by_holder(const promote_plan::place& now, bool late) {
  auto& its = past_of(now.index);
  const auto denied = std::exchange(its.denied, {});
  if (denied.value == 0)
    return; // The directory knew another holder, and the page was read there.
  PEERCACHE_ASSERT(its.unless_holder != page_status::pending);
  if (now.location)
    return locate_promoted(now.index, *now.location);
  if (late)
    return end(now.index, page_status::timed_out);
  // The directory still names the holder that denies the page: its record is false and is reported.
  if (its.unless_holder == page_status::stale) {
    const auto& key = pages_[now.index].key;
    locations_.erase(key);
    stale_.add({key, its.avoided, denied});
  }
  end(now.index, its.unless_holder);
}

void read_plan::decide(std::uint32_t index, const directory::page_location& used,
                       page_status status, page_origin origin) {
  const auto& key = pages_[index].key;
  PEERCACHE_ASSERT(results_[index].status == page_status::pending);
  if (status != page_status::hit)
    locations_.erase(key, used);
  if (place_was_stale(status) && !is_last_look()) {
    missing_.push_back(index);
    auto& its = past_of(index);
    its = {};
    its.avoided = used.holder;
    if (status != page_status::holder_gone)
      its.denied = used.gen;
    return;
  }
  // The record is false for certain: in the second look the directory has just named it, and the
  // holder itself denied it. A page that was decided without a read has no origin and is left out,
  // because this client's view may be older than the record.
  if (place_was_stale(status) && origin != page_origin::none && used.gen.readable())
    stale_.add({key, used.holder, used.gen});
  if (status != page_status::hit)
    return end(index, status);
  const bool from_disk = !pasts_.empty() && pasts_[index].promoted;
  end(index, status, from_disk ? page_origin::disk : origin);
}

bool read_plan::look_again() {
  PEERCACHE_ASSERT(located_.empty() && unanswered_ == 0);
  if (!missing_.empty()) {
    ++looks_;
    PEERCACHE_ASSERT(looks_ <= looks_max);
    return true;
  }
  PEERCACHE_ASSERT(std::none_of(results_.begin(), results_.end(), [](const page_result& result) {
    return result.status == page_status::pending;
  }));
  return false;
}

} // namespace peercache::client
