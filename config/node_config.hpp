#pragma once

#include "common/call_modes.hpp"
#include "common/tls_paths.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <concepts>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace peercache::config {

enum class huge_pages : std::uint8_t { off, size_2mib, size_1gib };
/// Bytes of one such page; 0 for `off`.
constexpr std::uint64_t bytes_of(huge_pages size) noexcept {
  return size == huge_pages::size_1gib ? 1u << 30 : size == huge_pages::size_2mib ? 2u << 20 : 0;
}
enum class eviction_mode : std::uint8_t { automatic, lru, s3fifo };
enum class data_plane_mode : std::uint8_t { automatic, verbs, tcp };
enum class mirror_mode : std::uint8_t { off, hot, all };
enum class disk_store_mode : std::uint8_t { bucket, file_per_key, offset };
enum class disk_policy : std::uint8_t { write_through, on_evict };
enum class disk_eviction : std::uint8_t { fifo, lru };
/// How much of the traffic with the data port is inside TLS, if there is TLS.
enum class tls_data_mode : std::uint8_t { handshake, full };
/// The clients that may read more than the health checks at the HTTP port, if there is TLS.
enum class http_readers : std::uint8_t { members, anyone };
enum class log_level : std::uint8_t { trace, debug, info, warn, error, off };

/// The words users write for an enum, in the order of its enumerators.
template <class Enum>
inline constexpr std::array<std::string_view, 0> words_of{};
template <>
inline constexpr std::array<std::string_view, 3> words_of<huge_pages>{"off", "2MiB", "1GiB"};
template <>
inline constexpr std::array<std::string_view, 3> words_of<eviction_mode>{"auto", "lru", "s3fifo"};
template <>
inline constexpr std::array<std::string_view, 3> words_of<data_plane_mode>{"auto", "verbs", "tcp"};
template <>
inline constexpr std::array<std::string_view, 3> words_of<verify_mode>{"off", "sample", "always"};
template <>
inline constexpr std::array<std::string_view, 2> words_of<duplicate_mode>{"skip", "store"};
template <>
inline constexpr std::array<std::string_view, 3> words_of<mirror_mode>{"off", "hot", "all"};
template <>
inline constexpr std::array<std::string_view, 3> words_of<disk_store_mode>{"bucket", "file_per_key",
                                                                           "offset"};
template <>
inline constexpr std::array<std::string_view, 2> words_of<disk_policy>{"write_through", "on_evict"};
template <>
inline constexpr std::array<std::string_view, 2> words_of<disk_eviction>{"fifo", "lru"};
template <>
inline constexpr std::array<std::string_view, 2> words_of<tls_data_mode>{"handshake", "full"};
template <>
inline constexpr std::array<std::string_view, 2> words_of<http_readers>{"members", "anyone"};
template <>
inline constexpr std::array<std::string_view, 6> words_of<log_level>{"trace", "debug", "info",
                                                                     "warn",  "error", "off"};

/// An enum that users choose by word.
template <class Enum>
concept worded_enum = std::is_enum_v<Enum> && !words_of<Enum>.empty();

template <worded_enum Enum>
constexpr std::string_view to_string(Enum value) noexcept {
  return words_of<Enum>[static_cast<std::size_t>(value)];
}

/// Value of `rdma.gid_index` for which the node chooses an entry from those that the port has.
inline constexpr std::uint32_t rdma_gid_chosen = 255;

/// Host and port where a process listens.
struct host_port {
  std::string host; ///< A name or address; IPv6 without brackets.
  std::uint16_t port = 0;
  bool operator==(const host_port&) const = default;
};

/// Everything that can be configured, typed. `load` (config/load.hpp) fills the fields; their
/// meanings, defaults and bounds stand in the option table (config/options.cpp) and in
/// docs/configuration.md, and only there: a node_config that `load` did not make holds zeros.
/// Threads: a value. Units: in the fields' names; a duration's type has its unit.
struct node_config {
  struct node_section {
    std::string name;
    std::string group; ///< A group that shares socket and pool; empty: none.
    bool operator==(const node_section&) const = default;
  } node;

  struct cluster_section {
    std::string name;
    bool insecure = false; ///< Users write this option as `insecure_cluster`.
    bool operator==(const cluster_section&) const = default;
  } cluster;

  struct net_section {
    std::string bind;
    std::string advertise; ///< Address for other hosts. Never empty after `load`.
    std::uint16_t control_port = 0;
    std::uint16_t lookup_port = 0;
    std::uint16_t data_port = 0;
    std::uint16_t http_port = 0;
    /// Folder of the node's Unix socket; empty: see net::host_socket_folders.
    std::string socket_folder;
    bool lookup_datagrams = false;
    bool operator==(const net_section&) const = default;
  } net;

  tls_paths tls; ///< Users write these options as `tls.cert`, `tls.key` and `tls.ca`.
  /// Users write this option as `tls.data`.
  tls_data_mode tls_data = tls_data_mode::handshake;

  struct discovery_section {
    /// Nodes to join through; the first is the pinned head, which is a master whenever it is a
    /// member. Empty: a cluster of one.
    std::vector<host_port> seeds;
    std::uint32_t max_masters = 0;
    std::chrono::milliseconds heartbeat{};
    std::chrono::milliseconds expiry{};
    bool operator==(const discovery_section&) const = default;
  } discovery;

  struct directory_section {
    std::uint32_t replicas = 0;
    std::uint64_t records_max = 0;
    std::uint64_t republish_rate = 0; ///< Records that are republished in a second; 0: no limit.
    std::uint64_t repair_rate = 0;    ///< Bytes that repair compares in a second; 0: no repair.
    bool operator==(const directory_section&) const = default;
  } directory;

