#include "python/native_transfer_engine.hpp"

#include "config/option_value.hpp"
#include "python/arguments.hpp"
#include "python/gate_calls.hpp"
#include "python/gil.hpp"
#include "python/worker_start.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <vector>

namespace peercache::python {
namespace {

using handoff::call_state;

// Error numbers of `mooncake.engine`.
constexpr std::int64_t failed = -1, too_long = -2, unknown = -3, overlaps = -7;

constexpr auto rest_of_refused = std::chrono::milliseconds(5);

std::shared_ptr<client::transfer_worker> start(const engine_request& request) {
  std::map<std::string, std::string> given;
  if (request.tcp_only)
    given["data_plane"] = "tcp";
  if (!request.devices.empty())
    given["rdma.devices"] = request.devices;
  using worker_type = client::transfer_worker;
  return started_outside<worker_type>([&]() -> result<std::unique_ptr<worker_type>> {
    auto options = worker_options_of(given);
    if (!options)
      return options.error();
    options->host = request.host;
    options->port = request.port;
    options->name = "transfer engine";
    return worker_type::start(*std::move(options));
  });
}

/// The arguments of one call.
struct call_request {
  std::vector<std::uint64_t> own, others, lengths;

  call_request(py::handle own_addresses, py::handle other_addresses, py::handle each_length)
      : own(take_integers(own_addresses, "own addresses")),
        others(take_integers(other_addresses, "addresses of the other engine")),
        lengths(take_integers(each_length, "lengths")) {}

  bool is_even() const noexcept {
    return own.size() == others.size() && own.size() == lengths.size();
  }
  std::vector<handoff::transfer_piece> pieces(bool writes) const {
    std::vector<handoff::transfer_piece> all(own.size());
    for (std::size_t i = 0; i < all.size(); ++i)
      all[i] = writes ? handoff::transfer_piece{own[i], others[i], lengths[i]}
                      : handoff::transfer_piece{others[i], own[i], lengths[i]};
    return all;
  }
  std::chrono::nanoseconds extra_time() const noexcept {
    constexpr std::uint64_t day = 86'400'000'000'000;
    std::uint64_t bytes = 0;
    for (const auto each : lengths)
      bytes = std::min(day, bytes + std::min(day, each));
    return std::chrono::nanoseconds(bytes);
  }
};

/// Begins the call; runs without the GIL.
result<handoff::call_id> begin_call(client::transfer_worker& worker, const std::string& session,
                                    bool writes, const call_request& asked,
                                    std::chrono::nanoseconds timeout) {
  if (!asked.is_even())
    return {errc::invalid_argument, "the lists of addresses and lengths differ in length"};
  const auto at = config::parse_endpoint(session);
  if (!at)
    return at.error();
  const auto direction =
      writes ? handoff::transfer_direction::write : handoff::transfer_direction::read;
  return worker.begin(direction, {at->host, at->port}, asked.pieces(writes),
                      timeout + asked.extra_time());
}

std::chrono::nanoseconds timeout_of(double seconds) {
  constexpr double day = 86'400;
  if (std::isnan(seconds))
    throw py::value_error("a timeout is a number of seconds");
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
      std::chrono::duration<double>(std::clamp(seconds, 0.0, day)));
}

coded ended(const client::transfer_outcome& outcome) {
  return outcome.state == call_state::done ? coded{0, {}} : coded{failed, outcome.reason};
}

} // namespace

native_transfer_engine::native_transfer_engine(const engine_request& request)
    : native_transfer_engine(start(request), timeout_of(request.timeout_seconds)) {}

native_transfer_engine::native_transfer_engine(const std::shared_ptr<worker_type>& worker,
                                               std::chrono::nanoseconds timeout)
    : gate_(worker), port_(worker->port()), data_plane_(worker->data_plane()), timeout_(timeout) {}

/// Runs `work(worker)` without the GIL. While the interpreter ends, a refused call takes a moment:
/// threads that go on calling would otherwise keep the GIL from the thread that ends the
/// interpreter.
template <class Work>
coded native_transfer_engine::borrow(Work&& work) {
  if (end_announced() && !gate_.is_open())
    rest_without_gil(rest_of_refused);
  return python::borrow(gate_, coded{failed, "the transfer engine is closed"},
                        std::forward<Work>(work));
}

