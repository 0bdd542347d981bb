#include "actors/disk/promoter_actor.hpp"

#include "common/assert.hpp"
#include "directory/wire.hpp"

#include <algorithm>
#include <chrono>
#include <memory>

namespace peercache::actors {

using metrics::metric;

namespace {

using promoter_pointer = promoter_actor::stateful_pointer<promoter_state>;
using directory::page_location;

/// Requests to pool and disk have no time-out: both live in this process and answer for as long as
/// the promoter does.
constexpr auto no_timeout = caf::infinite;
/// Pages that go through pool and disk together, at most: a slow page holds up only the pages of
/// its group.
constexpr std::size_t group_pages = 16;
static_assert(group_pages <= limits::batch_pages_max);
/// A page that was asked for ahead of need is dropped from the queue after this time.
constexpr std::uint64_t warm_ms = 1000;

/// Encodes the waiter for a page: the request, and the page's index in it.
constexpr std::uint64_t waiter_of(std::uint64_t request, std::size_t index) noexcept {
  return request * limits::batch_pages_max + index;
}

std::uint64_t now_ms(promoter_pointer self) {
  return static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::milliseconds>(self->clock().now().time_since_epoch())
          .count());
}

/// Returns the best location of each key in a look-up's answer.
std::vector<std::optional<page_location>> places_in(const std::string& answer, std::size_t keys) {
  std::vector<std::optional<page_location>> places(keys);
  directory::answer_reader reader(answer);
  std::array<page_location, limits::locations_per_key_max> locations;
  std::size_t count = 0;
  for (auto& place : places) {
    if (!reader.next(locations, count))
      break;
    if (count != 0)
      place = locations[0];
  }
  return places;
}

/// Pages that go through pool and disk together.
struct promotion_group {
  std::vector<promotions::job> jobs;
  std::vector<slot_id> slots;
};
using group_ptr = std::shared_ptr<promotion_group>;

void pump(promoter_pointer self);

void finish(promoter_pointer self, const promotion_group& group,
            const std::vector<std::optional<page_location>>& places) {
  auto& state = self->state;
  PEERCACHE_ASSERT(places.size() == group.jobs.size());
  for (std::size_t i = 0; i < group.jobs.size(); ++i) {
    state.count(places[i] ? "promoted" : "missed");
    if (places[i] && group.jobs[i].warm)
      state.totals.add(metric::disk_warmed_total);
    for (const auto waiter : state.pages.finish(group.jobs[i].key))
      state.decide(waiter, places[i]);
  }
  pump(self);
}

/// Publishes the pages that the disk found; gives the other slots back.
void restore(promoter_pointer self, const group_ptr& group, const std::string& loaded) {
  std::string filled;
  std::string empty;
  std::vector<std::size_t> indices;
  const auto slots =
      group->jobs.size() -
      static_cast<std::size_t>(std::count(group->slots.begin(), group->slots.end(), no_slot));
  PEERCACHE_ASSERT(record_count<loaded_page>(loaded) ==
                   slots); // The disk answers with one record per slot.
  for (std::size_t i = 0, next = 0; i < group->jobs.size(); ++i) {
    if (group->slots[i] == no_slot)
      continue;
    const auto page = record_at<loaded_page>(loaded, next++);
    if (page.found == 0) {
      append_record(empty, group->slots[i]);
      continue;
    }
    const auto& job = group->jobs[i];
    append_record(filled, filled_slot{job.key, page.checksum, group->slots[i], job.length_bytes});
    indices.push_back(i);
  }
  auto& options = self->state.options;
  if (!empty.empty())
    self->send(options.pool, abandon_atom_v, std::move(empty), from_here{});
  auto places = std::make_shared<std::vector<std::optional<page_location>>>(group->jobs.size());
  if (filled.empty())
    return finish(self, *group, *places);
  self->request(options.pool, no_timeout, restore_atom_v, std::move(filled), from_here{})
      .then(
          [self, group, places, indices](const std::string& answer) {
            const auto found = places_in(answer, indices.size());
            for (std::size_t i = 0; i < indices.size(); ++i)
              (*places)[indices[i]] = found[i];
            finish(self, *group, *places);
          },
          [self, group, places](const caf::error&) { finish(self, *group, *places); });
}

/// Asks the disk to read the pages that got a slot.
void load(promoter_pointer self, const group_ptr& group, const std::string& slots) {
  std::string wanted;
  PEERCACHE_ASSERT(record_count<slot_id>(slots) == group->jobs.size() && group->slots.empty());
  for (std::size_t i = 0; i < group->jobs.size(); ++i) {
    group->slots.push_back(record_at<slot_id>(slots, i));
    if (group->slots[i] == no_slot)
      self->state.count("refused");
    else
      append_record(wanted,
                    wanted_page{group->jobs[i].key, group->slots[i], group->jobs[i].length_bytes});
  }
  const auto pages = record_count<wanted_page>(wanted).value_or(0);
  self->request(self->state.options.disk, no_timeout, load_atom_v, std::move(wanted), from_here{})
      .then([self, group](const std::string& loaded) { restore(self, group, loaded); },
            [self, group, pages](const caf::error&) {
              restore(self, group, std::string(pages * sizeof(loaded_page), '\0'));
            });
}

/// Starts as many queued promotions as there is room for.
void pump(promoter_pointer self) {
  auto& state = self->state;
  for (;;) {
    auto group = std::make_shared<promotion_group>();
    group->jobs = state.pages.start_next(now_ms(self), group_pages);
    if (group->jobs.empty())
      return;
    std::string lengths;
    for (const auto& job : group->jobs)
      append_record(lengths, job.length_bytes);
    self->request(state.options.pool, no_timeout, reserve_atom_v, std::move(lengths), from_here{})
        .then([self, group](const std::string& slots) { load(self, group, slots); },
              [self, group](const caf::error&) {
                finish(self, *group, std::vector<std::optional<page_location>>(group->jobs.size()));
              });
  }
}

std::string keys_of(const std::string& wanted) {
  std::string keys;
  const auto count = record_count<promoted_page>(wanted).value_or(0);
  for (std::size_t i = 0; i < count; ++i)
    append_record(keys, record_at<promoted_page>(wanted, i).key);
  return keys;
}

/// Queues those wanted pages that the pool does not have.
void ask_for_missing(promoter_pointer self, std::uint64_t request, const std::string& wanted,
                     const std::string& in_pool, std::uint64_t until) {
  auto& state = self->state;
  const auto count = record_count<promoted_page>(wanted).value_or(0);
  const auto places = places_in(in_pool, count);
  for (std::size_t i = 0; i < count; ++i) {
    const auto page = record_at<promoted_page>(wanted, i);
    const auto waiter = waiter_of(request, i);
    if (places[i]) {
      state.count("in_pool");
      state.decide(waiter, places[i]);
      continue;
    }
    switch (state.pages.ask(page.key, page.length_bytes, waiter, until)) {
    case promotions::answer::queued:
      break;
    case promotions::answer::joined:
      state.count("joined");
      break;
    case promotions::answer::refused:
      state.count("refused");
      state.decide(waiter, std::nullopt);
      break;
    }
  }
  pump(self);
}

/// Sends a delayed beat for the time at which the first request ends, unless a beat comes by then
/// anyway.
void await_next_end(promoter_pointer self) {
  auto& state = self->state;
  if (state.ends.empty())
    return;
  const auto first = state.ends.begin()->first;
  if (!state.beats_at_ms.empty() && *state.beats_at_ms.begin() <= first)
    return;
  state.beats_at_ms.insert(first);
  const auto now = now_ms(self);
  self->delayed_send(self, std::chrono::milliseconds(first > now ? first - now : 0), beat_atom_v,
                     from_here{});
}

/// Answers the requests whose time has passed with the pages that are in the pool by now, because
/// their readers wait no longer.
void on_beat(promoter_pointer self) {
  auto& state = self->state;
  const auto now = now_ms(self);
  state.beats_at_ms.erase(state.beats_at_ms.begin(), state.beats_at_ms.upper_bound(now));
  while (!state.ends.empty() && state.ends.begin()->first <= now)
    state.deliver(state.ends.begin()->second);
  await_next_end(self);
}

caf::result<std::string> promote(promoter_pointer self, const std::string& wanted,
                                 std::uint32_t within_ms) {
  auto& state = self->state;
  const auto count = record_count<promoted_page>(wanted).value_or(0);
  if (count == 0 || count > limits::batch_pages_max)
    return std::string{};
  const auto id = state.next_request++;
  auto& request = state.requests[id];
  // No two requests have the same number.
  PEERCACHE_ASSERT(request.left == 0 && request.places.empty());
  request.promise = self->make_response_promise<std::string>();
  request.places.resize(count);
  request.left = count;
  const auto until = now_ms(self) + within_ms;
  request.until_ms = until;
  state.ends.emplace(until, id);
  await_next_end(self);
  auto promise = request.promise;
  self->request(state.options.pool, no_timeout, locate_atom_v, keys_of(wanted), from_here{})
      .then([self, id, wanted, until](
                const std::string& in_pool) { ask_for_missing(self, id, wanted, in_pool, until); },
            [self, id](const caf::error&) { self->state.deliver(id); });
  return promise;
}

void warm(promoter_pointer self, const std::string& wanted) {
  auto& state = self->state;
  if (!state.options.warm)
    return;
  const auto count = std::min<std::size_t>(record_count<promoted_page>(wanted).value_or(0),
                                           limits::batch_pages_max);
  for (std::size_t i = 0; i < count; ++i) {
    const auto page = record_at<promoted_page>(wanted, i);
    state.pages.ask(page.key, page.length_bytes, std::nullopt, now_ms(self) + warm_ms);
  }
  pump(self);
}

} // namespace

