#pragma once

#include "common/assert.hpp"
#include "net/tls_authority.hpp"
#include "net/tls_context.hpp"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <utility>

namespace peercache {

/// A cluster's certificate authority and the certificates that it issues, in a temporary folder
/// that this object removes at its end.
class certificates {
public:
  explicit certificates(const std::string& cluster = "peercache")
      : authority_(std::move(*net::tls_authority::make(folder_ + "/ca", cluster))) {}
  ~certificates() {
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }
  certificates(const certificates&) = delete;
  certificates& operator=(const certificates&) = delete;

  const std::string& folder() const noexcept { return folder_; }
  const net::tls_authority& authority() const noexcept { return authority_; }

  /// Issues a certificate, which replaces an earlier certificate of the same name.
  net::tls_files issue(net::tls_role role, const std::string& name,
                       std::chrono::seconds lifetime = std::chrono::hours(1)) const {
    auto made = authority_.issue(role, name, folder_, lifetime);
    PEERCACHE_ASSERT(made);
    return {{made->certificate, made->key, authority_.certificate()}, authority_.cluster()};
  }
  net::tls_files node(const std::string& name = "node-1") const {
    return issue(net::tls_role::node, name);
  }
  net::tls_files client(const std::string& name = "engine") const {
    return issue(net::tls_role::client, name);
  }

private:
  static std::string make_folder() {
    std::string path = (std::filesystem::temp_directory_path() / "peercache-tls-XXXXXX").string();
    PEERCACHE_ASSERT(::mkdtemp(path.data()) != nullptr);
    return path;
  }

  const std::string folder_ = make_folder();
  const net::tls_authority authority_;
};

/// Opens the TLS context of these files. @pre the files' certificate, key and CA belong together
inline std::shared_ptr<net::tls_context> context_of(const net::tls_files& files) {
  auto made = net::tls_context::open(files);
  PEERCACHE_ASSERT(made);
  return std::move(*made);
}

} // namespace peercache
