// Tests of what every data plane promises, over connections under TLS: pages are sent outside TLS,
// inside TLS, or read by RDMA after a handshake inside TLS.

#include "tests/rdma/data_plane_conformance.hpp"

namespace peercache::rdma::data_plane_tls_test {
namespace {

template <bool pages_in_tls>
std::unique_ptr<plane_rig> make_tcp_tls_rig(data_service what) {
  tcp_data_plane_options options;
  options.tls = rig_certificates::get().client;
  options.pages_in_tls = pages_in_tls;
  return std::make_unique<tcp_rig>(options, what);
}

using version = plane_version;
INSTANTIATE_TEST_SUITE_P(over_tls, data_plane_conformance,
                         testing::Values(version{"tcp", make_tcp_tls_rig<false>},
                                         version{"tcp_full", make_tcp_tls_rig<true>},
                                         version{"verbs", make_verbs_tls_rig}),
                         plane_version::name_of);

} // namespace
} // namespace peercache::rdma::data_plane_tls_test
