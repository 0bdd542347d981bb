#include "client/handoff/prefill_worker.hpp"

#include "client/handoff/hand_over_counts.hpp"
#include "client/handoff/links_loop.hpp"
#include "client/handoff/memory_server.hpp"
#include "client/handoff/node_reporter.hpp"
#include "common/forks.hpp"
#include "common/log.hpp"
#include "handoff/distinct_memory.hpp"
#include "handoff/lease_table.hpp"
#include "handoff/links/worker_links.hpp"
#include "link/thread_actors.hpp"

#include <mutex>
#include <set>

namespace peercache::client {

using handoff::link_event;
using handoff::peer_id;
using handoff::room_state;
using handoff::send_id;
using std::chrono::steady_clock;

namespace {

error closed_worker() {
  return {errc::closed, "a worker is closed in a forked child"};
}

} // namespace

class prefill_worker::impl {
public:
  impl(worker_tls let_in, std::unique_ptr<memory_server> server,
       std::unique_ptr<handoff::worker_links> connections, handoff::kv_layout own,
       const incarnation& process, std::shared_ptr<net::tls_context> tls)
      : among_workers(std::move(let_in)), layout(std::move(own)),
        memory(handoff::distinct_memory(layout)), served(std::move(server)),
        links(std::move(connections)), leases(served->leases(), process), rooms(leases, {}),
        threads(std::move(tls)) {}

  void spawn(const worker_options& options) {
    for (auto& body : among_workers.bodies())
      threads.spawn(std::move(body));
    for (auto& body : served->bodies())
      threads.spawn(std::move(body));
    threads.spawn([this] {
      run_links(*links, stop, &links_lock,
                [this](const auto& events, auto now) { return turn(events, now); });
    });
    reporter = report_to_node(threads, options, "prefill", [this](const std::string& name) {
      std::lock_guard guard{lock};
      return counted.samples("prefill", name, rooms.states(), peers.size());
    });
  }

  void close() {
    give_memory_back();
    reporter.reset();
    stop.store(true, std::memory_order_release);
    links->wake();
    served->stop();
    among_workers.stop();
    threads.join();
    links->close();
  }

  /// Runs an engine's call on the rooms; a room or lease that the call ends has ended when this
  /// returns. This thread sends the messages that follow if the loop sleeps, because to wake the
  /// loop would take longer; else the loop sends them.
  template <class Call>
  auto call(Call&& of_engine) {
    std::unique_lock sending{links_lock, std::try_to_lock};
    std::unique_lock guard{lock};
    auto answer = of_engine(rooms);
    publish();
    if (!sending) {
      links->wake();
      return answer;
    }
    const auto messages = rooms.take_messages();
    guard.unlock();
    send_at_once(messages);
    return answer;
  }

  /// Sends messages, and wakes the loop if some are left to send. @pre the caller holds
  /// `links_lock`, and has held it since before the messages were taken
  void send_at_once(const std::vector<handoff::sender_rooms::outgoing>& messages) {
    bool left = false;
    for (const auto& each : messages)
      left = links->send_at_once(each.to, each.what, steady_clock::now()) || left;
    if (left)
      links->wake();
  }

  void give_memory_back() {
    std::lock_guard moving{memory_lock};
    {
      std::lock_guard guard{lock};
      lent = false;
      rooms.abort_all("prefill gives its memory back");
      publish();
    }
    links->wake();
    if (std::exchange(registered, false))
      served->remove(memory);
  }

  /// @param starting whether an interruption of this thread ends the call between two buffers,
  /// which is right while nobody else has the worker
  result<void> lend_memory(bool starting) {
    std::lock_guard moving{memory_lock};
    if (!registered)
      if (auto added = served->add(memory, starting); !added)
        return added;
    registered = true;
    std::lock_guard guard{lock};
    lent = true;
    return {};
  }

  /// Shows the changed states of rooms to the engine's threads, and counts rooms that have ended.
  /// @pre the caller holds `lock`
  void publish() {
    for (const auto id : rooms.take_changes()) {
      const auto state = rooms.poll(id);
      if (!watches.set(id, state))
        continue;
      if (state == room_state::success)
        counted.succeeded(rooms.metric(id).bytes);
      else if (const auto why = rooms.failure(id))
        counted.failed(*why, unix_seconds());
    }
  }

