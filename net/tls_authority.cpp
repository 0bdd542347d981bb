#include "net/tls_authority.hpp"

#include "net/tls_certificate.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <fmt/format.h>
#include <functional>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

namespace peercache::net {

namespace {

/// Certificates are valid from this long before they are made, because clocks of a cluster's hosts
/// may differ by this much.
constexpr std::chrono::hours backdated{1};
constexpr std::size_t name_bytes_max = 255;
constexpr mode_t key_mode = 0600;
constexpr mode_t certificate_mode = 0644;

error failure(const std::string& path) {
  return {errc::io_failed, fmt::format("{}: {}", path, std::strerror(errno))};
}

result<void> make_folder(const std::string& folder) {
  if (::mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST)
    return failure(folder);
  return {};
}

/// Writes a file under another name, syncs it, and renames it to `path`.
result<void> write_file(const std::string& path, mode_t mode,
                        const std::function<bool(std::FILE*)>& write) {
  const auto beside = path + ".new";
  ::unlink(beside.c_str());
  const int fd = ::open(beside.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
  if (fd < 0)
    return failure(beside);
  std::FILE* file = ::fdopen(fd, "w");
  if (file == nullptr) {
    ::close(fd);
    return failure(beside);
  }
  const bool written = write(file) && std::fflush(file) == 0 && ::fsync(fd) == 0;
  if (std::fclose(file) == 0 && written && ::rename(beside.c_str(), path.c_str()) == 0)
    return {};
  const auto why = failure(path);
  ::unlink(beside.c_str()); // The unfinished file may hold a private key.
  return why;
}

result<void> write_pair(const std::string& certificate_path, X509* certificate,
                        const std::string& key_path, EVP_PKEY* key) {
  auto written = write_file(key_path, key_mode, [&](std::FILE* file) {
    return PEM_write_PrivateKey(file, key, nullptr, nullptr, 0, nullptr, nullptr) == 1;
  });
  if (!written)
    return written;
  return write_file(certificate_path, certificate_mode,
                    [&](std::FILE* file) { return PEM_write_X509(file, certificate) == 1; });
}

bool add_extension(X509* to, X509* issuer, int id, const std::string& value) {
  X509V3_CTX context;
  X509V3_set_ctx_nodb(&context);
  X509V3_set_ctx(&context, issuer, to, nullptr, nullptr, 0);
  X509_EXTENSION* made = X509V3_EXT_conf_nid(nullptr, &context, id, value.c_str());
  const bool added = made != nullptr && X509_add_ext(to, made, -1) == 1;
  X509_EXTENSION_free(made);
  return added;
}

bool add_to_name(X509_NAME* name, const char* field, std::string_view text) {
  return X509_NAME_add_entry_by_txt(name, field, MBSTRING_UTF8,
                                    reinterpret_cast<const unsigned char*>(text.data()),
                                    static_cast<int>(text.size()), -1, 0) == 1;
}

bool number(X509* certificate) {
  std::array<unsigned char, 16> bytes{};
  if (RAND_bytes(bytes.data(), static_cast<int>(bytes.size())) != 1)
    return false;
  bytes[0] &= 0x7f; // A serial number is positive.
  BIGNUM* value = BN_bin2bn(bytes.data(), static_cast<int>(bytes.size()), nullptr);
  const bool set =
      value != nullptr && BN_to_ASN1_INTEGER(value, X509_get_serialNumber(certificate)) != nullptr;
  BN_free(value);
  return set;
}

/// Random digits for a CA's name, which tell the CAs of one cluster apart: the issuer of a
/// certificate is looked up by its name, and two of one name in `tls.ca` would be confused.
std::string some_digits() {
  std::array<unsigned char, 4> bytes{};
  RAND_bytes(bytes.data(), static_cast<int>(bytes.size()));
  return fmt::format("{:02x}", fmt::join(bytes, ""));
}

/// A certificate without extensions, for this key; null when OpenSSL has no memory for it.
tls_certificate blank(EVP_PKEY* key, std::chrono::seconds lifetime) {
  tls_certificate made(X509_new());
  const auto begin = -std::chrono::seconds(backdated).count();
  if (!made || X509_set_version(made.get(), 2) != 1 || !number(made.get()) ||
      X509_gmtime_adj(X509_getm_notBefore(made.get()), begin) == nullptr ||
      X509_gmtime_adj(X509_getm_notAfter(made.get()), lifetime.count()) == nullptr ||
      X509_set_pubkey(made.get(), key) != 1)
    return nullptr;
  return made;
}

/// The cluster that a CA is of: the organization that its certificate names.
std::string cluster_of(const X509& authority) {
  const auto* name = X509_get_subject_name(&authority);
  const int at = X509_NAME_get_index_by_NID(name, NID_organizationName, -1);
  if (at < 0)
    return {};
  const auto* text = X509_NAME_ENTRY_get_data(X509_NAME_get_entry(name, at));
  return {reinterpret_cast<const char*>(ASN1_STRING_get0_data(text)),
          static_cast<std::size_t>(ASN1_STRING_length(text))};
}

/// A field of a certificate's name has at most 64 characters, so a long cluster name does not fit.
constexpr std::size_t cluster_bytes_max = 64;
constexpr const char* no_memory = "OpenSSL cannot make a certificate";

bool is_file_name(const std::string& name) {
  return !name.empty() && name.size() <= name_bytes_max && name != "." && name != ".." &&
         std::all_of(name.begin(), name.end(),
                     [](char c) { return c > ' ' && c <= '~' && c != '/'; });
}

/// The subject alternative names of a certificate: the URI, and a node's name as well, which HTTPS
/// clients check.
std::string alternative_names(const std::string& uri, tls_role role, const std::string& name) {
  const bool host_name = std::all_of(name.begin(), name.end(), [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '.' || c == '-';
  });
  return "URI:" + uri + (role == tls_role::node && host_name ? ",DNS:" + name : "");
}

} // namespace

result<tls_authority> tls_authority::make(const std::string& folder, const std::string& cluster) {
  tls_authority made(folder, cluster);
  if (cluster.empty() || cluster.size() > cluster_bytes_max)
    return {errc::invalid_argument, "a cluster with TLS has a name of 1 to 64 bytes"};
  if (auto there = make_folder(folder); !there)
    return there.error();
  if (::access((folder + "/ca.key").c_str(), F_OK) == 0)
    return {errc::refused, folder + " has a CA already; its members would no longer be believed"};
  const tls_key key(EVP_EC_gen("P-256"));
  auto certificate = blank(key.get(), own_lifetime);
  if (!key || !certificate)
    return {errc::out_of_memory, with_tls_reason(no_memory)};
  auto* name = X509_get_subject_name(certificate.get());
  auto* own = certificate.get();
  if (!add_to_name(name, "O", cluster) ||
      !add_to_name(name, "CN", "PeerCache CA " + some_digits()) ||
      X509_set_issuer_name(own, name) != 1 ||
      !add_extension(own, own, NID_basic_constraints, "critical,CA:TRUE,pathlen:0") ||
      !add_extension(own, own, NID_key_usage, "critical,keyCertSign") ||
      !add_extension(own, own, NID_subject_key_identifier, "hash") ||
      X509_sign(own, key.get(), EVP_sha256()) == 0)
    return {errc::invalid_argument, with_tls_reason(no_memory)};
  if (auto written = write_pair(made.certificate(), own, folder + "/ca.key", key.get()); !written)
    return written.error();
  return made;
}

result<tls_authority> tls_authority::open(const std::string& folder) {
  const auto certificate = read_certificate(folder + "/ca.crt");
  if (!certificate)
    return error{certificate.error().code,
                 certificate.error().message + " (`peercache ca init FOLDER` makes a CA)"};
  auto cluster = cluster_of(**certificate);
  if (cluster.empty())
    return {errc::invalid_argument,
            folder + "/ca.crt names no cluster (as its organization, O); `peercache ca init` does"};
  return tls_authority(folder, std::move(cluster));
}

result<tls_authority::issued> tls_authority::issue(tls_role role, const std::string& name,
                                                   const std::string& folder,
                                                   std::chrono::seconds lifetime) const {
  if (!is_file_name(name))
    return {errc::invalid_argument, "'" + name +
                                        "' is no name: it is part of a file's, and has 1 to 255 "
                                        "printable bytes without spaces and `/`"};
  const auto authority = read_certificate(certificate());
  const auto authority_key = read_key(folder_ + "/ca.key");
  if (!authority || !authority_key)
    return authority ? authority_key.error() : authority.error();
  if (auto there = make_folder(folder); !there)
    return there.error();
  const tls_key key(EVP_EC_gen("P-256"));
  auto certificate = blank(key.get(), lifetime);
  if (!key || !certificate)
    return {errc::out_of_memory, with_tls_reason(no_memory)};
  issued made{folder + "/" + name + ".crt", folder + "/" + name + ".key",
              uri_of({cluster_, role, name})};
  auto* own = certificate.get();
  auto* issuer = authority->get();
  if (!add_to_name(X509_get_subject_name(own), "CN", word_of(role)) ||
      X509_set_issuer_name(own, X509_get_subject_name(issuer)) != 1 ||
      !add_extension(own, issuer, NID_basic_constraints, "critical,CA:FALSE") ||
      !add_extension(own, issuer, NID_key_usage, "critical,digitalSignature") ||
      !add_extension(own, issuer, NID_ext_key_usage, "serverAuth,clientAuth") ||
      !add_extension(own, issuer, NID_authority_key_identifier, "keyid:always") ||
      !add_extension(own, issuer, NID_subject_alt_name, alternative_names(made.uri, role, name)) ||
      X509_sign(own, authority_key->get(), EVP_sha256()) == 0)
    return {errc::invalid_argument, with_tls_reason(no_memory)};
  if (auto written = write_pair(made.certificate, own, made.key, key.get()); !written)
    return written.error();
  return made;
}

} // namespace peercache::net
