#include "client/handoff/decode_worker_impl.hpp"

#include "client/handoff/worker_reader.hpp"
#include "common/log.hpp"

namespace peercache::client {

using handoff::room_id;
using handoff::room_state;
using handoff::worker_address;

namespace {

error closed_decode_worker() {
  return {errc::closed, "a worker is closed in a forked child"};
}

} // namespace

decode_worker::decode_worker(std::unique_ptr<impl> made) : impl_(std::move(made)) {}

decode_worker::~decode_worker() {
  if (impl_->home.is_here())
    impl_->close();
  else [[maybe_unused]]
    auto* const parents = impl_.release();
}

result<std::unique_ptr<decode_worker>> decode_worker::start(const worker_options& options,
                                                            handoff::kv_layout layout) {
  if (auto possible = handoff::check(layout); !possible)
    return possible.error();
  auto tls = worker_tls::open(options.tls);
  if (!tls)
    return tls.error();
  auto plane = reader_of(options, tls->context());
  if (!plane)
    return plane.error();
  handoff::hello self;
  self.side = handoff::engine_side::decode;
  self.process = incarnation::random();
  self.node = node_id_of(options.name);
  self.cluster = options.cluster;
  // Decode connects to prefill, and no other worker has to reach this one: it listens on loopback
  // only.
  handoff::link_options on_loopback;
  on_loopback.tls = tls->context();
  on_loopback.handshakes = tls->handshakes();
  auto links = handoff::worker_links::listen(std::move(on_loopback), self);
  if (!links)
    return links.error();
  auto made = std::make_unique<impl>(options, std::move(*tls), std::move(*plane), std::move(*links),
                                     std::move(layout));
  if (auto begun = made->spawn(); !begun)
    return begun.error();
  std::unique_ptr<decode_worker> worker{new decode_worker(std::move(made))};
  if (auto lent = worker->impl_->lend_memory(true); !lent)
    return lent.error();
  log::info("handoff: decode worker {} has begun; {}", to_string(self.process),
            worker->data_plane());
  return worker;
}

const std::string& decode_worker::data_plane() const noexcept {
  return impl_->plane->choice();
}

result<room_watch> decode_worker::open(room_id room) {
  if (!impl_->home.is_here())
    return closed_decode_worker();
  return impl_->call([&]() -> result<room_watch> {
    if (!impl_->lent)
      return {errc::refused, "the worker's memory is given back"};
    if (auto opened = impl_->rooms.open(room); !opened)
      return opened.error();
    impl_->counted.opened();
    return impl_->watches.add(room);
  });
}

result<void> decode_worker::connect(room_id room, std::vector<worker_address> sources) {
  if (!impl_->home.is_here())
    return closed_decode_worker();
  return impl_->call([&]() -> result<void> {
    if (impl_->rooms.poll(room) != room_state::bootstrapping || impl_->peers.is_waiting(room) ||
        !impl_->to_dial.try_emplace(room, std::move(sources)).second)
      return {errc::invalid_argument,
              "room " + std::to_string(room.value) + " is not open, or is connected already"};
    return {};
  });
}

result<void> decode_worker::allocate(room_id room, handoff::allocated_pages pages) {
  if (!impl_->home.is_here())
    return closed_decode_worker();
  return impl_->call([&] { return impl_->rooms.allocate(room, std::move(pages)); });
}

void decode_worker::abort(room_id room, std::string reason, handoff::failure_kind kind) {
  if (!impl_->home.is_here())
    return;
  impl_->call([&] {
    impl_->to_dial.erase(room);
    impl_->peers.forget(room);
    impl_->rooms.abort(room, std::move(reason), kind);
    return true;
  });
}

std::optional<handoff::room_failure> decode_worker::end(room_id room, std::string reason,
                                                        handoff::failure_kind kind) {
  if (!impl_->home.is_here())
    return handoff::room_failure{closed_decode_worker().message};
  abort(room, std::move(reason), kind);
  impl_->wait_until_quiet(room);
  return impl_->call([&] { return impl_->rooms.failure(room); });
}

void decode_worker::clear(room_id room) {
  if (!impl_->home.is_here())
    return;
  abort(room, "decode has given the room up");
  impl_->wait_until_quiet(room);
  impl_->call([&] {
    impl_->rooms.clear(room);
    impl_->watches.end(room);
    return true;
  });
}

void decode_worker::give_memory_back() {
  if (impl_->home.is_here())
    impl_->give_memory_back();
}

result<void> decode_worker::lend_memory() {
  if (!impl_->home.is_here())
    return closed_decode_worker();
  return impl_->lend_memory(false);
}

std::vector<lost_worker> decode_worker::take_lost() {
  std::vector<lost_worker> all;
  if (!impl_->home.is_here())
    return all;
  std::lock_guard guard{impl_->lock};
  for (auto& [address, reason] : std::exchange(impl_->lost, {}))
    all.push_back({address, reason});
  return all;
}

decode_stats decode_worker::stats() const {
  if (!impl_->home.is_here())
    return {};
  std::lock_guard guard{impl_->lock};
  const auto& counted = impl_->counted;
  decode_stats now;
  now.opened = counted.rooms_opened();
  now.succeeded = counted.rooms_succeeded();
  now.failed = counted.rooms_failed();
  now.reads = counted.reads();
  now.refused = counted.reads(handoff::read_end::refused);
  now.bytes = counted.bytes();
  now.turns = impl_->rooms.turns();
  now.peers = impl_->peers.size();
  return now;
}

} // namespace peercache::client
