#pragma once

#include "rdma/verbs/device.hpp"

namespace peercache::rdma::verbs {

/// The used entries of a port's GID table, by index. When the provider does not say an entry's
/// type, sysfs is asked; an entry that sysfs does not know either counts as RoCE v1.
std::vector<gid_entry> read_gid_table(ibv_context& context, std::uint8_t port, int entries,
                                      link_layer layer);

} // namespace peercache::rdma::verbs
