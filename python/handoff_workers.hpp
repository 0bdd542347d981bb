#pragma once

#include "client/handoff/decode_worker.hpp"
#include "client/handoff/prefill_worker.hpp"
#include "client/handoff/room_watch.hpp"
#include "python/binding/type.hpp"
#include "python/loan_gate.hpp"

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace peercache::python {

/// How Python starts a worker.
struct worker_request {
  std::map<std::string, std::string> options; ///< Values by the names of the option table.
  std::string host;                           ///< Numeric address on which the worker listens.
  std::string name;                           ///< Name of this host in the logs of other workers.
};

/// Why a room has failed: the reason, and whether this worker had no part in it.
using failure_form = std::pair<std::string, bool>;

/// A prefill worker as Python sees it: `peercache._native.PrefillWorker`.
///
/// Threads: any number of Python threads at once; each method is entered with the GIL and gives it
/// up once its arguments are converted; in the main thread handlers of signals run while a method
/// waits, and what they raise is raised when the method returns. Ownership: memory is named by
/// address; it is lent until `give_memory_back` or `close`. `close` ends the worker when the last
/// running call has ended. Errors: `peercache.Error` for what the worker refuses; after `close`,
/// and in a forked child, `closed`. Methods that end a room do nothing after `close`.
class native_prefill_worker {
public:
  using worker_type = client::prefill_worker;

  native_prefill_worker(const worker_request& request, py::handle layout);
  ~native_prefill_worker() { close(); }
  native_prefill_worker(const native_prefill_worker&) = delete;
  native_prefill_worker& operator=(const native_prefill_worker&) = delete;

  /// Opens a room. Returns its id, by which the other calls name it, and its state.
  std::pair<std::uint64_t, client::room_watch> open(std::uint64_t room);
  std::optional<std::uint32_t> prefix_pages(std::uint64_t id);
  void init(std::uint64_t id, std::uint32_t pages);
  void send(std::uint64_t id, py::handle pages, bool last, py::handle states,
            std::uint32_t aux_row);
  void abort(std::uint64_t id, std::string reason, bool from_another_rank);
  void clear(std::uint64_t id);
  std::optional<failure_form> failure(std::uint64_t id);
  /// Returns (bytes that all decode workers have read, seconds that the slowest of them took).
  std::pair<std::uint64_t, double> metric(std::uint64_t id);

  void give_memory_back();
  void lend_memory();
  py::dict stats();
  std::uint16_t port() const noexcept { return port_; }
  const std::string& data_plane() const noexcept { return data_plane_; }
  bool closed() const noexcept { return !gate_->is_open(); }
  void close();
  closable& gate() noexcept { return *gate_; }

private:
  std::unique_ptr<loan_gate<worker_type>> gate_;
  std::uint16_t port_ = 0;
  std::string data_plane_;
};

/// A decode worker as Python sees it: `peercache._native.DecodeWorker`. Threads, ownership and
/// errors: as `native_prefill_worker`; besides, `end`, `clear`, `give_memory_back` and `close` wait
/// until nothing writes to the pages.
class native_decode_worker {
public:
  using worker_type = client::decode_worker;
  using address_form = std::pair<std::string, std::uint16_t>;

  native_decode_worker(const worker_request& request, py::handle layout);
  ~native_decode_worker() { close(); }
  native_decode_worker(const native_decode_worker&) = delete;
  native_decode_worker& operator=(const native_decode_worker&) = delete;

  client::room_watch open(std::uint64_t room);
  void connect(std::uint64_t room, const std::vector<address_form>& sources);
  void allocate(std::uint64_t room, std::uint32_t prefix_pages, py::handle pages, py::handle states,
                std::uint32_t aux_row);
  void abort(std::uint64_t room, std::string reason, bool from_another_rank);
  std::optional<failure_form> end(std::uint64_t room, std::string reason, bool from_another_rank);
  void clear(std::uint64_t room);

  void give_memory_back();
  void lend_memory();
  /// Returns the prefill workers that were lost since the last call: ((host, port), reason) of
  /// each.
  std::vector<std::pair<address_form, std::string>> take_lost();
  py::dict stats();
  const std::string& data_plane() const noexcept { return data_plane_; }
  bool closed() const noexcept { return !gate_->is_open(); }
  void close();
  closable& gate() noexcept { return *gate_; }

private:
  std::unique_ptr<loan_gate<worker_type>> gate_;
  std::string data_plane_;
};

/// Adds the workers to the module.
void bind_handoff(py::module_builder& module);

} // namespace peercache::python
