#include "python/handoff_workers.hpp"

#include "python/gate_calls.hpp"
#include "python/handoff_layout.hpp"
#include "python/raised_error.hpp"
#include "python/worker_start.hpp"

namespace peercache::python {
namespace {

using handoff::room_id;
using handoff::send_id;

error closed_worker() {
  return {errc::closed, "the worker is closed"};
}

template <class Worker>
std::shared_ptr<Worker> start(const worker_request& request, py::handle described) {
  auto layout = layout_of(described);
  return started_outside<Worker>([&]() -> result<std::unique_ptr<Worker>> {
    auto options = worker_options_of(request.options);
    if (!options)
      return options.error();
    options->host = request.host;
    options->name = request.name;
    return Worker::start(*options, std::move(layout));
  });
}

template <class Worker, class Work>
void run(loan_gate<Worker>& gate, Work&& work) {
  borrow(gate, false, [&](Worker& worker) {
    work(worker);
    return true;
  });
}

std::optional<failure_form> form_of(const std::optional<handoff::room_failure>& failure) {
  if (!failure)
    return std::nullopt;
  return failure_form{failure->reason, failure->from_another_rank()};
}

handoff::failure_kind kind_of(bool from_another_rank) noexcept {
  return from_another_rank ? handoff::failure_kind::another_rank : handoff::failure_kind::aborted;
}

using failures = std::optional<handoff::room_failure>;

failures failure_of_closed() {
  return handoff::room_failure{closed_worker().message, handoff::failure_kind::aborted};
}

} // namespace

// -- methods of native_prefill_worker

native_prefill_worker::native_prefill_worker(const worker_request& request, py::handle layout) {
  auto worker = start<worker_type>(request, layout);
  port_ = worker->port();
  data_plane_ = worker->data_plane();
  gate_ = std::make_unique<loan_gate<worker_type>>(std::move(worker));
}

std::pair<std::uint64_t, client::room_watch> native_prefill_worker::open(std::uint64_t room) {
  const auto opened =
      value_or_raise(borrow(*gate_, result<client::prefill_room>{closed_worker()},
                            [&](worker_type& worker) { return worker.open(room_id{room}); }));
  return {opened.id.value, opened.state};
}

std::optional<std::uint32_t> native_prefill_worker::prefix_pages(std::uint64_t id) {
  return borrow(*gate_, std::optional<std::uint32_t>{},
                [&](worker_type& worker) { return worker.prefix_pages(send_id{id}); });
}

void native_prefill_worker::init(std::uint64_t id, std::uint32_t pages) {
  value_or_raise(borrow(*gate_, result<void>{closed_worker()},
                        [&](worker_type& worker) { return worker.init(send_id{id}, pages); }));
}

void native_prefill_worker::send(std::uint64_t id, py::handle pages, bool last, py::handle states,
                                 std::uint32_t aux_row) {
  const auto items = take_items(pages, "pages");
  auto of_states = take_states(states);
  value_or_raise(borrow(*gate_, result<void>{closed_worker()}, [&](worker_type& worker) {
    return worker.send(send_id{id}, items, last, std::move(of_states), aux_row);
  }));
}

void native_prefill_worker::abort(std::uint64_t id, std::string reason, bool from_another_rank) {
  run(*gate_, [&](worker_type& worker) {
    worker.abort(send_id{id}, std::move(reason), kind_of(from_another_rank));
  });
}

void native_prefill_worker::clear(std::uint64_t id) {
  run(*gate_, [&](worker_type& worker) { worker.clear(send_id{id}); });
}

std::optional<failure_form> native_prefill_worker::failure(std::uint64_t id) {
  return form_of(borrow(*gate_, failure_of_closed(),
                        [&](worker_type& worker) { return worker.failure(send_id{id}); }));
}

std::pair<std::uint64_t, double> native_prefill_worker::metric(std::uint64_t id) {
  using metric = handoff::transfer_metric;
  const auto found = borrow(
      *gate_, metric{}, [&](worker_type& worker) -> metric { return worker.metric(send_id{id}); });
  return {found.bytes, static_cast<double>(found.microseconds) / 1e6};
}

void native_prefill_worker::give_memory_back() {
  run(*gate_, [](worker_type& worker) { worker.give_memory_back(); });
}

void native_prefill_worker::lend_memory() {
  value_or_raise(borrow(*gate_, result<void>{closed_worker()},
                        [](worker_type& worker) { return worker.lend_memory(); }));
}

py::dict native_prefill_worker::stats() {
  const auto now =
      borrow(*gate_, client::prefill_stats{}, [](worker_type& worker) { return worker.stats(); });
  py::dict all;
  all.set("opened", now.opened);
  all.set("succeeded", now.succeeded);
  all.set("failed", now.failed);
  all.set("bytes", now.bytes);
  all.set("rooms", now.rooms);
  all.set("peers", now.peers);
  return all;
}

void native_prefill_worker::close() {
  close_gate(*gate_);
}

// -- methods of native_decode_worker

native_decode_worker::native_decode_worker(const worker_request& request, py::handle layout) {
  auto worker = start<worker_type>(request, layout);
  data_plane_ = worker->data_plane();
  gate_ = std::make_unique<loan_gate<worker_type>>(std::move(worker));
}

client::room_watch native_decode_worker::open(std::uint64_t room) {
  return value_or_raise(borrow(*gate_, result<client::room_watch>{closed_worker()},
                               [&](worker_type& worker) { return worker.open(room_id{room}); }));
}

void native_decode_worker::connect(std::uint64_t room, const std::vector<address_form>& sources) {
  std::vector<handoff::worker_address> addresses;
  addresses.reserve(sources.size());
  for (const auto& [host, port] : sources)
    addresses.push_back({host, port});
  value_or_raise(borrow(*gate_, result<void>{closed_worker()}, [&](worker_type& worker) {
    return worker.connect(room_id{room}, std::move(addresses));
  }));
}

void native_decode_worker::allocate(std::uint64_t room, std::uint32_t prefix_pages,
                                    py::handle pages, py::handle states, std::uint32_t aux_row) {
  handoff::allocated_pages allocated{prefix_pages, take_items(pages, "pages"), take_states(states),
                                     aux_row};
  value_or_raise(borrow(*gate_, result<void>{closed_worker()}, [&](worker_type& worker) {
    return worker.allocate(room_id{room}, std::move(allocated));
  }));
}

void native_decode_worker::abort(std::uint64_t room, std::string reason, bool from_another_rank) {
  run(*gate_, [&](worker_type& worker) {
    worker.abort(room_id{room}, std::move(reason), kind_of(from_another_rank));
  });
}

std::optional<failure_form> native_decode_worker::end(std::uint64_t room, std::string reason,
                                                      bool from_another_rank) {
  return form_of(borrow(*gate_, failure_of_closed(), [&](worker_type& worker) {
    return worker.end(room_id{room}, std::move(reason), kind_of(from_another_rank));
  }));
}

void native_decode_worker::clear(std::uint64_t room) {
  run(*gate_, [&](worker_type& worker) { worker.clear(room_id{room}); });
}

void native_decode_worker::give_memory_back() {
  run(*gate_, [](worker_type& worker) { worker.give_memory_back(); });
}

void native_decode_worker::lend_memory() {
  value_or_raise(borrow(*gate_, result<void>{closed_worker()},
                        [](worker_type& worker) { return worker.lend_memory(); }));
}

std::vector<std::pair<native_decode_worker::address_form, std::string>>
native_decode_worker::take_lost() {
  std::vector<std::pair<address_form, std::string>> forms;
  for (const auto& each : borrow(*gate_, std::vector<client::lost_worker>{},
                                 [](worker_type& worker) { return worker.take_lost(); }))
    forms.emplace_back(address_form{each.address.host, each.address.port}, each.reason);
  return forms;
}

py::dict native_decode_worker::stats() {
  const auto now =
      borrow(*gate_, client::decode_stats{}, [](worker_type& worker) { return worker.stats(); });
  py::dict all;
  all.set("opened", now.opened);
  all.set("succeeded", now.succeeded);
  all.set("failed", now.failed);
  all.set("reads", now.reads);
  all.set("refused", now.refused);
  all.set("bytes", now.bytes);
  all.set("turns", now.turns);
  all.set("peers", now.peers);
  return all;
}

void native_decode_worker::close() {
  close_gate(*gate_);
}

} // namespace peercache::python
