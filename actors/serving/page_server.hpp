#pragma once

#include "common/published.hpp"
#include "common/result.hpp"
#include "rdma/page_source.hpp"
#include "rdma/tcp/tcp_page_server.hpp"
#include "storage/slot_table.hpp"

#include <atomic>
#include <memory>

namespace peercache::actors {

/// Lets the page server read the pool.
class pool_page_source final : public rdma::page_source {
public:
  explicit pool_page_source(storage::slot_table slots) : slots_(slots) {}

  page_status pin(slot_id slot, generation gen, const page_key& key, std::uint32_t length_bytes,
                  std::span<const std::byte>& bytes) override;
  void unpin(slot_id slot) override;

private:
  storage::slot_table slots_;
};

/// The serving half of this node's data plane, which its data-plane actor runs. Threads: `run` in
/// the actor's thread; `stop` and `latest` from any. Ownership: owns the server; the pool's memory
/// outlives it.
class page_server {
public:
  struct snapshot {
    rdma::tcp_page_server_stats stats;
    std::size_t connections = 0;
    std::uint64_t pinned_bytes = 0;
  };

  static result<std::unique_ptr<page_server>> listen(const rdma::tcp_page_server_options& options,
                                                     storage::slot_table slots);

  std::uint16_t port() const noexcept { return port_; }
  void run();
  void stop() noexcept;
  /// Closes the connections and releases their pins. @pre `run` and `stop` have returned
  void close() noexcept { server_.reset(); }
  /// Returns a snapshot of the server's state that is at most about 200 ms old.
  snapshot latest() const { return *published_.load(); }

private:
  explicit page_server(storage::slot_table slots) : source_(slots) {}
  void publish();

  pool_page_source source_;
  std::unique_ptr<rdma::tcp_page_server> server_; ///< Used by the data-plane actor's thread only.
  std::uint16_t port_ = 0;
  std::atomic<bool> stop_{false};
  published<snapshot> published_{snapshot{}};
};

} // namespace peercache::actors
