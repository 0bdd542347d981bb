#pragma once

#include "common/log_limit.hpp"
#include "common/result.hpp"
#include "common/tls_paths.hpp"
#include "net/tls_session.hpp"

#include <chrono>
#include <memory>
#include <mutex>
#include <string>

namespace peercache::net {

/// The files with a process's certificate, its key and the CA that it trusts, and its cluster's
/// name.
struct tls_files : tls_paths {
  std::string cluster;
};

/// The TLS settings that all connections of a process share: only TLS 1.3, a certificate on both
/// sides (except `accepted_from_anyone`), no resumed sessions, so that each new connection is
/// judged by the files in use at that time.
///
/// The files are read again when they have changed, at the next connection or `look_again`. Files
/// that do not fit each other, or are not there for a moment, change nothing: what was read before
/// stays in use, and a line of the log says why. Connections that stand are not judged again.
///
/// Threads: any. Errors: `open` fails when the files do not fit; afterwards there are none.
class tls_context {
public:
  static result<std::shared_ptr<tls_context>> open(tls_files files);
  /// Does what `open` does; returns null when no path is given: connections are plain then.
  static result<std::shared_ptr<tls_context>> open_if_given(const tls_paths& paths,
                                                            const std::string& cluster);

  /// A context of the same files for connections to engines: `dialled` takes certificates of any
  /// role.
  std::shared_ptr<tls_context> among_engines();

  tls_session dialled(int fd);
  tls_session accepted(int fd, tls_peers wanted = tls_peers::members);
  /// Like `accepted`, for a port at which peers without a certificate may ask something as well.
  tls_session accepted_from_anyone(int fd);

  /// Reads the files if they have changed since they were read. True when the new files are in use
  /// now.
  bool look_again();

  const tls_identity& self() const noexcept { return self_; }

private:
  using shared_context = std::shared_ptr<ssl_ctx_st>;
  tls_context(tls_files files, tls_identity self, shared_context read, std::string seen,
              tls_peers dialled);
  shared_context current();

  const tls_files files_;
  const tls_identity self_;
  const tls_peers dialled_; ///< Peers that may be at the other end of a connection that is dialled.
  std::mutex lock_;         ///< Guards the members below: connections are made by several threads.
  shared_context context_;
  std::string seen_; ///< Names the state of the files that are in use.
  log_limit lines_;
  std::chrono::steady_clock::time_point next_look_{};
};

} // namespace peercache::net
