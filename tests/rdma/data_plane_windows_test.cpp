// The promises of every data plane, over READs whose keys are those of memory windows.

#include "tests/rdma/data_plane_conformance.hpp"

namespace peercache::rdma::data_plane_windows_test {
namespace {

using version = plane_version;
INSTANTIATE_TEST_SUITE_P(through_windows, data_plane_conformance,
                         testing::Values(version{"verbs", make_verbs_windows_rig},
                                         version{"verbs_leases", make_verbs_windows_rig,
                                                 data_service::handoff}),
                         plane_version::name_of);

} // namespace
} // namespace peercache::rdma::data_plane_windows_test
