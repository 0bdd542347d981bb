#include "tests/scenario/handoff/handoff_world.hpp"

#include <algorithm>

/// The schedulers of the two engines of `handoff_world`. All ranks of an engine do the same in the
/// same turn, and the lowest state that a rank reports is the state of the room.
namespace peercache::handoff::test {
namespace {

/// Number of scheduler turns after which an engine gives up a room that has not ended.
constexpr std::uint32_t age_max = 120;

constexpr std::uint32_t aborted_one_in = 150;

template <class Ranks>
bool any_frozen(const Ranks& ranks) {
  return std::any_of(ranks.begin(), ranks.end(), [](const auto& each) { return each->frozen; });
}

} // namespace

// -- methods that play the scheduler of the decode engine

room_state handoff_world::poll_decode(const request& at) const {
  auto lowest = room_state::success;
  for (const auto& each : decode_)
    lowest = std::min(lowest, each->rooms.poll(at.number));
  return lowest;
}

void handoff_world::step_decode(request& at) {
  auto& mine = at.decode;
  if (mine.at == phase::over || any_frozen(decode_))
    return;
  if (mine.at == phase::waiting) {
    for (auto& each : decode_) {
      (*each->serials)[each->next_turn] = at.serial;
      ++each->next_turn.value;
      if (!each->rooms.open(at.number))
        wrong("decode cannot open a room");
    }
    mine.at = phase::running;
    return;
  }
  const auto state = poll_decode(at);
  if (state == room_state::failed || mine.at == phase::ending)
    return end_decode(at);
  if (state == room_state::success) {
    check_bytes(at);
    return leave_decode(at, true);
  }
  const bool late = ++mine.age > age_max;
  counts_.timed_out += late ? 1 : 0;
  const auto is_quiet = [&at](const auto& each) { return each->rooms.is_quiet(at.number); };
  if (late && mine.told && std::all_of(decode_.begin(), decode_.end(), is_quiet))
    wrong("decode waits for a room of which prefill has said that it is over");
  if (late || chance(aborted_one_in))
    for (auto& each : decode_)
      each->rooms.abort(at.number, late ? "timed out" : "aborted by decode");
  else if (!mine.connected)
    connect_decode(at);
  else if (!mine.allocated)
    allocate_decode(at);
}

void handoff_world::connect_decode(request& at) {
  std::vector<std::vector<receiver_rooms::source>> sources(decode_.size());
  std::set<peer_id> peers;
  for (std::size_t to = 0; to < decode_.size(); ++to)
    for (std::size_t from = 0; from < prefill_.size(); ++from) {
      if (!model_.are_partners(from, to))
        continue;
      const auto* over = known_to_decode(from, to);
      if (over == nullptr)
        return;
      peers.insert(over->id);
      auto plan =
          transfer_plan::create(prefill_[from]->memory.layout(), decode_[to]->memory.layout());
      if (!plan)
        return wrong(plan.error().message);
      sources[to].push_back({over->id, std::make_shared<transfer_plan>(std::move(*plan))});
    }
  for (std::size_t to = 0; to < decode_.size(); ++to)
    if (!decode_[to]->rooms.connect(at.number, std::move(sources[to])) &&
        decode_[to]->rooms.poll(at.number) != room_state::failed)
      wrong("a room cannot be connected");
  at.decode.connected = true;
  at.decode.over = std::move(peers);
}

void handoff_world::allocate_decode(request& at) {
  auto& mine = at.decode;
  mine.pages = decode_pages_.take(at.serial, at.length);
  if (mine.pages.empty())
    return;
  mine.allocated = true;
  const auto states_of = [&](const decode_rank& rank) {
    return rank.memory.states_of(mine.pages, at.prefix, at.window);
  };
  for (auto& each : decode_)
    if (!each->rooms.allocate(at.number,
                              {at.prefix, mine.pages, states_of(*each), mine.pages[0]}) &&
        each->rooms.poll(at.number) != room_state::failed)
      wrong("pages are not taken");
}

/// Ends a room that one rank of decode has failed: the other ranks abort, and the pages are free
/// when all ranks say that they have failed, or have succeeded.
void handoff_world::end_decode(request& at) {
  at.decode.at = phase::ending;
  bool ended = true;
  for (auto& each : decode_) {
    each->rooms.abort(at.number, "another rank has failed", failure_kind::another_rank);
    const auto state = each->rooms.poll(at.number);
    ended &= state == room_state::failed || state == room_state::success;
  }
  if (ended)
    leave_decode(at, false);
}

/// Frees a request's pages at decode, then clears its room at every rank.
void handoff_world::leave_decode(request& at, bool good) {
  for (auto page : decode_pages_.give_back(at.serial))
    for (auto& each : decode_)
      each->memory.scramble(page, random_);
  for (auto& each : decode_)
    each->rooms.clear(at.number);
  at.decode.at = phase::over;
  ++(good ? counts_.succeeded : counts_.failed);
  counts_.with_states += good && (model_.mamba || model_.swa) ? 1 : 0;
  counts_.with_stages += good && model_.prefill_stages != 1 ? 1 : 0;
  counts_.with_cp_shares += good && model_.all_cp_ranks_send ? 1 : 0;
  if (good && !ending_ && requests_.size() < 12 && chance(3))
    start_again(at.number);
}

void handoff_world::check_bytes(const request& at) {
  const auto& pages = at.decode.pages;
  for (const auto& each : decode_) {
    for (std::uint32_t i = 0; i < pages.size(); ++i)
      if (!each->memory.has(pages[i], at.serial, at.prefix + i))
        wrong("a room succeeded with a wrong byte");
    if (pages.empty() || !each->memory.has_states(pages, at.serial, at.prefix, at.window))
      wrong("a room succeeded with a wrong state");
    else if (!each->memory.has_aux(pages[0], at.serial))
      wrong("a room succeeded with a wrong aux row");
  }
}

// -- methods that play the scheduler of the prefill engine

room_state handoff_world::poll_prefill(const request& at) const {
  auto lowest = room_state::success;
  for (std::size_t rank = 0; rank < prefill_.size(); ++rank)
    lowest = std::min(lowest, prefill_[rank]->rooms.poll(at.prefill.ids[rank]));
  return lowest;
}

void handoff_world::step_prefill(request& at) {
  auto& mine = at.prefill;
  if (mine.at == phase::over || any_frozen(prefill_) || mapping_ != mapping::mapped)
    return;
  if (mine.at == phase::waiting)
    return open_prefill(at);
  const auto state = poll_prefill(at);
  if (state == room_state::failed)
    return end_prefill(at, "another rank has failed");
  if (state == room_state::success)
    return leave_prefill(at);
  if (++mine.age > age_max) {
    ++counts_.timed_out;
    if (must_have_ended(at))
      wrong("prefill waits for a room of which decode has said that it is over");
    return end_prefill(at, "timed out");
  }
  if (chance(aborted_one_in))
    return end_prefill(at, "aborted by prefill");
  if (!mine.pages.empty())
    send_chunk(at);
  else if (state == room_state::waiting_for_input)
    init_prefill(at);
}

void handoff_world::open_prefill(request& at) {
  auto& mine = at.prefill;
  mine.at = phase::running;
  mine.ids.resize(prefill_.size());
  bool refused = false;
  for (std::size_t rank = 0; rank < prefill_.size(); ++rank)
    if (const auto made = prefill_[rank]->rooms.open(at.number, receivers_of(rank)); made)
      mine.ids[rank] = *made;
    else
      refused = true;
  if (refused)
    end_prefill(at, "there is no lease");
}

void handoff_world::init_prefill(request& at) {
  auto& mine = at.prefill;
  mine.first = prefill_[0]->rooms.prefix_pages(mine.ids[0]).value_or(0);
  const auto behind = at.prefix + at.length;
  if (mine.first >= behind)
    return end_prefill(at, "decode has all pages");
  mine.pages = prefill_pages_.take(at.serial, behind - mine.first);
  if (mine.pages.empty())
    return;
  for (std::size_t rank = 0; rank < prefill_.size(); ++rank)
    if (!prefill_[rank]->rooms.init(mine.ids[rank], behind - mine.first))
      wrong("the number of pages is not taken");
}

/// Lets the prefill ranks compute some of a request's pages and offer them to decode.
void handoff_world::send_chunk(request& at) {
  auto& mine = at.prefill;
  if (mine.last || chance(2))
    return;
  const auto pages = static_cast<std::uint32_t>(mine.pages.size());
  const auto left = pages - mine.sent;
  const auto window = std::min(pages, at.window + static_cast<std::uint32_t>(at.serial % 2));
  const auto count = static_cast<std::uint32_t>(random_() % (left + 1));
  const auto chunk = std::span(mine.pages).subspan(mine.sent, count);
  mine.last = count == left && chance(2);
  for (std::size_t rank = 0; rank < prefill_.size(); ++rank) {
    auto& worker = *prefill_[rank];
    for (std::uint32_t i = 0; i < count; ++i)
      if (model_.computes(static_cast<std::uint32_t>(rank), mine.sent + i, pages))
        worker.memory.fill(chunk[i], at.serial, mine.first + mine.sent + i);
    std::vector<state_items> states;
    if (mine.last) {
      worker.memory.fill_last(mine.pages, at.serial, mine.first, window);
      states = worker.memory.states_of(mine.pages, mine.first, window);
    }
    if (!worker.rooms.send(mine.ids[rank], chunk, mine.last, std::move(states), mine.pages[0]))
      wrong("a chunk is not taken");
  }
  mine.sent += count;
}

/// Aborts the room at every prefill rank and frees its pages in the same turn, as a scheduler does
/// that aborts or sees a failure.
void handoff_world::end_prefill(request& at, const std::string& reason) {
  for (std::size_t rank = 0; rank < prefill_.size(); ++rank)
    prefill_[rank]->rooms.abort(at.prefill.ids[rank], reason);
  leave_prefill(at);
}

void handoff_world::leave_prefill(request& at) {
  for (auto page : prefill_pages_.give_back(at.serial))
    for (auto& each : prefill_)
      each->memory.scramble(page, random_);
  for (std::size_t rank = 0; rank < prefill_.size(); ++rank)
    prefill_[rank]->rooms.clear(at.prefill.ids[rank]);
  at.prefill.at = phase::over;
}

} // namespace peercache::handoff::test
