#include "tests/handoff/transfer_world.hpp"

#include <algorithm>
#include <cstring>

namespace peercache::handoff::transfers_test {
namespace {

constexpr std::uint8_t reused = 0xee; ///< Value of all bytes of a cell that no call uses.

transfers::options small_options() {
  transfers::options options;
  options.reads.wire_bytes_max = 64;
  options.reads.read_bytes_max = 32;
  options.reads.piece_bytes_max = 8;
  options.calls.open_per_peer_max = 3;
  options.calls.answer_max = std::chrono::milliseconds(300);
  options.requests.per_peer_max = 6;
  return options;
}

template <class Cell>
std::uint64_t address_in(const Cell& cell) {
  return reinterpret_cast<std::uintptr_t>(cell.data());
}

template <class Cell>
bool has_only(const Cell& cell, std::uint8_t value) {
  return std::all_of(cell.begin(), cell.end(), [value](auto byte) { return byte == value; });
}

} // namespace

transfer_world::transfer_world(std::uint64_t seed) : random_(seed) {
  for (std::size_t at = 0; at < 2; ++at) {
    auto& worker = workers_[at];
    worker.leases.emplace(worker.entries, incarnation{1, at + 1});
    worker.machine = std::make_unique<transfers>(*worker.leases, small_options());
    for (std::size_t i = 0; i < cells; ++i)
      worker.memory[i].fill(reused);
    for (std::size_t i = 0; i < regions; ++i)
      if (!worker.machine->add_memory(region(worker, i)))
        wrong("memory cannot be registered");
  }
}

memory_range transfer_world::region(worker& at, std::size_t index) const {
  constexpr auto count = cells / regions;
  return {address_in(at.memory[index * count]), count * cell_bytes};
}

void transfer_world::wrong(const std::string& what) {
  if (fault_.empty())
    fault_ = what;
}

// -- methods that take random steps

void transfer_world::step() {
  const auto at = roll(2);
  auto& worker = workers_[at];
  now_ += std::chrono::milliseconds(roll(3));
  switch (roll(12)) {
  case 0:
    if (!finishing_)
      begin_call(at);
    break;
  case 1:
    if (roll(4) == 0)
      give_up_call(at);
    break;
  case 2:
    if (roll(6) == 0 && !finishing_)
      change_registration(at);
    break;
  case 3:
    if (!connections_.empty() && roll(20) == 0 && !finishing_)
      harm_connection();
    break;
  case 4:
  case 5:
  case 6:
    if (!connections_.empty())
      deliver(*connections_[roll(connections_.size())], at);
    break;
  default:
    if (!worker.reads.empty())
      move_read(at, worker.reads[roll(worker.reads.size())]);
  }
  run(at);
  check_given_back(at);
}

void transfer_world::harm_connection() {
  auto& over = *connections_[roll(connections_.size())];
  if (roll(3) == 0) {
    over.mute = true;
  } else {
    counts_.cuts += over.cut ? 0 : 1;
    over.cut = true;
  }
}

void transfer_world::begin_call(std::size_t at) {
  auto& self = workers_[at];
  auto& other = workers_[1 - at];
  running_call call;
  call.direction = roll(2) == 0 ? transfer_direction::write : transfer_direction::read;
  call.value = next_value_ = static_cast<std::uint8_t>(next_value_ % 200 + 1);
  const auto own_first = roll(cells), other_first = roll(cells);
  const auto wanted = roll(4);
  for (std::size_t i = 0; i < wanted; ++i) {
    const auto own = (own_first + 5 * i) % cells, others = (other_first + 7 * i) % cells;
    if (!may_use(self, own) || !may_use(other, others))
      continue;
    self.uses[own] = other.uses[others] = use::of_call;
    call.own.push_back(own);
    call.others.push_back(others);
  }
  transfer_call asked{call.direction,
                      address_of(1 - at),
                      {},
                      now_ + std::chrono::milliseconds(roll(8) == 0 ? roll(40) : 4000)};
  for (std::size_t i = 0; i < call.own.size(); ++i) {
    auto& source = call.direction == transfer_direction::write ? self.memory[call.own[i]]
                                                               : other.memory[call.others[i]];
    auto& destination = call.direction == transfer_direction::write ? other.memory[call.others[i]]
                                                                    : self.memory[call.own[i]];
    source.fill(call.value);
    asked.pieces.push_back({address_in(source), address_in(destination), cell_bytes});
  }
  const auto begun = self.machine->calls().begin(std::move(asked));
  if (begun) {
    call.id = *begun;
    self.calls.push_back(call);
    return;
  }
  end_call(at, call, call_state::failed);
}

void transfer_world::give_up_call(std::size_t at) {
  auto& self = workers_[at];
  if (!self.calls.empty())
    self.machine->calls().cancel(self.calls[roll(self.calls.size())].id, "given up");
}

void transfer_world::change_registration(std::size_t at) {
  auto& self = workers_[at];
  const auto index = roll(regions);
  const auto memory = region(self, index);
  auto& now = self.registered[index];
  if (now == registration::out) {
    now = registration::in;
    if (!self.machine->add_memory(memory))
      wrong("memory cannot be registered again");
  } else if (now == registration::in) {
    ++counts_.unregistered;
    for (auto& each : workers_[1 - at].calls)
      each.taken = true;
    now = registration::leaving;
    if (!self.machine->remove_memory(memory.address))
      wrong("memory that was registered is not known");
  }
}

// -- methods that play the network between the workers

void transfer_world::deliver(connection& over, std::size_t to) {
  auto& self = workers_[to];
  auto& queue = over.to[to];
  if (over.cut && (queue.empty() || roll(2) == 0)) {
    if (!over.told[to])
      lose(over, to, "cut");
    return;
  }
  if (over.told[to] || (over.mute && to == over.dialer))
    return;
  if (!std::exchange(over.joined[to], true))
    return self.machine->joined(over.name[to]);
  if (queue.empty())
    return;
  const auto bytes = queue.front();
  queue.pop_front();
  const auto read = decode(bytes);
  if (!read || !self.machine->said(over.name[to], *read, now_))
    wrong("a worker says what no worker says");
}

void transfer_world::send(std::size_t at, const outgoing& message) {
  for (auto& over : connections_)
    if (over->name[at] == message.to) {
      if (!over->told[at])
        over->to[1 - at].push_back(encode(message.what));
      return;
    }
  wrong("a message goes to nobody");
}

void transfer_world::lose(connection& over, std::size_t at, const std::string& why) {
  over.cut = over.told[at] = true;
  over.to[at].clear();
  for (auto& each : workers_[at].calls)
    each.lost = true;
  workers_[at].machine->lost(over.name[at], why);
}

void transfer_world::drop_silent(std::size_t at) {
  for (const auto peer : workers_[at].machine->calls().take_silent())
    for (auto& over : connections_)
      if (over->name[at] == peer) {
        ++counts_.dropped;
        lose(*over, at, "it does not answer");
      }
}

// -- methods that play the data planes of the workers

void transfer_world::move_read(std::size_t at, running_read& read) {
  auto& self = workers_[at];
  auto& source = workers_[1 - at];
  auto& order = read.order;
  const bool go_on = !read.cancelled || roll(3) != 0;
  if (read.copied < order.pieces.size() && go_on) {
    const auto& piece = order.pieces[read.copied++];
    const auto& part = order.parts[piece.first_part];
    std::memcpy(part.data, reinterpret_cast<const void*>(piece.source.address), part.bytes);
    return;
  }
  const bool whole = read.copied == order.pieces.size();
  const bool good = whole && source.leases->stands(order.under);
  const auto id = order.id;
  self.reads.erase(self.reads.begin() + (&read - self.reads.data()));
  self.machine->finish_read(id, good, "stale");
}

// -- methods that run a worker after an event

void transfer_world::run(std::size_t at) {
  auto& self = workers_[at];
  auto& machine = *self.machine;
  for (const auto& address : machine.calls().take_dials()) {
    if (roll(20) == 0) {
      machine.calls().unreachable(address, "nobody listens");
      continue;
    }
    auto over = std::make_unique<connection>();
    over->dialer = at;
    over->name = {peer_id{next_peer_}, peer_id{next_peer_ + 1}};
    next_peer_ += 2;
    machine.calls().dialed(address, over->name[at]);
    connections_.push_back(std::move(over));
  }
  machine.turn(now_);
  drop_silent(at);
  for (const auto& message : machine.take_messages())
    send(at, message);
  for (const auto id : machine.take_cancels())
    for (auto& read : self.reads)
      read.cancelled |= read.order.turn == id;
  while (auto order = machine.next_read())
    self.reads.push_back({std::move(*order), 0, false});
  take_ended(at);
}

void transfer_world::take_ended(std::size_t at) {
  auto& self = workers_[at];
  for (std::size_t i = 0; i < self.calls.size();) {
    const auto call = self.calls[i];
    const auto state = self.machine->calls().state(call.id);
    if (state == call_state::open) {
      ++i;
      continue;
    }
    self.machine->calls().forget(call.id);
    self.calls.erase(self.calls.begin() + static_cast<std::ptrdiff_t>(i));
    counts_.done += state == call_state::done ? 1 : 0;
    counts_.failed += state == call_state::failed ? 1 : 0;
    counts_.timed_out += state == call_state::timed_out ? 1 : 0;
    end_call(at, call, state);
  }
}

/// Compares the bytes that have arrived for the call, and gives all its cells back at once.
void transfer_world::end_call(std::size_t at, const running_call& call, call_state state) {
  auto& self = workers_[at];
  auto& other = workers_[1 - at];
  const bool writes = call.direction == transfer_direction::write;
  for (std::size_t i = 0; i < call.own.size(); ++i) {
    const auto& destination = writes ? other.memory[call.others[i]] : self.memory[call.own[i]];
    // If the peer unregistered memory of this call (`taken`), the memory may have the peer's other
    // bytes as a whole, but never a mixture.
    const bool right =
        has_only(destination, call.value) || (call.taken && has_only(destination, reused));
    if (state == call_state::done && !right)
      wrong("a call is done, and its bytes are not there");
    take_back(at, call.own[i], false);
    // If the connection of a write was cut, this side cannot know whether the peer still reads into
    // its memory.
    take_back(1 - at, call.others[i], call.lost && writes);
  }
}

void transfer_world::take_back(std::size_t at, std::size_t index, bool in_doubt) {
  auto& self = workers_[at];
  self.uses[index] = in_doubt ? use::in_doubt : use::free;
  self.memory[index].fill(reused);
}

/// Whether both workers know of every cut. While one does not, a request may still wait on a cut
/// connection.
bool transfer_world::all_cuts_are_told() const {
  return std::all_of(connections_.begin(), connections_.end(), [](const auto& over) {
    return !over->cut || (over->told[0] && over->told[1]);
  });
}

/// Checks that nothing has arrived in cells that nobody uses.
void transfer_world::check_given_back(std::size_t at) {
  auto& self = workers_[at];
  for (std::size_t i = 0; i < cells; ++i) {
    auto& each = self.memory[i];
    if (self.uses[i] == use::in_doubt && all_cuts_are_told() &&
        !self.machine->writes_to({address_in(each), cell_bytes}))
      take_back(at, i, false);
    if (self.uses[i] == use::free && !has_only(each, reused))
      wrong("bytes have arrived in memory that was given back");
  }
  check_unregistered(at);
}

/// Fills unregistered memory with other bytes as soon as no read writes to it, and checks that the
/// memory keeps them.
void transfer_world::check_unregistered(std::size_t at) {
  auto& self = workers_[at];
  constexpr auto count = cells / regions;
  for (std::size_t i = 0; i < regions; ++i) {
    auto& now = self.registered[i];
    const auto begin = self.memory.begin() + static_cast<std::ptrdiff_t>(i * count);
    if (now == registration::leaving && !self.machine->writes_to(region(self, i))) {
      now = registration::out;
      std::for_each(begin, begin + count, [](auto& each) { each.fill(reused); });
    }
    if (now == registration::out &&
        !std::all_of(begin, begin + count, [](const auto& each) { return has_only(each, reused); }))
      wrong("bytes have arrived in memory that is not registered");
  }
}

void transfer_world::finish() {
  finishing_ = true;
  const auto at_rest = [&] {
    return std::all_of(workers_.begin(), workers_.end(), [](const auto& each) {
      return each.calls.empty() && each.machine->is_quiet() && each.machine->requests() == 0;
    });
  };
  for (int i = 0; i < 100'000 && !at_rest(); ++i)
    step();
  if (!at_rest())
    wrong("something does not end");
  for (auto& each : workers_)
    if (each.leases->taken() != 0 || !each.reads.empty())
      wrong("leases or reads are left");
}

} // namespace peercache::handoff::transfers_test
