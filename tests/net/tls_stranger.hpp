#pragma once

#include "common/assert.hpp"
#include "net/tls_context.hpp"

#include <openssl/ssl.h>
#include <string>

namespace peercache::net {

/// A peer made of plain OpenSSL, which accepts every certificate and shows any certificate, or
/// none, as the test wants.
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
  /// Sends the bytes if the handshake is over, as far as this side can tell. Returns whether the
  /// bytes were sent.
  bool say(const void* bytes, int count) { return SSL_write(ssl, bytes, count) == count; }
  /// Whether a byte has come inside the session.
  bool hears() {
    char byte = 0;
    return SSL_read(ssl, &byte, 1) == 1;
  }

  /// The bytes that have come inside the session since the last call. @pre the socket does not
  /// block
  std::string hears_some() {
    char piece[4096];
    const int got = SSL_read(ssl, piece, sizeof piece);
    return {piece, static_cast<std::size_t>(got > 0 ? got : 0)};
  }
  /// All bytes that come inside the session until its end. @pre the socket blocks
  std::string hears_all() {
    std::string all;
    char piece[4096];
    for (int got; (got = SSL_read(ssl, piece, sizeof piece)) > 0;)
      all.append(piece, static_cast<std::size_t>(got));
    return all;
  }
  /// The number of the certificate that the other side has shown; empty when it has shown none.
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