  struct overlap_section {
    std::uint64_t gpu_keys = 0; ///< Keys on GPUs that the engines of a host may tell of.
    bool operator==(const overlap_section&) const = default;
  } overlap;

  struct pool_section {
    std::uint64_t size_bytes = 0;
    config::huge_pages huge_pages = config::huge_pages::off;
    /// Threads that touch the pool; 0: as many as the machine has cores.
    std::uint32_t prefault_threads = 0;
    eviction_mode eviction = eviction_mode::automatic;
    double free_low = 0;  ///< Fraction of the pool; eviction starts when less is free.
    double free_high = 0; ///< Fraction of the pool that is free when eviction stops.
    std::string name_prefix;
    bool keep = false;          ///< Whether the pool's pages outlive the process.
    bool scrub_evicted = false; ///< Whether bytes of evicted pages are zeroed, as of removed ones.
    mirror_mode mirror = mirror_mode::off;
    double mirror_share = 0; ///< Fraction of the pool that copies of other hosts' pages may take.
    double hold_share = 0;   ///< Fraction of the pool that may be held against eviction.
    bool operator==(const pool_section&) const = default;
  } pool;

  struct data_section {
    /// Users write this option as `data_plane`.
    data_plane_mode plane = data_plane_mode::automatic;
    std::uint32_t max_channels_per_peer = 0;
    std::chrono::milliseconds send_timeout{};
    bool operator==(const data_section&) const = default;
  } data;

  struct rdma_section {
    std::vector<std::string> devices; ///< Names of RDMA devices; {"auto"}: all that are usable.
    std::uint32_t port = 0;           ///< Port of each device; 0: the first active one.
    /// Index into the GID table; `rdma_gid_chosen`: the node chooses.
    std::uint32_t gid_index = 0;
    std::uint32_t traffic_class = 0;
    std::uint32_t service_level = 0;
    std::uint32_t hop_limit = 0;
    std::uint32_t timeout = 0; ///< A packet is sent again after 4.096 µs × 2^timeout.
    std::uint32_t retries = 0;
    std::uint64_t chunk_bytes = 0; ///< Bytes of each chunk in which the pool is registered.
    std::uint32_t registration_threads = 0;
    std::uint64_t bounce_bytes = 0;
    bool windows = false; ///< Whether each reader gets keys of its own, by memory windows.
    bool operator==(const rdma_section&) const = default;
  } rdma;

  struct disk_section {
    bool enabled = false;
    /// Absolute path; the node's folder is <path>/<node.name>. Empty: no disk tier.
    std::string path;
    std::uint64_t size_bytes = 0;
    double high_watermark = 0; ///< Fraction of size_bytes; eviction starts when more is used.
    double low_watermark = 0;  ///< Fraction of size_bytes; eviction stops when no more is used.
    disk_store_mode store = disk_store_mode::bucket;
    disk_eviction eviction = disk_eviction::fifo;
    /// Age at which pages on disk are dropped; 0: pages are kept whatever their age.
    std::chrono::milliseconds ttl{};
    /// Size of a bucket's file, as configured; the node takes `file_bytes`.
    std::uint64_t bucket_bytes = 0;
    std::uint32_t bucket_keys = 0;
    disk_policy policy = disk_policy::write_through;
    /// Most bytes of pages that may wait to be written, as configured; the node allows no more than
    /// a quarter of the pool.
    std::uint64_t queue_bytes = 0;
    std::uint32_t queue_depth = 0;
    std::uint64_t promote_bytes = 0;
    bool warm = false;
    std::uint64_t scrub_bytes_per_s = 0; ///< Rate of the scrub in bytes a second; 0: no scrub.
    bool verify = false;
    bool operator==(const disk_section&) const = default;

    /// Whether the node should have a disk tier.
    bool wanted() const noexcept { return enabled && !path.empty(); }
    /// The size of a bucket's file: with fewer than four of them, evicting one would take more than
    /// a quarter of the pages.
    std::uint64_t file_bytes() const noexcept { return std::min(bucket_bytes, size_bytes / 4); }
  } disk;

  struct client_section {
    std::string node_host;
    std::uint16_t node_port = 0;
    std::chrono::milliseconds timeout{};
    verify_mode verify_own_host = verify_mode::off;
    verify_mode verify_tcp = verify_mode::off;
    verify_mode verify_rdma = verify_mode::off;
    /// With the mode `sample`, a get compares the checksum of one page in this many.
    std::uint32_t verify_sample = 0;
    std::uint64_t location_cache_keys = 0;
    std::uint64_t unacknowledged_bytes_max = 0;
    bool operator==(const client_section&) const = default;
  } client;

  struct set_section {
    duplicate_mode duplicate = duplicate_mode::skip;
    bool operator==(const set_section&) const = default;
  } set;

  struct metrics_section {
    bool enabled = false;
    std::string bind; ///< Address of the HTTP port. Never empty after `load`.
    bool dashboard = false;
    http_readers readers = http_readers::members;
    bool operator==(const metrics_section&) const = default;
  } metrics;

  struct log_section {
    log_level level = log_level::trace;
    bool json = false;
    std::string file; ///< Absolute path of the log; empty: stderr.
    bool operator==(const log_section&) const = default;
  } log;

  struct actors_section {
    std::uint32_t threads = 0;
    bool operator==(const actors_section&) const = default;
  } actors;

  struct drain_section {
    std::chrono::milliseconds timeout{};
    bool operator==(const drain_section&) const = default;
  } drain;

  bool dev = false;

  bool operator==(const node_config&) const = default;
};

} // namespace peercache::config
