#pragma once

#include "common/assert.hpp"
#include "net/tls_context.hpp"

#include <openssl/ssl.h>

namespace peercache::net {

/// Somebody with OpenSSL and no scruple: believes everybody, and shows what it likes.
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
  /// Sends the bytes once the handshake is over, as far as this side can tell. True when it did.
  bool say(const void* bytes, int count) { return SSL_write(ssl, bytes, count) == count; }
  /// Whether a byte has come inside the session.
  bool hears() {
    char byte = 0;
    return SSL_read(ssl, &byte, 1) == 1;
  }

private:
  SSL_CTX* context;
  SSL* ssl;
};

} // namespace peercache::net
