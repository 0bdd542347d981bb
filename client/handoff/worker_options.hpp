#pragma once

#include "common/result.hpp"
#include "net/tls_context.hpp"
#include "rdma/cuda_memory.hpp"
#include "rdma/device_memory.hpp"
#include "rdma/verbs/rail_choice.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

namespace peercache::client {

/// The error of a worker's start that is interrupted (common/interruption.hpp).
inline error interrupted_start() {
  return {errc::closed, "the worker's start was interrupted"};
}

/// Options of a worker that hands prompts over (a process of an engine, prefill or decode), or of a
/// transfer engine. An option whose comment begins with names of kinds of workers means nothing to
/// the others. Threads: plain values, which a worker copies when it starts. Ownership: `gpu` and
/// `tls` are shared with the worker. Errors: a worker's `start` says which value it refuses.
struct worker_options {
  /// Prefill, transfer engine: address on which the worker listens, and at which its memory is
  /// read. Numeric; a transfer engine's may be a name.
  std::string host = "127.0.0.1";
  /// Prefill, transfer engine: port for other workers; 0: the kernel chooses.
  std::uint16_t port = 0;
  /// Allows a `host` beyond loopback although peers are not authenticated, as without TLS.
  bool insecure_cluster = false;
  /// Name of the cluster; workers of other clusters are refused.
  std::string cluster = "peercache";
  std::string name = "worker"; ///< Name of this host in the logs of other workers.
  rdma::rail_settings rails;   ///< Choice of the devices over which pages are read.
  /// How memory of GPUs is reached; null: found by `rdma::find_cuda_memory`.
  std::shared_ptr<rdma::device_memory> gpu;

  /// The node of this host, which prefill and decode workers report to if it runs.
  std::string node_host = "127.0.0.1";
  std::uint16_t node_port = 31998; ///< Port of the node; 0: the worker reports to nobody.
  /// TLS of the worker's ports and of its connections to other workers and to the node; null: all
  /// are plain. Pages travel under TLS, too, if `rails.pages_in_tls` says so on either side.
  std::shared_ptr<net::tls_context> tls;

  /// Transfer engine: longest time for a peer that was told to stop reading this worker's memory to
  /// say that it has stopped; a peer that takes longer is dropped.
  std::chrono::milliseconds answer_timeout{5'000};

  /// Prefill: rooms that may be open at a time. Transfer engine: transfers that may read its memory
  /// at a time.
  std::uint32_t leases_max = 4096;

  /// Decode and transfer engine: bytes that are being read at a time; the last read may exceed it.
  std::uint64_t wire_bytes_max = 256u << 20;
  /// Decode: longest time for one read of at most 64 MiB; a room whose read takes longer fails.
  std::chrono::milliseconds read_timeout{10'000};
  std::uint32_t channels_per_peer_max = 16;
  /// Longest time for connecting to the memory of another worker; when it has passed, the room or
  /// transfer fails. The default is as long as a worker may be silent before it is lost, so that no
  /// request fails earlier because a worker is slow.
  std::chrono::milliseconds page_connect_timeout{2'000};
  /// Bounce memory in bytes per rail, for READs into memory that is not registered and for entries
  /// of leases.
  std::size_t bounce_bytes = 32u << 20;
};

/// How this worker reaches GPU memory; null when the machine has none.
inline std::shared_ptr<rdma::device_memory> gpu_of(const worker_options& options) {
  return options.gpu ? options.gpu : rdma::find_cuda_memory();
}

} // namespace peercache::client
