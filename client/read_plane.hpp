#pragma once

#include "client/cache_client.hpp"
#include "rdma/data_plane_loop.hpp"

#include <caf/fwd.hpp>

#include <atomic>
#include <memory>

namespace peercache::client {

/// The data plane of a client process: connections to other hosts' page servers, owned by the
/// thread of one data-plane actor. Threads: `submit` from any thread, until `stop`.
class read_plane {
public:
  static result<std::unique_ptr<read_plane>> create(const client_options& options);

  /// Takes the batch until it completes; see rdma::data_plane.
  void submit(rdma::read_batch& batch) noexcept { loop_.submit(batch); }

  /// The body of the data-plane actor: returns after `stop`.
  void run() { loop_.run(stop_); }
  void stop() noexcept;

private:
  explicit read_plane(std::unique_ptr<rdma::data_plane> plane);

  std::unique_ptr<rdma::data_plane> plane_;
  rdma::data_plane_loop loop_;
  std::atomic<bool> stop_{false};
};

} // namespace peercache::client
