#pragma once

#include <string>

namespace peercache {

/// Paths of the three PEM files that TLS reads. A value.
struct tls_paths {
  /// This node's certificate, then intermediate certificates up to the CA's.
  std::string certificate;
  std::string key;       ///< The key of this node's certificate.
  std::string authority; ///< The certificates of the CA that signs the certificates of members.

  /// Whether TLS is configured, with one file or more. A missing file is an error later, when the
  /// files are read.
  bool given() const noexcept { return !certificate.empty() || !key.empty() || !authority.empty(); }
  bool operator==(const tls_paths&) const = default;
};

} // namespace peercache
