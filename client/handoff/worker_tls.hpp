#pragma once

#include "common/result.hpp"
#include "net/tls_context.hpp"
#include "net/tls_handshakes.hpp"

#include <functional>
#include <memory>
#include <vector>

namespace peercache::client {

/// TLS between workers: what a worker shows when it dials another one, and who is let in at its
/// ports. Any member of the cluster is, since engines have clients' certificates. Without TLS there
/// is nothing in it, and connections between workers are plain.
///
/// Threads: `stop` any, `bodies` one each. Lifetime: links and servers use it until they have
/// ended. Errors: the process may have no more descriptors.
class worker_tls {
public:
  /// @param own the worker's certificate; null: no TLS
  static result<worker_tls> open(const std::shared_ptr<net::tls_context>& own);

  const std::shared_ptr<net::tls_context>& context() const noexcept { return context_; }
  net::tls_handshakes* handshakes() const noexcept { return handshakes_.get(); }

  /// What shakes hands with who connects, until `stop`.
  std::vector<std::function<void()>> bodies() const;
  void stop() const noexcept;

private:
  std::shared_ptr<net::tls_context> context_;
  std::unique_ptr<net::tls_handshakes> handshakes_;
};

} // namespace peercache::client
