#pragma once

#include "common/result.hpp"
#include "net/tls_identity.hpp"

#include <memory>
#include <optional>
#include <string>
#include <string_view>

struct x509_st;
struct evp_pkey_st;

namespace peercache::net {

struct tls_deleter {
  void operator()(x509_st* certificate) const noexcept;
  void operator()(evp_pkey_st* key) const noexcept;
};
using tls_certificate = std::unique_ptr<x509_st, tls_deleter>;
using tls_key = std::unique_ptr<evp_pkey_st, tls_deleter>;

/// The identity within `cluster` that a certificate names, if any.
std::optional<tls_identity> identity_in(const x509_st& certificate, std::string_view cluster);

/// Reads the first certificate, or the private key, of a PEM file. Keys with a passphrase are
/// refused.
result<tls_certificate> read_certificate(const std::string& path);
result<tls_key> read_key(const std::string& path);

/// Returns "WHAT: REASON" with the reason of OpenSSL's last error, and clears OpenSSL's errors.
std::string with_tls_reason(std::string_view what);

} // namespace peercache::net
