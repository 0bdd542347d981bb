#include "client/handoff/transfer_worker_impl.hpp"

#include "client/handoff/links_loop.hpp"
#include "common/interruption.hpp"
#include "common/log.hpp"

#include <algorithm>

namespace peercache::client {

using handoff::call_state;
using handoff::memory_range;
using handoff::peer_id;

namespace {

handoff::transfers::options machine_of(const worker_options& options) {
  handoff::transfers::options machine;
  machine.reads.wire_bytes_max = options.wire_bytes_max;
  machine.calls.answer_max = options.answer_timeout;
  return machine;
}

std::string worker_at(const handoff::worker_address& address) {
  return "the transfer engine at " + address.host + " port " + std::to_string(address.port);
}

std::span<std::byte> bytes_of(const memory_range& memory) {
  // NOLINTNEXTLINE(performance-no-int-to-ptr): engines tell their addresses as numbers.
  return {reinterpret_cast<std::byte*>(memory.address), memory.bytes};
}

} // namespace

// -- begin and end of the worker

transfer_worker::impl::impl(worker_options opts, worker_tls let_in,
                            std::unique_ptr<memory_server> server,
                            std::unique_ptr<read_plane> reader,
                            std::unique_ptr<handoff::worker_links> connections,
                            const incarnation& process)
    : options(std::move(opts)), among_workers(std::move(let_in)), served(std::move(server)),
      plane(std::move(reader)), links(std::move(connections)), leases(served->leases(), process),
      machine(leases, machine_of(options)), reads(plane->lanes(), [this] {
        progress.store(true, std::memory_order_release);
        links->wake();
      }) {}

void transfer_worker::impl::spawn() {
  for (auto& body : among_workers.bodies())
    threads.spawn(std::move(body));
  for (auto& body : served->bodies())
    threads.spawn(std::move(body));
  for (std::size_t lane = 0; lane < plane->lanes().size(); ++lane)
    threads.spawn([this, lane] { plane->run(lane); });
  threads.spawn([this] {
    run_links(*links, stop, nullptr,
              [this](const std::vector<handoff::link_event>& events, time_point now) {
                return turn(events, now);
              });
  });
}

void transfer_worker::impl::shut() {
  std::lock_guard guard{lock};
  closed = true;
  machine.cancel_all("the transfer engine is closed");
  links->wake();
}

void transfer_worker::impl::end() {
  shut();
  std::lock_guard moving{memory_lock};
  {
    std::unique_lock guard{lock};
    for (const auto& [address, bytes] : registered)
      machine.remove_memory(address);
    links->wake();
    moved.wait(guard, [this] { return machine.is_quiet(); });
  }
  for (const auto& [address, bytes] : registered) {
    plane->unregister_buffer(bytes_of({address, bytes}).data());
    served->remove({bytes_of({address, bytes})});
  }
  stop.store(true, std::memory_order_release);
  links->wake();
  plane->stop();
  served->stop();
  among_workers.stop();
  threads.join();
  links->close();
}

// -- memory

result<void> transfer_worker::impl::add_to_devices(std::span<std::byte> memory) {
  if (auto added = plane->register_buffer(memory); !added)
    return added;
  auto added = served->add({memory});
  if (!added)
    plane->unregister_buffer(memory.data());
  return added;
}

result<void> transfer_worker::impl::register_memory(const memory_range& memory) {
  std::lock_guard moving{memory_lock};
  {
    std::lock_guard guard{lock};
    if (closed)
      return {errc::closed, "the transfer engine is closed"};
    if (!memory.possible())
      return {errc::invalid_argument, "there is nothing to register: the memory has no bytes"};
    if (machine.overlaps(memory))
      return {errc::refused, "this memory, or a part of it, is registered already"};
  }
  if (auto added = add_to_devices(bytes_of(memory)); !added)
    return added;
  registered.emplace(memory.address, memory.bytes);
  std::lock_guard guard{lock};
  return machine.add_memory(memory);
}

result<void> transfer_worker::impl::unregister_memory(std::uint64_t address) {
  std::lock_guard moving{memory_lock};
  std::optional<memory_range> removed;
  {
    std::unique_lock guard{lock};
    removed = machine.remove_memory(address);
    if (!removed)
      return {errc::not_found, "no registered memory begins at this address"};
    links->wake();
    moved.wait(guard, [&] { return !machine.writes_to(*removed); });
  }
  plane->unregister_buffer(bytes_of(*removed).data());
  served->remove({bytes_of(*removed)});
  registered.erase(address);
  return {};
}

transfer_outcome transfer_worker::impl::wait(handoff::call_id id) {
  std::unique_lock guard{lock};
  const auto ended = [&] { return machine.calls().state(id) != call_state::open; };
  if (!wait_interruptibly(guard, moved, time_point::max(), ended)) {
    machine.calls().cancel(id, "a signal's handler has ended the call");
    links->wake();
    moved.wait(guard, ended);
  }
  return take_outcome(id);
}

transfer_outcome transfer_worker::impl::take_outcome(handoff::call_id id) {
  auto& calls = machine.calls();
  if (!calls.knows(id))
    return {call_state::failed, "there is no such call, or its result was given before"};
  transfer_outcome outcome{calls.state(id), calls.failure(id)};
  if (outcome.state != call_state::open) {
    ++(outcome.state == call_state::done ? counted.done : counted.failed);
    calls.forget(id);
  }
  return outcome;
}

// -- the turn of the worker's loop

bool transfer_worker::impl::turn(const std::vector<handoff::link_event>& events, time_point now) {
  std::vector<room_reads::finished> finished;
  if (progress.exchange(false, std::memory_order_acq_rel))
    finished = reads.take_finished();
  std::vector<handoff::outgoing> messages;
  std::vector<handoff::join_id> cancels;
  bool ended = false;
  {
    std::lock_guard guard{lock};
    for (const auto& event : events)
      std::visit([&](const auto& what) { take(what, now); }, event);
    for (const auto& each : finished)
      finish(each);
    dial(now);
    machine.turn(now);
    for (const auto peer : machine.calls().take_silent())
      refuse(peer, "it does not say that it has stopped reading", now);
    messages = machine.take_messages();
    cancels = machine.take_cancels();
    ended = machine.calls().take_has_ended();
  }
  if (ended || !finished.empty())
    moved.notify_all();
  for (const auto& each : messages)
    links->send(each.to, each.what, now);
  for (const auto id : cancels)
    reads.cancel(id);
  const bool begun = begin_reads();
  return begun || ended || !events.empty() || !finished.empty() || !messages.empty();
}

// -- events; the caller holds `lock`

void transfer_worker::impl::take(const handoff::peer_joined& event, time_point now) {
  const auto dialed = addresses.find(event.peer);
  rdma::peer_endpoint endpoint;
  endpoint.node = event.who.node;
  endpoint.inc = event.who.process;
  endpoint.host = dialed == addresses.end() ? event.who.data_host : dialed->second.host;
  endpoint.port = event.who.data_port;
  endpoint.cluster = options.cluster;
  endpoint.rails = event.who.rails;
  endpoint.service = rdma::data_service::handoff;
  if (endpoint.host.empty() || endpoint.port == 0)
    return refuse(event.peer, "a transfer engine says where its memory is read", now);
  endpoints.emplace(event.peer, std::move(endpoint));
  machine.joined(event.peer);
}

void transfer_worker::impl::take(const handoff::peer_said& event, time_point now) {
  if (!endpoints.contains(event.peer))
    return; // The peer was refused for an earlier message.
  if (!machine.said(event.peer, event.what, now))
    refuse(event.peer, "a transfer engine does not say this", now);
}

void transfer_worker::impl::take(const handoff::peer_lost& event, time_point) {
  lose(event.peer, std::string(to_string(event.reason)) + ": " + event.detail);
}

void transfer_worker::impl::refuse(peer_id peer, const std::string& why, time_point now) {
  links->refuse(peer, why, now);
  lose(peer, "it was refused: " + why);
}

void transfer_worker::impl::lose(peer_id peer, const std::string& why) {
  const auto dialed = addresses.find(peer);
  const auto who =
      dialed == addresses.end() ? std::string("a transfer engine") : worker_at(dialed->second);
  if (endpoints.erase(peer) != 0)
    log::info("handoff: {} is lost: {}", who, why);
  machine.lost(peer, who + " is lost: " + why);
  if (dialed == addresses.end())
    return;
  names.forget(dialed->second.host);
  addresses.erase(dialed);
}

void transfer_worker::impl::finish(const room_reads::finished& read) {
  ++counted.reads;
  counted.bytes += read.end == handoff::read_end::good ? read.bytes : 0;
  machine.finish_read(read.id, read.end == handoff::read_end::good,
                      "a read has ended as '" + read.reason + "'");
}

void transfer_worker::impl::dial(time_point now) {
  for (const auto& address : machine.calls().take_dials()) {
    const auto peer = links->connect(address, std::nullopt, now);
    if (!peer) {
      names.forget(address.host);
      machine.calls().unreachable(address, worker_at(address) +
                                               " cannot be reached: " + peer.error().message);
      continue;
    }
    addresses.insert_or_assign(*peer, address);
    machine.calls().dialed(address, *peer);
  }
}

// -- reads; without `lock`

bool transfer_worker::impl::begin_reads() {
  bool begun = false;
  while (true) {
    std::optional<handoff::read_order> order;
    time_point deadline;
    {
      // `lock` is released between reads, because ordering one takes up to a millisecond: an
      // engine's call may come in between.
      std::lock_guard guard{lock};
      order = machine.next_read();
      if (!order)
        return begun;
      deadline = machine.deadline_of(order->turn);
    }
    begun = true;
    // A lost peer has no reads left to begin: the machine has cancelled them.
    const auto& from = endpoints.at(order->from);
    reads.start(std::move(*order), from, deadline);
  }
}

} // namespace peercache::client
