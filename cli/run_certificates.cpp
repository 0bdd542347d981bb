#include "cli/run_certificates.hpp"

#include "net/tls_authority.hpp"

namespace peercache::cli {

result<node_certificates> make_run_certificates(const std::filesystem::path& folder,
                                                const std::string& cluster) {
  auto authority = net::tls_authority::make(folder, cluster);
  if (!authority)
    return authority.error();
  return node_certificates(
      [folder, issuer = std::move(*authority)](const std::string& name) -> result<tls_paths> {
        auto made = issuer.issue(net::tls_role::node, name, folder);
        if (!made)
          return made.error();
        return tls_paths{made->certificate, made->key, issuer.certificate()};
      });
}

} // namespace peercache::cli