coded native_transfer_engine::register_memory(std::uint64_t address, std::uint64_t bytes) {
  return borrow([&](worker_type& worker) {
    const handoff::memory_range memory{address, bytes};
    if (worker.overlaps(memory))
      return coded{overlaps, "this memory, or a part of it, is registered already"};
    const auto done = worker.register_memory(memory);
    return done ? coded{0, {}} : coded{failed, to_string(done.error())};
  });
}

coded native_transfer_engine::unregister_memory(std::uint64_t address) {
  return borrow([&](worker_type& worker) {
    const auto done = worker.unregister_memory(address);
    if (done)
      return coded{0, {}};
    return coded{done.error().code == errc::not_found ? unknown : failed, to_string(done.error())};
  });
}

coded native_transfer_engine::transfer(const std::string& session, bool writes, py::handle own,
                                       py::handle others, py::handle lengths) {
  const call_request asked{own, others, lengths};
  return borrow([&](worker_type& worker) {
    const auto call = begin_call(worker, session, writes, asked, timeout_);
    return call ? ended(worker.wait(*call)) : coded{failed, to_string(call.error())};
  });
}

coded native_transfer_engine::begin(const std::string& session, bool writes, py::handle own,
                                    py::handle others, py::handle lengths) {
  const call_request asked{own, others, lengths};
  auto begun = borrow([&](worker_type& worker) {
    const auto call = begin_call(worker, session, writes, asked, timeout_);
    return call ? coded{static_cast<std::int64_t>(call->value), {}}
                : coded{0, to_string(call.error())};
  });
  begun.first = std::max<std::int64_t>(begun.first, 0);
  return begun;
}

coded native_transfer_engine::wait(std::uint64_t call) {
  return borrow([&](worker_type& worker) { return ended(worker.wait({call})); });
}

coded native_transfer_engine::check(std::uint64_t call) {
  return borrow([&](worker_type& worker) {
    const auto now = worker.take({call});
    switch (now.state) {
    case call_state::open:
      return coded{0, {}};
    case call_state::done:
      return coded{1, {}};
    case call_state::timed_out:
      return coded{too_long, now.reason};
    case call_state::failed:
      break;
    }
    return coded{failed, now.reason};
  });
}

py::dict native_transfer_engine::stats() {
  py::dict all;
  const loan_gate<worker_type>::loan worker{gate_};
  if (!worker)
    return all;
  const auto now = worker->stats();
  all.set("done", now.done);
  all.set("failed", now.failed);
  all.set("reads", now.reads);
  all.set("bytes", now.bytes);
  all.set("calls", now.calls);
  all.set("requests", now.requests);
  all.set("leases", now.leases);
  all.set("ranges", now.ranges);
  return all;
}

void native_transfer_engine::close() {
  close_gate(gate_);
}

namespace {

std::unique_ptr<native_transfer_engine> open_engine(std::string host, std::uint16_t port,
                                                    std::string devices, bool tcp_only,
                                                    double timeout) {
  return std::make_unique<native_transfer_engine>(
      engine_request{std::move(host), port, std::move(devices), tcp_only, timeout});
}

} // namespace

void bind_transfer_engine(py::module_builder& module) {
  using engine = native_transfer_engine;
  const std::vector<py::parameter> pieces{"session", "writes", "own", "others", "lengths"};
  py::class_builder<engine>("TransferEngine")
      .constructor<&open_engine>({"host", "port", "devices", "tcp_only", "timeout"})
      .method<&engine::register_memory>("register_memory", {"address", "bytes"})
      .method<&engine::unregister_memory>("unregister_memory", {"address"})
      .method<&engine::transfer>("transfer", pieces)
      .method<&engine::begin>("begin", pieces)
      .method<&engine::wait>("wait", {"call"})
      .method<&engine::check>("check", {"call"})
      .method<&engine::stats>("stats")
      .method<&engine::close>("close")
      .getter<&engine::port>("port")
      .getter<&engine::data_plane>("data_plane")
      .getter<&engine::closed>("closed")
      .add_to(module);
}

} // namespace peercache::python
