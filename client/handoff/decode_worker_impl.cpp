#include "client/handoff/decode_worker_impl.hpp"

#include "client/handoff/links_loop.hpp"
#include "common/assert.hpp"
#include "common/interruption.hpp"
#include "common/log.hpp"

namespace peercache::client {

using handoff::peer_id;
using handoff::room_id;
using handoff::room_state;
using handoff::worker_address;

namespace {

handoff::receiver_rooms::options rooms_of(const worker_options& options) {
  handoff::receiver_rooms::options rooms;
  rooms.wire_bytes_max = options.wire_bytes_max;
  return rooms;
}

std::string at(const worker_address& address) {
  return "the prefill worker at " + address.host + ":" + std::to_string(address.port);
}

} // namespace

// -- begin and end of the worker

decode_worker::impl::impl(worker_options opts, worker_tls let_in,
                          std::unique_ptr<read_plane> reader,
                          std::unique_ptr<handoff::worker_links> connections,
                          handoff::kv_layout own)
    : options(std::move(opts)), among_workers(std::move(let_in)),
      memory(handoff::distinct_memory(own)), plane(std::move(reader)),
      links(std::move(connections)), rooms(rooms_of(options), handoff::join_id{1}),
      peers(std::move(own)), tcp(plane->take_tcp_plane()),
      reads(plane->lanes(), [this] { note_progress(); }) {}

result<void> decode_worker::impl::spawn() {
  // Without the descriptor the loop would notice bytes that have come over TCP only when its sleep
  // ends by time.
  if (tcp != nullptr && !links->also_wait_for(tcp->descriptor()))
    return {errc::io_failed, "the kernel does not let a decode worker wait for what it reads"};
  for (std::size_t lane = 0; lane < plane->lanes().size(); ++lane)
    if (plane->lanes()[lane]->how == rdma::read_lane::kind::rail)
      threads.spawn([this, lane] { plane->run(lane); });
  for (auto& body : among_workers.bodies())
    threads.spawn(std::move(body));
  threads.spawn([this] { run_loop(); });
  reporter = report_to_node(threads, options, "decode", [this](const std::string& name) {
    std::lock_guard guard{lock};
    return counted.samples("decode", name, rooms.states(), peers.size());
  });
  return {};
}

void decode_worker::impl::run_loop() {
  looper = std::this_thread::get_id();
  run_links(*links, stop, nullptr,
            [this](const std::vector<handoff::link_event>& events, time_point now) {
              const bool moved = turn(events, now);
              return tcp != nullptr && tcp->poll(now) ? true : moved;
            });
  if (tcp != nullptr)
    tcp->shutdown();
}

/// Notes that a read has progressed, and wakes the loop if a rail's thread calls this. The loop
/// itself, when it polls or cancels, is awake and takes another turn.
void decode_worker::impl::note_progress() noexcept {
  progress.store(true, std::memory_order_release);
  if (std::this_thread::get_id() != looper)
    links->wake();
}

void decode_worker::impl::close() {
  give_memory_back();
  reporter.reset();
  stop.store(true, std::memory_order_release);
  links->wake();
  plane->stop(); // No read is under way, and no room is left that could order one.
  among_workers.stop();
  threads.join();
  links->close();
}

void decode_worker::impl::give_memory_back() {
  std::lock_guard moving{memory_lock};
  {
    std::unique_lock guard{lock};
    lent = false;
    rooms.abort_all("decode gives its memory back");
    publish();
    links->wake();
    quiet.wait(guard, [this] { return rooms.wire_bytes() == 0; });
  }
  if (std::exchange(registered, false))
    for (const auto& each : memory)
      plane->unregister_buffer(each.data());
}

result<void> decode_worker::impl::lend_memory(bool starting) {
  std::lock_guard moving{memory_lock};
  for (std::size_t i = 0; !registered && i < memory.size(); ++i) {
    auto added = starting && interruption::look() ? result<void>(interrupted_start())
                                                  : plane->register_buffer(memory[i]);
    if (added)
      continue;
    while (i-- > 0)
      plane->unregister_buffer(memory[i].data());
    return added;
  }
  registered = true;
  std::lock_guard guard{lock};
  lent = true;
  return {};
}

void decode_worker::impl::wait_until_quiet(room_id room) {
  std::unique_lock guard{lock};
  const auto is_quiet = [this, room] { return rooms.is_quiet(room); };
  // Handlers of signals run during the wait but do not end it: the pages are the room's until its
  // reads have ended.
  if (!wait_interruptibly(guard, quiet, time_point::max(), is_quiet))
    quiet.wait(guard, is_quiet);
}

// -- the turn of the worker's loop

bool decode_worker::impl::turn(const std::vector<handoff::link_event>& events, time_point now) {
  std::vector<room_reads::finished> ended;
  if (progress.exchange(false, std::memory_order_acq_rel))
    ended = reads.take_finished();
  std::vector<handoff::receiver_rooms::action> actions;
  {
    std::lock_guard guard{lock};
    for (const auto& event : events)
      std::visit([&](const auto& what) { take(what, now); }, event);
    for (const auto& each : ended)
      finish(each, now);
    dial(now);
    connect_rooms();
    actions = rooms.take_actions();
    publish();
  }
  if (!ended.empty())
    quiet.notify_all();
  for (auto& each : actions)
    std::visit([&](const auto& what) { carry_out(what, now); }, each);
  const bool begun = begin_reads(now);
  return begun || !events.empty() || !ended.empty() || !actions.empty();
}

// -- events; the caller holds `lock`

void decode_worker::impl::take(const handoff::peer_joined& event, time_point now) {
  if (peers.has(event.peer))
    peers.joined(event.peer, event.who);
  else
    links->refuse(event.peer, "this worker connects to prefill workers, and not they to it", now);
}

void decode_worker::impl::take(const handoff::peer_said& event, time_point now) {
  if (!peers.has(event.peer))
    return; // The peer was refused for an earlier message.
  if (const auto* offered = std::get_if<handoff::offer>(&event.what))
    rooms.offered(event.peer, *offered, now);
  else if (const auto* aborted = std::get_if<handoff::abort>(&event.what))
    rooms.aborted(event.peer, *aborted);
  else if (const auto* layout = std::get_if<handoff::kv_layout>(&event.what);
           layout == nullptr || !peers.described(event.peer, *layout))
    refuse(event.peer, now);
}

void decode_worker::impl::take(const handoff::peer_lost& event, time_point) {
  lose(event.peer, std::string(to_string(event.reason)) + ": " + event.detail);
}

void decode_worker::impl::refuse(peer_id peer, time_point now) {
  const std::string why = "a prefill worker does not say this to decode";
  links->refuse(peer, why, now);
  lose(peer, why);
}

void decode_worker::impl::lose(peer_id peer, const std::string& why) {
  const auto found = addresses.find(peer);
  if (found == addresses.end())
    return;
  const auto reason = at(found->second) + " is lost: " + why;
  log::warn("handoff: {}", reason);
  lost[found->second] = reason;
  addresses.erase(found);
  peers.lost(peer, reason);
  rooms.lost(peer);
}

void decode_worker::impl::finish(const room_reads::finished& read, time_point now) {
  counted.read(read.end);
  rooms.finish_read(read.id, read.end, read.reason, now);
}

// -- connections to prefill workers; the caller holds `lock`

/// Connects to the prefill workers of the rooms in `to_dial`.
void decode_worker::impl::dial(time_point now) {
  for (const auto& [room, sources] : std::exchange(to_dial, {}))
    dial_for(room, sources, now);
}

void decode_worker::impl::dial_for(room_id room, const std::vector<worker_address>& sources,
                                   time_point now) {
  std::vector<peer_id> dialed;
  for (const auto& address : sources) {
    const auto peer = links->connect(address, std::nullopt, now);
    if (!peer) {
      lost[address] = at(address) + " cannot be reached: " + peer.error().message;
      return rooms.abort(room, lost[address], handoff::failure_kind::peer_lost);
    }
    peers.dialed(*peer);
    addresses.emplace(*peer, address);
    dialed.push_back(*peer);
  }
  peers.wait(room, std::move(dialed));
}

void decode_worker::impl::connect_rooms() {
  for (auto& [room, sources] : peers.take_ready())
    if (auto connected = rooms.connect(room, std::move(sources)); !connected)
      rooms.abort(room, connected.error().message, handoff::failure_kind::misfit);
  for (const auto& [room, why] : peers.take_failed())
    rooms.abort(room, why.reason, why.kind);
}

// -- messages and reads of the rooms; without `lock`

void decode_worker::impl::carry_out(const handoff::receiver_rooms::outgoing& message,
                                    time_point now) {
  links->send(message.to, message.what, now);
}

void decode_worker::impl::carry_out(const handoff::receiver_rooms::cancel_reads& wanted,
                                    time_point) {
  reads.cancel(wanted.turn);
}

bool decode_worker::impl::begin_reads(time_point now) {
  bool begun = false;
  while (true) {
    std::optional<handoff::read_order> order;
    rdma::peer_endpoint from;
    {
      // `lock` is released between reads, because planning one takes up to a few milliseconds: an
      // engine's call may come in between.
      std::lock_guard guard{lock};
      order = rooms.next_read();
      if (!order)
        return begun;
      from = endpoint_of(order->from);
    }
    begun = true;
    reads.start(std::move(*order), from, now + options.read_timeout);
  }
}

rdma::peer_endpoint decode_worker::impl::endpoint_of(peer_id peer) const {
  const auto* who = peers.who(peer);
  PEERCACHE_ASSERT(who != nullptr); // Rooms of a lost worker order no reads.
  rdma::peer_endpoint endpoint;
  endpoint.node = who->node;
  endpoint.inc = who->process;
  endpoint.host = addresses.at(peer).host;
  endpoint.port = who->data_port;
  endpoint.cluster = options.cluster;
  endpoint.rails = who->rails;
  endpoint.service = rdma::data_service::handoff;
  return endpoint;
}

/// Shows the changed states of rooms to the engine's threads, and counts rooms that have ended.
/// @pre the caller holds `lock`
void decode_worker::impl::publish() {
  for (const auto room : rooms.take_changes()) {
    const auto state = rooms.poll(room);
    if (!watches.set(room, state))
      continue;
    if (const auto done = rooms.metric(room)) {
      counted.succeeded(done->bytes);
      counted.took(std::chrono::microseconds(done->microseconds));
    } else if (const auto why = rooms.failure(room)) {
      counted.failed(*why, unix_seconds());
    }
  }
}

} // namespace peercache::client