void promoter_state::decide(std::uint64_t waiter, const std::optional<page_location>& place) {
  const auto id = waiter / limits::batch_pages_max;
  const auto found = requests.find(id);
  if (found == requests.end())
    return; // The request was answered when its time ran out.
  auto& request = found->second;
  const auto page = waiter % limits::batch_pages_max;
  PEERCACHE_ASSERT(page < request.places.size() && request.left > 0);
  request.places[page] = place;
  if (--request.left == 0)
    deliver(id);
}

void promoter_state::deliver(std::uint64_t request) {
  const auto found = requests.find(request);
  if (found == requests.end())
    return;
  std::string answer;
  for (const auto& place : found->second.places)
    directory::append_answer(answer,
                             place ? std::span{&*place, 1} : std::span<const page_location>{});
  found->second.promise.deliver(std::move(answer));
  ends.erase({found->second.until_ms, request});
  requests.erase(found);
}

promoter_actor::behavior_type run_promoter(promoter_pointer self, promoter_options options) {
  auto& state = self->state;
  state.pages = promotions(options.bytes_max);
  state.options = std::move(options);
  PEERCACHE_ASSERT(state.options.pool && state.options.disk);
  self->set_default_handler(caf::drop);
  return {
      [self](promote_atom, const std::string& wanted, std::uint32_t within_ms, from_here) {
        return promote(self, wanted, within_ms);
      },
      [self](warm_atom, const std::string& wanted, from_here) {
        warm(self, wanted);
        return std::string{};
      },
      [self](stats_atom) {
        auto now = self->state.totals;
        now.set(metric::disk_promotes_on_their_way, self->state.pages.on_their_way());
        return now;
      },
      [self](beat_atom, from_here) { on_beat(self); },
  };
}

} // namespace peercache::actors
