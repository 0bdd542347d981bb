#pragma once

#include <array>

/// The names of the checks of `peercache doctor`, as its JSON has them; docs/doctor.md says of each
/// what it judges. A name is never given to another check.
namespace peercache::cli::check_ids {

using name = const char*;

// Checks of the group rdma.
inline constexpr name data_plane = "data-plane";
inline constexpr name rdma_device = "rdma-device";
inline constexpr name rdma_port = "rdma-port";
inline constexpr name rdma_gid = "rdma-gid";
inline constexpr name rdma_mtu = "rdma-mtu";
inline constexpr name rdma_windows = "rdma-windows";
inline constexpr name memlock = "memlock";
inline constexpr name huge_pages = "huge-pages";
inline constexpr name hugetlbfs = "hugetlbfs";

// Checks of the group host.
inline constexpr name shared_memory = "shared-memory";
inline constexpr name memory = "memory";
inline constexpr name cgroup_memory = "cgroup-memory";
inline constexpr name open_files = "open-files";

// Checks of the group identity.
inline constexpr name tls = "tls";
inline constexpr name advertise = "advertise";

// Checks of the group files.
inline constexpr name node_group = "node-group";
inline constexpr name socket_folder = "socket-folder";
inline constexpr name log_file = "log-file";

// Checks of the group ports.
inline constexpr name port = "port";

// Checks of the group seeds.
inline constexpr name seed = "seed";

// Checks of the group disk.
inline constexpr name disk_tier = "disk-tier";
inline constexpr name disk_folder = "disk-folder";
inline constexpr name disk_owner = "disk-owner";
inline constexpr name disk_store = "disk-store";
inline constexpr name disk_file_system = "disk-file-system";
inline constexpr name disk_direct = "disk-direct";
inline constexpr name disk_uring = "disk-io-uring";
inline constexpr name disk_sync = "disk-fsync";
inline constexpr name disk_space = "disk-space";

// Checks that any group may have.
inline constexpr name no_answer = "no-answer";

inline constexpr std::array all{data_plane,   rdma_device,   rdma_port,        rdma_gid,
                                rdma_mtu,     memlock,       huge_pages,       hugetlbfs,
                                memory,       shared_memory, open_files,       cgroup_memory,
                                port,         seed,          disk_tier,        disk_folder,
                                disk_owner,   disk_store,    disk_file_system, disk_direct,
                                disk_uring,   disk_sync,     disk_space,       tls,
                                advertise,    node_group,    socket_folder,    log_file,
                                rdma_windows, no_answer};

} // namespace peercache::cli::check_ids
