#include "tests/scenario/handoff/handoff_world.hpp"

#include <algorithm>

/// Connections between the workers of `handoff_world`, and what travels over them.
namespace peercache::handoff::test {

std::uint32_t handoff_world::receivers_of(std::size_t prefill) const {
  std::uint32_t count = 0;
  for (std::size_t decode = 0; decode < decode_.size(); ++decode)
    count += model_.are_partners(prefill, decode) ? 1 : 0;
  return count;
}

handoff_world::connection* handoff_world::connection_of(peer_id id) {
  const auto found = std::find_if(connections_.begin(), connections_.end(),
                                  [id](const auto& each) { return each.id == id; });
  return found == connections_.end() ? nullptr : &*found;
}

/// The request with this turn of the connection's decode process; null when it is over.
handoff_world::request* handoff_world::request_of(const connection& at, join_id turn) {
  const auto serial = at.serials->at(turn);
  const auto found = std::find_if(requests_.begin(), requests_.end(),
                                  [serial](const auto& each) { return each.serial == serial; });
  return found == requests_.end() ? nullptr : &*found;
}

const handoff_world::connection* handoff_world::known_to_decode(std::size_t prefill,
                                                                std::size_t decode) const {
  const auto found = std::find_if(connections_.begin(), connections_.end(), [&](const auto& each) {
    return each.prefill == prefill && each.decode == decode && each.decode_has_it;
  });
  return found == connections_.end() ? nullptr : &*found;
}

/// Each decode worker connects to those of its prefill workers to which it knows no connection;
/// prefill may not have heard yet that their previous connection has ended.
void handoff_world::connect_workers() {
  for (std::size_t prefill = 0; prefill < prefill_.size(); ++prefill)
    for (std::size_t decode = 0; decode < decode_.size(); ++decode) {
      if (!model_.are_partners(prefill, decode) || prefill_[prefill]->frozen ||
          decode_[decode]->frozen || known_to_decode(prefill, decode) != nullptr || chance(2))
        continue;
      const peer_id id{next_connection_++};
      connections_.push_back({.id = id,
                              .prefill = prefill,
                              .decode = decode,
                              .source = prefill_[prefill]->process,
                              .serials = decode_[decode]->serials});
      prefill_[prefill]->rooms.connected(id, decode_[decode]->process);
    }
}

/// Cuts a connection; a random part of the messages under way still arrives on either side.
void handoff_world::cut(connection& at) {
  at.up = false;
  for (auto* queue : {&at.to_prefill, &at.to_decode})
    queue->resize(random_() % (queue->size() + 1));
}

void handoff_world::step_connection(connection& at) {
  if (at.prefill_has_it && !prefill_[at.prefill]->frozen && chance(2)) {
    if (!at.to_prefill.empty()) {
      deliver_to_prefill(at);
    } else if (!at.up && chance(3)) {
      prefill_[at.prefill]->rooms.lost(at.id);
      at.prefill_has_it = false;
      for (const auto turn : std::set(at.joined))
        hear_end(at, turn);
    }
  }
  if (at.decode_has_it && !decode_[at.decode]->frozen && chance(2)) {
    if (!at.to_decode.empty()) {
      deliver_to_decode(at);
    } else if (!at.up && chance(3)) {
      decode_[at.decode]->rooms.lost(at.id);
      at.decode_has_it = false;
      for (auto& each : requests_)
        each.decode.told |= each.decode.over.contains(at.id) &&
                            decode_[at.decode]->rooms.poll(each.number) != room_state::success;
    }
  }
}

void handoff_world::deliver_to_prefill(connection& at) {
  const auto read = decode(at.to_prefill.front());
  at.to_prefill.pop_front();
  if (!read)
    return wrong("a message is malformed");
  auto& rooms = prefill_[at.prefill]->rooms;
  if (const auto* joined = std::get_if<join>(&*read)) {
    rooms.joined(at.id, *joined);
    at.joined.insert(joined->id);
  } else if (const auto* finished = std::get_if<done>(&*read)) {
    rooms.finished(at.id, *finished);
    if (auto* of = request_of(at, finished->id); of != nullptr)
      of->prefill.done.emplace(at.prefill, at.decode);
  } else if (const auto* aborted = std::get_if<handoff::abort>(&*read)) {
    rooms.aborted(at.id, *aborted);
    hear_end(at, aborted->id);
  } else {
    wrong("prefill gets a message that is decode's");
  }
}

/// Notes that prefill has learnt of the end of a turn whose join it knows.
void handoff_world::hear_end(connection& at, join_id turn) {
  if (at.joined.erase(turn) == 0)
    return;
  auto* of = request_of(at, turn);
  if (of == nullptr || of->prefill.at == phase::over)
    return;
  const auto& ids = of->prefill.ids;
  const auto& rooms = prefill_[at.prefill]->rooms;
  of->prefill.told |= ids.empty() || rooms.poll(ids[at.prefill]) != room_state::success;
}

/// Whether prefill has learnt of the end of the room: a decode rank that had joined it gave it up,
/// or all decode ranks are done.
bool handoff_world::must_have_ended(const request& at) const {
  std::size_t partners = 0;
  for (std::size_t prefill = 0; prefill < prefill_.size(); ++prefill)
    partners += receivers_of(prefill);
  return at.prefill.told || at.prefill.done.size() == partners;
}

void handoff_world::deliver_to_decode(connection& at) {
  const auto read = decode(at.to_decode.front());
  at.to_decode.pop_front();
  if (!read)
    return wrong("a message is malformed");
  auto& rooms = decode_[at.decode]->rooms;
  if (const auto* offered = std::get_if<offer>(&*read))
    rooms.offered(at.id, *offered, {});
  else if (const auto* aborted = std::get_if<handoff::abort>(&*read)) {
    rooms.aborted(at.id, *aborted);
    if (auto* of = request_of(at, aborted->id); of != nullptr)
      of->decode.told |= rooms.poll(of->number) != room_state::success;
  } else
    wrong("decode gets a message that is prefill's");
}

/// Sends the messages, and begins or cancels the reads, that the rooms of processes which are not
/// frozen ask for.
void handoff_world::carry_out() {
  for (auto& each : decode_)
    if (!each->frozen)
      carry_out_decode(*each);
  for (auto& worker : prefill_)
    if (!worker->frozen)
      for (auto& each : worker->rooms.take_messages())
        if (auto* over = connection_of(each.to); over != nullptr) {
          if (const auto* ended = std::get_if<handoff::abort>(&each.what); ended != nullptr)
            over->joined.erase(ended->id);
          if (over->up)
            over->to_decode.push_back(encode(each.what));
        }
}

void handoff_world::carry_out_decode(decode_rank& from) {
  for (auto& each : from.rooms.take_actions())
    if (auto* said = std::get_if<receiver_rooms::outgoing>(&each)) {
      if (auto* over = connection_of(said->to); over != nullptr && over->up)
        over->to_prefill.push_back(encode(said->what));
    } else {
      const auto turn = std::get<receiver_rooms::cancel_reads>(each).turn;
      for (auto& one : from.reads)
        one.cancelled |= one.order.turn == turn;
    }
  while (auto order = from.rooms.next_read()) {
    const auto* over = connection_of(order->from);
    if (over == nullptr)
      return wrong("a read is ordered from a worker that is lost");
    read made;
    made.order = std::move(*order);
    made.source = over->prefill;
    made.source_process = over->source;
    from.reads.push_back(std::move(made));
  }
}

} // namespace peercache::handoff::test
