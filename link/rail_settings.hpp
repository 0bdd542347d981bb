#pragma once

#include "config/node_config.hpp"
#include "rdma/verbs/rail_choice.hpp"

namespace peercache::link {

/// The `data_plane` and `rdma.*` options as the data plane takes them; nodes and clients alike.
rdma::rail_settings rails_of(const config::node_config& config);

} // namespace peercache::link
