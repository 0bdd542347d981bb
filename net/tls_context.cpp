#include "net/tls_context.hpp"

#include "common/log.hpp"
#include "net/tls_certificate.hpp"

#include <fmt/format.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <sys/stat.h>
#include <utility>

namespace peercache::net {

namespace {

/// Shortest time between two looks at the files that are caused by connections.
constexpr std::chrono::seconds file_look_every{1};

using context_ptr = std::shared_ptr<SSL_CTX>;

/// Names the state that the files are in, by a text that differs when a file was written or
/// replaced.
std::string state_of(const tls_files& files) {
  std::string text;
  for (const auto* path : {&files.certificate, &files.key, &files.authority}) {
    struct stat info {};
    if (::stat(path->c_str(), &info) != 0)
      info = {};
    text += fmt::format("{}:{}:{}:{}.{};", info.st_dev, info.st_ino, info.st_size,
                        info.st_mtim.tv_sec, info.st_mtim.tv_nsec);
  }
  return text;
}

context_ptr make_context() {
  // The process may end while a thread of ours still has connections, so OpenSSL frees nothing at
  // exit.
  OPENSSL_init_ssl(OPENSSL_INIT_NO_ATEXIT, nullptr);
  context_ptr made(SSL_CTX_new(TLS_method()), &SSL_CTX_free);
  PEERCACHE_ASSERT(made);
  SSL_CTX_set_min_proto_version(made.get(), TLS1_3_VERSION);
  SSL_CTX_set_options(made.get(), SSL_OP_NO_TICKET);
  SSL_CTX_set_num_tickets(made.get(), 0);
  SSL_CTX_set_session_cache_mode(made.get(), SSL_SESS_CACHE_OFF);
  SSL_CTX_set_mode(made.get(), SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
                                   SSL_MODE_RELEASE_BUFFERS);
  return made;
}

/// Whether this node's certificate is one that others of the cluster, with the same CA, would take.
result<void> check_own(SSL_CTX* context, const tls_files& files) {
  X509* own = SSL_CTX_get0_certificate(context);
  STACK_OF(X509)* between = nullptr;
  SSL_CTX_get0_chain_certs(context, &between);
  const std::unique_ptr<X509_STORE_CTX, decltype(&X509_STORE_CTX_free)> check(X509_STORE_CTX_new(),
                                                                              &X509_STORE_CTX_free);
  if (!check ||
      X509_STORE_CTX_init(check.get(), SSL_CTX_get_cert_store(context), own, between) != 1)
    return {errc::out_of_memory, with_tls_reason(files.certificate)};
  if (X509_verify_cert(check.get()) != 1) {
    const char* why = X509_verify_cert_error_string(X509_STORE_CTX_get_error(check.get()));
    ERR_clear_error();
    return {errc::invalid_argument,
            fmt::format("{} is not valid for {}: {}", files.certificate, files.authority, why)};
  }
  return {};
}

/// Whether the certificate allows what its role needs: every member dials, and nodes accept as
/// well.
bool serves(X509& own, tls_role role) {
  return X509_check_purpose(&own, X509_PURPOSE_SSL_CLIENT, 0) == 1 &&
         (role != tls_role::node || X509_check_purpose(&own, X509_PURPOSE_SSL_SERVER, 0) == 1);
}

struct read_files {
  context_ptr context;
  tls_identity self;
};

result<read_files> read(const tls_files& files) {
  if (files.certificate.empty() || files.key.empty() || files.authority.empty())
    return {errc::invalid_argument, "it takes a certificate, its key and the CA's certificate "
                                    "(`tls.cert`, `tls.key` and `tls.ca`)"};
  auto key = read_key(files.key);
  if (!key)
    return key.error();
  auto made = make_context();
  if (SSL_CTX_use_certificate_chain_file(made.get(), files.certificate.c_str()) != 1)
    return {errc::invalid_argument,
            with_tls_reason(files.certificate + " cannot be read as a certificate in PEM form")};
  if (SSL_CTX_use_PrivateKey(made.get(), key->get()) != 1)
    return {errc::invalid_argument,
            with_tls_reason(files.key + " is not the key of " + files.certificate)};
  if (SSL_CTX_load_verify_file(made.get(), files.authority.c_str()) != 1)
    return {errc::invalid_argument,
            with_tls_reason(files.authority + " cannot be read as certificates in PEM form")};
  if (auto fits = check_own(made.get(), files); !fits)
    return fits.error();
  auto self = identity_in(*SSL_CTX_get0_certificate(made.get()), files.cluster);
  if (!self)
    return {errc::invalid_argument,
            fmt::format("{} is of no member of the cluster `{}`; it needs a URI such as {} "
                        "in its subject alternative name (`peercache ca issue` writes it)",
                        files.certificate, files.cluster,
                        uri_of({files.cluster, tls_role::node, "NAME"}))};
  if (!serves(*SSL_CTX_get0_certificate(made.get()), self->role))
    return {errc::invalid_argument,
            files.certificate + " may not be used as it has to be: by its extended key usage it "
                                "needs clientAuth, and for a node serverAuth as well"};
  return read_files{std::move(made), std::move(*self)};
}

} // namespace

tls_context::tls_context(tls_files files, tls_identity self, shared_context read, std::string seen,
                         tls_peers dialled)
    : files_(std::move(files)), self_(std::move(self)), dialled_(dialled),
      context_(std::move(read)), seen_(std::move(seen)) {}

result<std::shared_ptr<tls_context>> tls_context::open(tls_files files) {
  auto seen = state_of(files);
  auto first = read(files);
  if (!first)
    return error{first.error().code, "TLS: " + first.error().message};
  return std::shared_ptr<tls_context>(new tls_context(std::move(files), std::move(first->self),
                                                      std::move(first->context), std::move(seen),
                                                      tls_peers::nodes));
}

std::shared_ptr<tls_context> tls_context::among_engines() {
  const std::lock_guard guard(lock_);
  return std::shared_ptr<tls_context>(
      new tls_context(files_, self_, context_, seen_, tls_peers::members));
}

result<std::shared_ptr<tls_context>> tls_context::open_if_given(const tls_paths& paths,
                                                                const std::string& cluster) {
  if (!paths.given())
    return std::shared_ptr<tls_context>();
  return open({paths, cluster});
}

bool tls_context::look_again() {
  const std::lock_guard guard(lock_);
  auto seen = state_of(files_); // Taken before the files are read, so that the next look notices a
                                // change during the reading.
  if (seen == seen_)
    return false;
  auto next = read(files_);
  if (next && next->self.role != self_.role)
    next = error{errc::invalid_argument,
                 fmt::format("{} is of the role `{}`, and was of the role `{}`", files_.certificate,
                             word_of(next->self.role), word_of(self_.role))};
  if (!next) {
    // `seen_` stays, so the next look reads these files again even if nobody changes them: a wrong
    // clock or a lack of descriptors may have been at fault.
    if (lines_.allows(seen, std::chrono::steady_clock::now()))
      log::warn("tls: the certificate, key and CA that were read before stay in use: {}",
                next.error().message);
    return false;
  }
  seen_ = std::move(seen);
  context_ = std::move(next->context);
  log::info("tls: read {}, {} and {} again", files_.certificate, files_.key, files_.authority);
  return true;
}

tls_context::shared_context tls_context::current() {
  const auto now = std::chrono::steady_clock::now();
  {
    const std::lock_guard guard(lock_);
    if (now < next_look_)
      return context_;
    next_look_ = now + file_look_every;
  }
  look_again();
  const std::lock_guard guard(lock_);
  return context_;
}

tls_session tls_context::dialled(int fd) {
  return {current().get(), fd, tls_session::side::dials, files_.cluster, dialled_};
}

tls_session tls_context::accepted(int fd, tls_peers wanted) {
  return {current().get(), fd, tls_session::side::accepts, files_.cluster, wanted};
}

tls_session tls_context::accepted_from_anyone(int fd) {
  return {current().get(), fd, tls_session::side::accepts, files_.cluster, tls_peers::anyone};
}

} // namespace peercache::net
