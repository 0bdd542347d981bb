#pragma once

#include <string>

namespace peercache {

/// Paths of the three files of PEM that TLS takes. A value.
struct tls_paths {
  std::string certificate; ///< This node's certificate, and those between it and the CA's
                           ///< certificate.
  std::string key;         ///< The key of this node's certificate.
  std::string authority;   ///< The certificates of the CA, whose members are believed.

  /// Whether TLS is configured at all. Files that lack are found when they are read.
  bool given() const noexcept { return !certificate.empty() || !key.empty() || !authority.empty(); }
  bool operator==(const tls_paths&) const = default;
};

} // namespace peercache
