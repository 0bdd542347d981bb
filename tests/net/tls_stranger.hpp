#pragma once

#include "common/assert.hpp"
#include "net/tls_context.hpp"

#include <openssl/ssl.h>
#include <string>

namespace peercache::net {

/// A TLS peer made with plain OpenSSL. Accepts every certificate; shows the certificate that the
/// test gives it, or none.
class tls_stranger {
public:
  tls_stranger(int fd, const tls_files* shown, int version = TLS1_3_VERSION)
      : context(SSL_CTX_new(TLS_method())), ssl(nullptr) {
    SSL_CTX_set_max_proto_version(context, version);
    if (shown != nullptr) {
      PEERCACHE_ASSERT(
          SSL_CTX_use_certificate_file(context, shown->certificate.c_str(), SSL_FILETYPE_PEM) == 1);
      PEERCACHE_ASSERT(SSL_CTX_use_PrivateKey_file(context, shown->key.c_str(), SSL_FILETYPE_PEM) ==
                       1);
    }
    ssl = SSL_new(context);
    SSL_set_fd(ssl, fd);
    SSL_set_connect_state(ssl);
  }
  ~tls_stranger() {
    SSL_free(ssl);
    SSL_CTX_free(context);
  }
  tls_stranger(const tls_stranger&) = delete;
  tls_stranger& operator=(const tls_stranger&) = delete;
  void shake_hands() { SSL_do_handshake(ssl); }
  /// Sends the bytes inside TLS. Returns false when they were not sent, for example because the
  /// handshake is not over.
  bool say(const void* bytes, int count) { return SSL_write(ssl, bytes, count) == count; }
  /// Whether bytes have come inside TLS.
  bool hears() {
    char byte = 0;
    return SSL_read(ssl, &byte, 1) == 1;
  }

  /// Returns the bytes that have come inside TLS since the last call. @pre the socket does not
  /// block
  std::string hears_some() {
    char piece[4096];
    const int got = SSL_read(ssl, piece, sizeof piece);
    return {piece, static_cast<std::size_t>(got > 0 ? got : 0)};
  }
  /// Returns all bytes that come inside TLS until the session ends. @pre the socket blocks
  std::string hears_all() {
    std::string all;
    char piece[4096];
    for (int got; (got = SSL_read(ssl, piece, sizeof piece)) > 0;)
      all.append(piece, static_cast<std::size_t>(got));
    return all;
  }
  /// Returns the serial number of the certificate that the other side has shown; empty when it has
  /// shown none.
  std::string number_shown() {
    X509* shown = SSL_get0_peer_certificate(ssl);
    if (shown == nullptr)
      return {};
    const auto* number = X509_get0_serialNumber(shown);
    return {reinterpret_cast<const char*>(ASN1_STRING_get0_data(number)),
            static_cast<std::size_t>(ASN1_STRING_length(number))};
  }

private:
  SSL_CTX* context;
  SSL* ssl;
};

} // namespace peercache::net
