#include "cli/run_certificates.hpp"

#include "net/tls_authority.hpp"

namespace peercache::cli {

result<tls_paths> make_run_certificates(const std::filesystem::path& folder,
                                        const std::string& cluster) {
  auto authority = net::tls_authority::make(folder, cluster);
  if (!authority)
    return authority.error();
  auto made = authority->issue(net::tls_role::node, "node", folder);
  if (!made)
    return made.error();
  return tls_paths{made->certificate, made->key, authority->certificate()};
}

} // namespace peercache::cli
