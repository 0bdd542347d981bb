#pragma once

#include "common/result.hpp"
#include "net/tls_identity.hpp"

#include <chrono>
#include <string>

namespace peercache::net {

/// A certificate authority of one cluster in a folder: `ca.crt`, which every member gets, and
/// `ca.key`, with which new members are made.
///
/// Threads: one. Errors: results; `make` refuses a folder that has a CA key. Files are written
/// beside their place and renamed, so that a reader sees the old file or the new one; files of keys
/// have mode 0600. Keys are of the curve P-256.
class tls_authority {
public:
  static constexpr std::chrono::hours own_lifetime{24 * 3650};
  static constexpr std::chrono::hours usual_lifetime{24 * 365};

  /// Makes a CA in a folder, which is created if it is missing.
  static result<tls_authority> make(const std::string& folder, const std::string& cluster);
  static result<tls_authority> open(const std::string& folder);

  const std::string& cluster() const noexcept { return cluster_; }
  /// Path of the CA's certificate.
  std::string certificate() const { return folder_ + "/ca.crt"; }

  struct issued {
    std::string certificate; ///< Path of the certificate.
    std::string key;         ///< Path of the certificate's key.
    std::string uri;         ///< URI of the identity that the certificate stands for.
  };
  /// Makes key and certificate of a member as `FOLDER/NAME.crt` and `FOLDER/NAME.key`; a
  /// node's name serves for a client, too. @param lifetime from now on
  result<issued> issue(tls_role role, const std::string& name, const std::string& folder,
                       std::chrono::seconds lifetime = usual_lifetime) const;

private:
  tls_authority(std::string folder, std::string cluster)
      : folder_(std::move(folder)), cluster_(std::move(cluster)) {}

  std::string folder_;
  std::string cluster_;
};

} // namespace peercache::net
