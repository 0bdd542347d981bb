#pragma once

#include "client/handoff/worker_options.hpp"
#include "common/result.hpp"
#include "handoff/links/link_options.hpp"
#include "net/tls_context.hpp"
#include "net/tls_handshakes.hpp"

#include <functional>
#include <memory>
#include <vector>

namespace peercache::client {

/// TLS between workers: what a worker shows when it dials another worker, and who is let in at its
/// ports: any member of the cluster, since engines have clients' certificates. Without TLS the
/// object is empty, and connections between workers are plain.
///
/// Threads: `stop` any; each of `bodies` runs in a thread of its own. Lifetime: outlives the links
/// and servers that use it. Errors: the process may have no more descriptors.
class worker_tls {
public:
  /// @param own the worker's certificate; null: no TLS
  static result<worker_tls> open(const std::shared_ptr<net::tls_context>& own);

  const std::shared_ptr<net::tls_context>& context() const noexcept { return context_; }
  net::tls_handshakes* handshakes() const noexcept { return handshakes_.get(); }

  /// How a worker listens for other workers: at the address of `options`, under this TLS.
  handoff::link_options links_at(const worker_options& options) const;

  /// The loops that do the TLS handshakes with peers that connect, until `stop`; none without TLS.
  std::vector<std::function<void()>> bodies() const;
  void stop() const noexcept;

private:
  std::shared_ptr<net::tls_context> context_;
  std::unique_ptr<net::tls_handshakes> handshakes_;
};

} // namespace peercache::client
