#include "handoff/links/link_options.hpp"

#include "common/loopback.hpp"

namespace peercache::handoff {

result<void> may_listen(const std::string& host, bool under_tls, bool insecure_cluster) {
  if (is_loopback(host) || under_tls || insecure_cluster)
    return {};
  return {errc::refused,
          "a worker is to listen on " + host +
              ": other hosts could connect, and peers are not authenticated, so anyone who reaches "
              "the port could read the KV of prompts; set `tls.cert`, `tls.key` and `tls.ca`, "
              "listen on "
              "127.0.0.1, or set `insecure_cluster = true` if the network is trusted"};
}

} // namespace peercache::handoff
