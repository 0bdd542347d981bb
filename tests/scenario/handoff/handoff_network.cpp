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
      connections_.push_back(
          {.id = id, .prefill = prefill, .decode = decode, .source = prefill_[prefill]->process});
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
    }
  }
  if (at.decode_has_it && !decode_[at.decode]->frozen && chance(2)) {
    if (!at.to_decode.empty()) {
      deliver_to_decode(at);
    } else if (!at.up && chance(3)) {
      decode_[at.decode]->rooms.lost(at.id);
      at.decode_has_it = false;
    }
  }
}

void handoff_world::deliver_to_prefill(connection& at) {
  const auto read = decode(at.to_prefill.front());
  at.to_prefill.pop_front();
  if (!read)
    return wrong("a message is malformed");
  auto& rooms = prefill_[at.prefill]->rooms;
  if (const auto* joined = std::get_if<join>(&*read))
    rooms.joined(at.id, *joined);
  else if (const auto* finished = std::get_if<done>(&*read))
    rooms.finished(at.id, *finished);
  else if (const auto* aborted = std::get_if<handoff::abort>(&*read))
    rooms.aborted(at.id, *aborted);
  else
    wrong("prefill gets a message that is decode's");
}

void handoff_world::deliver_to_decode(connection& at) {
  const auto read = decode(at.to_decode.front());
  at.to_decode.pop_front();
  if (!read)
    return wrong("a message is malformed");
  auto& rooms = decode_[at.decode]->rooms;
  if (const auto* offered = std::get_if<offer>(&*read))
    rooms.offered(at.id, *offered, {});
  else if (const auto* aborted = std::get_if<handoff::abort>(&*read))
    rooms.aborted(at.id, *aborted);
  else
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
        if (auto* over = connection_of(each.to); over != nullptr && over->up)
          over->to_decode.push_back(encode(each.what));
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