  const home_process home;
  const worker_tls among_workers; ///< Used by `served` and `links`.
  const handoff::kv_layout layout;
  const std::vector<std::span<std::byte>> memory;
  const std::unique_ptr<memory_server> served;
  const std::unique_ptr<handoff::worker_links> links; ///< Guarded by `links_lock`, except `wake`.
  /// Guards `links`. The loop holds it while it is not asleep, so that messages of the loop and of
  /// engines' calls stay in order; taken before `lock`.
  std::mutex links_lock;

  /// Guards the members from `leases` to `lent`. Engines' calls change rooms themselves instead of
  /// asking the loop, so that a room or lease that a call ends has ended when the call returns.
  mutable std::mutex lock;
  handoff::lease_table leases;
  handoff::sender_rooms rooms;
  room_watches<send_id> watches;
  std::set<peer_id> peers; ///< Decode workers that have said hello.
  hand_over_counts counted;
  bool lent = false; ///< The memory is lent, so that rooms may be opened.

private:
  bool turn(const std::vector<link_event>& events, steady_clock::time_point now) {
    std::vector<handoff::sender_rooms::outgoing> messages;
    const bool moved = !events.empty();
    {
      std::lock_guard guard{lock};
      for (const auto& event : events)
        std::visit([&](const auto& what) { take(what, now); }, event);
      messages = rooms.take_messages();
      if (moved)
        publish();
    }
    for (const auto& each : messages)
      links->send(each.to, each.what, now);
    return moved || !messages.empty();
  }

  void take(const handoff::peer_joined& event, steady_clock::time_point now) {
    peers.insert(event.peer);
    rooms.connected(event.peer, event.who.process);
    links->send(event.peer, layout, now);
  }

  void take(const handoff::peer_said& event, steady_clock::time_point now) {
    if (!peers.contains(event.peer))
      return; // The peer was refused for an earlier message.
    if (const auto* joined = std::get_if<handoff::join>(&event.what))
      rooms.joined(event.peer, *joined);
    else if (const auto* done = std::get_if<handoff::done>(&event.what))
      rooms.finished(event.peer, *done);
    else if (const auto* aborted = std::get_if<handoff::abort>(&event.what))
      rooms.aborted(event.peer, *aborted);
    else
      refuse(event.peer, now);
  }

  void take(const handoff::peer_lost& event, steady_clock::time_point) {
    if (peers.erase(event.peer) == 0)
      return;
    log::info("handoff: a decode worker is lost: {}", event.detail);
    rooms.lost(event.peer);
  }

  void refuse(peer_id peer, steady_clock::time_point now) {
    log::warn("handoff: a decode worker says what no decode worker says; its connection ends");
    links->refuse(peer, "a decode worker does not say this to prefill", now);
    peers.erase(peer);
    rooms.lost(peer);
  }

