#pragma once

#include "client/handoff/transfer_worker.hpp"
#include "python/binding/type.hpp"
#include "python/loan_gate.hpp"

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

namespace peercache::python {

/// How Python starts a transfer engine.
struct engine_request {
  std::string host;       ///< Address or name of this host, by which others find the engine.
  std::uint16_t port = 0; ///< 0: the kernel chooses.
  std::string devices;    ///< RDMA devices with commas between them; empty: all that are usable.
  bool tcp_only = false;
  double timeout_seconds = 30; ///< Longest time of a call, besides a nanosecond for each byte.
};

/// An answer: a number that `mooncake.engine` uses, and the reason for people.
using coded = std::pair<std::int64_t, std::string>;

/// A transfer engine as Python sees it: `peercache._native.TransferEngine`.
///
/// Threads: any number of Python threads at once; each method is entered with the GIL and gives it
/// up once its arguments are converted; in the main thread handlers of signals run during a call,
/// and a handler that raises ends the call early. Ownership: memory is named by address, and lent
/// from `register_memory` to `unregister_memory` or `close`. `close` ends the engine when the last
/// running call has ended. Errors: the numbers of `mooncake.engine`; Python exceptions for
/// arguments that are not integers. After `close`, and in a forked child, -1.
class native_transfer_engine {
public:
  using worker_type = client::transfer_worker;

  /// Starts an engine. Errors: `peercache.Error`.
  explicit native_transfer_engine(const engine_request& request);
  ~native_transfer_engine() { close(); }
  native_transfer_engine(const native_transfer_engine&) = delete;
  native_transfer_engine& operator=(const native_transfer_engine&) = delete;

  /// Registers memory. Returns 0; -7 for memory that overlaps registered memory; -1 for other
  /// faults.
  coded register_memory(std::uint64_t address, std::uint64_t bytes);
  /// Unregisters memory. Returns 0; -3 when no registered memory begins at this address.
  coded unregister_memory(std::uint64_t address);

  /// Moves pieces between this engine's memory and that of `session` ("host:port"), and waits.
  /// Without pieces it only asks whether the other engine answers. Returns 0 or -1.
  coded transfer(const std::string& session, bool writes, py::handle own, py::handle others,
                 py::handle lengths);
  /// Begins what `transfer` does, without waiting. Returns the number of the call; 0 when it has
  /// not begun.
  coded begin(const std::string& session, bool writes, py::handle own, py::handle others,
              py::handle lengths);
  /// Waits until the call has ended, and forgets it. Returns 0 or -1.
  coded wait(std::uint64_t call);
  /// Returns 1 when the call is done, 0 while it is open, -1 when it has failed, -2 when it took
  /// too long.
  coded check(std::uint64_t call);

  std::uint16_t port() const noexcept { return port_; }
  const std::string& data_plane() const noexcept { return data_plane_; }
  py::dict stats();
  bool closed() const noexcept { return !gate_.is_open(); }
  void close();
  closable& gate() noexcept { return gate_; }

private:
  explicit native_transfer_engine(const std::shared_ptr<worker_type>& worker,
                                  std::chrono::nanoseconds timeout);
  template <class Work>
  coded borrow(Work&& work);

  loan_gate<worker_type> gate_;
  const std::uint16_t port_;
  const std::string data_plane_;
  const std::chrono::nanoseconds timeout_;
};

/// Makes `TransferEngine` known to the module.
void bind_transfer_engine(py::module_builder& module);

} // namespace peercache::python
