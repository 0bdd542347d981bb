#pragma once

#include "client/handoff/worker_options.hpp"
#include "client/handoff/worker_tls.hpp"
#include "common/ids.hpp"
#include "common/result.hpp"
#include "common/slot_entry.hpp"
#include "rdma/served_spans.hpp"
#include "rdma/tcp/tcp_page_server.hpp"
#include "rdma/verbs/rail_servers.hpp"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace peercache::client {

/// Serves memory under leases to other workers, over TCP and over rails, for a prefill or transfer
/// worker. Threads: `add` and `remove` any; each of `bodies` runs in a thread of its own until
/// `stop`. Ownership: memory is lent from `add` to `remove`; only the owner writes the leases
/// (`handoff::lease_table`). Errors: the port cannot be bound; verbs are demanded and no rail can
/// be used; memory that no device can register.
class memory_server {
public:
  /// @param tls outlives the server
  static result<std::unique_ptr<memory_server>>
  listen(const worker_options& options, const incarnation& process, const worker_tls& tls);

  std::span<slot_entry> leases() noexcept { return leases_; }
  std::uint16_t port() const noexcept { return port_; }
  std::uint8_t rails() const noexcept { return static_cast<std::uint8_t>(rails_->rails()); }
  /// The chosen plane and the reason, for people.
  const std::string& choice() const noexcept { return rails_->choice(); }

  /// Lets other workers read all of this memory, or on error none of it.
  /// @param until_interrupted whether an interruption of the caller's thread ends the call between
  ///   two spans, as `closed`; the interruption's handler must not need locks of the caller
  result<void> add(const std::vector<std::span<std::byte>>& memory, bool until_interrupted = false);
  /// Ends the serving of this memory: when this returns, no server and no device reads it.
  void remove(const std::vector<std::span<std::byte>>& memory);

  /// The loops of the servers, each for a thread of its own.
  std::vector<std::function<void()>> bodies();
  void stop() noexcept;

private:
  memory_server(std::uint32_t leases, std::shared_ptr<rdma::device_memory> gpu)
      : leases_(leases), gpu_(std::move(gpu)) {}
  result<void> add_one(std::span<std::byte> memory);

  std::vector<slot_entry> leases_;
  /// Access to GPU memory; null on a machine without.
  const std::shared_ptr<rdma::device_memory> gpu_;
  rdma::served_spans spans_{leases_};
  std::unique_ptr<rdma::rail_servers> rails_;
  /// The TCP server. Only one of `bodies` uses it, but any thread may call its `wake`.
  std::unique_ptr<rdma::tcp_page_server> pages_;
  std::uint16_t port_ = 0;
  std::atomic<bool> stop_{false};
};

} // namespace peercache::client