  std::mutex memory_lock;  ///< Held while memory is registered, which may take seconds.
  bool registered = false; ///< The memory is registered with the devices; guarded by `memory_lock`.
  std::atomic<bool> stop{false};
  /// Ends before the members above, which its threads use.
  link::thread_actors threads;
  /// Reports counts to the node of this host; null: the worker reports to nobody.
  std::unique_ptr<node_reporter> reporter;
};

prefill_worker::prefill_worker(std::unique_ptr<impl> made) : impl_(std::move(made)) {}

prefill_worker::~prefill_worker() {
  if (impl_->home.is_here())
    impl_->close();
  else [[maybe_unused]]
    auto* const parents = impl_.release();
}

result<std::unique_ptr<prefill_worker>> prefill_worker::start(const worker_options& options,
                                                              handoff::kv_layout layout) {
  if (auto possible = handoff::check(layout); !possible)
    return possible.error();
  const auto process = incarnation::random();
  auto tls = worker_tls::open(options.tls);
  if (!tls)
    return tls.error();
  auto served = memory_server::listen(options, process, *tls);
  if (!served)
    return served.error();
  handoff::hello self;
  self.side = handoff::engine_side::prefill;
  self.process = process;
  self.node = node_id_of(options.name);
  self.data_port = (*served)->port();
  self.rails = (*served)->rails();
  self.cluster = options.cluster;
  auto links = handoff::worker_links::listen(tls->links_at(options), self);
  if (!links)
    return links.error();
  auto made = std::make_unique<impl>(std::move(*tls), std::move(*served), std::move(*links),
                                     std::move(layout), process, options.tls);
  made->spawn(options);
  std::unique_ptr<prefill_worker> worker{new prefill_worker(std::move(made))};
  if (auto lent = worker->impl_->lend_memory(true); !lent)
    return lent.error();
  log::info("handoff: prefill worker {} listens on {}:{}; {}", to_string(process), options.host,
            worker->port(), worker->data_plane());
  return worker;
}

std::uint16_t prefill_worker::port() const noexcept {
  return impl_->links->port();
}

const std::string& prefill_worker::data_plane() const noexcept {
  return impl_->served->choice();
}

result<prefill_room> prefill_worker::open(handoff::room_id room,
                                          std::optional<std::uint32_t> required) {
  if (!impl_->home.is_here())
    return closed_worker();
  return impl_->call([&](handoff::sender_rooms& rooms) -> result<prefill_room> {
    if (!impl_->lent)
      return {errc::refused, "the worker's memory is given back"};
    const auto id = rooms.open(room, required);
    if (!id)
      return id.error();
    impl_->counted.opened();
    return prefill_room{*id, impl_->watches.add(*id)};
  });
}

std::optional<std::uint32_t> prefill_worker::prefix_pages(send_id id) const {
  if (!impl_->home.is_here())
    return std::nullopt;
  std::lock_guard guard{impl_->lock};
  return impl_->rooms.prefix_pages(id);
}

result<void> prefill_worker::init(send_id id, std::uint32_t pages) {
  if (!impl_->home.is_here())
    return closed_worker();
  return impl_->call([&](handoff::sender_rooms& rooms) { return rooms.init(id, pages); });
}

result<void> prefill_worker::send(send_id id, std::span<const std::uint32_t> pages, bool last,
                                  std::vector<handoff::state_items> states, std::uint32_t aux_row) {
  if (!impl_->home.is_here())
    return closed_worker();
  return impl_->call([&](handoff::sender_rooms& rooms) {
    return rooms.send(id, pages, last, std::move(states), aux_row);
  });
}

void prefill_worker::abort(send_id id, std::string reason, handoff::failure_kind kind) {
  if (!impl_->home.is_here())
    return;
  impl_->call([&](handoff::sender_rooms& rooms) {
    rooms.abort(id, std::move(reason), kind);
    return true;
  });
}

void prefill_worker::clear(send_id id) {
  if (!impl_->home.is_here())
    return;
  abort(id, "prefill has given the room up");
  impl_->call([&](handoff::sender_rooms& rooms) {
    rooms.clear(id);
    impl_->watches.end(id);
    return true;
  });
}

std::optional<handoff::room_failure> prefill_worker::failure(send_id id) const {
  if (!impl_->home.is_here())
    return handoff::room_failure{closed_worker().message};
  std::lock_guard guard{impl_->lock};
  return impl_->rooms.failure(id);
}

handoff::transfer_metric prefill_worker::metric(send_id id) const {
  if (!impl_->home.is_here())
    return {};
  std::lock_guard guard{impl_->lock};
  return impl_->rooms.metric(id);
}

void prefill_worker::give_memory_back() {
  if (impl_->home.is_here())
    impl_->give_memory_back();
}

result<void> prefill_worker::lend_memory() {
  if (!impl_->home.is_here())
    return closed_worker();
  return impl_->lend_memory(false);
}

prefill_stats prefill_worker::stats() const {
  if (!impl_->home.is_here())
    return {};
  std::lock_guard guard{impl_->lock};
  const auto& counted = impl_->counted;
  prefill_stats now;
  now.opened = counted.rooms_opened();
  now.succeeded = counted.rooms_succeeded();
  now.failed = counted.rooms_failed();
  now.bytes = counted.bytes();
  now.rooms = impl_->rooms.rooms();
  now.peers = impl_->peers.size();
  return now;
}

} // namespace peercache::client
