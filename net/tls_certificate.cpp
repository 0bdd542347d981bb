#include "net/tls_certificate.hpp"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fmt/format.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

namespace peercache::net {

namespace {

using file = std::unique_ptr<std::FILE, int (*)(std::FILE*)>;

result<file> opened(const std::string& path) {
  file one(std::fopen(path.c_str(), "re"), &std::fclose);
  if (!one)
    return {errc::io_failed, fmt::format("{}: {}", path, std::strerror(errno))};
  return one;
}

/// Gives no passphrase; OpenSSL's own function would ask at the terminal.
int no_passphrase(char*, int, int, void*) noexcept {
  return -1;
}

} // namespace

void tls_deleter::operator()(X509* certificate) const noexcept {
  X509_free(certificate);
}
void tls_deleter::operator()(EVP_PKEY* key) const noexcept {
  EVP_PKEY_free(key);
}

std::optional<tls_identity> identity_in(const X509& certificate, std::string_view cluster) {
  const std::unique_ptr<GENERAL_NAMES, decltype(&GENERAL_NAMES_free)> names(
      static_cast<GENERAL_NAMES*>(
          X509_get_ext_d2i(&certificate, NID_subject_alt_name, nullptr, nullptr)),
      &GENERAL_NAMES_free);
  for (int i = 0; i < sk_GENERAL_NAME_num(names.get()); ++i) {
    const auto* name = sk_GENERAL_NAME_value(names.get(), i);
    if (name->type != GEN_URI)
      continue;
    const auto* uri = name->d.uniformResourceIdentifier;
    auto who = identity_of({reinterpret_cast<const char*>(ASN1_STRING_get0_data(uri)),
                            static_cast<std::size_t>(ASN1_STRING_length(uri))});
    if (who && who->cluster == cluster)
      return who;
  }
  return std::nullopt;
}

result<tls_certificate> read_certificate(const std::string& path) {
  auto from = opened(path);
  if (!from)
    return from.error();
  tls_certificate read(PEM_read_X509(from->get(), nullptr, &no_passphrase, nullptr));
  if (!read)
    return {errc::invalid_argument, with_tls_reason(path + " holds no certificate in PEM form")};
  return read;
}

result<tls_key> read_key(const std::string& path) {
  auto from = opened(path);
  if (!from)
    return from.error();
  tls_key read(PEM_read_PrivateKey(from->get(), nullptr, &no_passphrase, nullptr));
  if (!read)
    return {errc::invalid_argument,
            with_tls_reason(path + " holds no private key in PEM form without a passphrase")};
  return read;
}

std::string with_tls_reason(std::string_view what) {
  const char* reason = ERR_reason_error_string(ERR_peek_last_error());
  ERR_clear_error();
  return reason == nullptr ? std::string(what) : fmt::format("{}: {}", what, reason);
}

} // namespace peercache::net
