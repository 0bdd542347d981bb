#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace peercache::net {

/// What a certificate lets its holder be.
enum class tls_role : std::uint8_t {
  node,      ///< A node; may ask all that the other roles may ask.
  operating, ///< The command line of people who operate nodes, on other hosts as well.
  client,    ///< An engine's client, or the command line on a node's own host.
};

/// The holder of a certificate, as its subject alternative name says: the URI
/// `peercache://CLUSTER/ROLE/NAME`, where the role is `node`, `operator` or `client`. In cluster
/// and name, bytes other than letters, digits, `.`, `_`, `~` and `-` are percent-encoded.
struct tls_identity {
  std::string cluster;
  tls_role role = tls_role::client;
  std::string name;
  bool operator==(const tls_identity&) const = default;
};

std::string_view word_of(tls_role role) noexcept;
std::string uri_of(const tls_identity& who);
/// Reads what `uri_of` writes, and nothing else.
std::optional<tls_identity> identity_of(std::string_view uri);

} // namespace peercache::net
