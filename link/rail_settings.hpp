#pragma once

#include "config/node_config.hpp"
#include "rdma/verbs/rail_choice.hpp"

namespace peercache::link {

/// Returns the `data_plane`, `rdma.*` and `tls.data` options in the form that the data plane takes.
/// For nodes and clients.
rdma::rail_settings rails_of(const config::node_config& config);

} // namespace peercache::link
