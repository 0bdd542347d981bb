#pragma once

#include <algorithm>
#include <array>
#include <string_view>

/// The names of everything that `peercache status` calls a fault, as its JSON and the monitoring
/// rules use them; docs/errors.md says what each fault means and what to do. The name of a fault
/// that no longer exists is not given to another one.
namespace peercache::fault_ids {

using name = const char*;

// Faults of a cluster, which only the reports of all its nodes together show.
inline constexpr name fragment = "view-fragment";
inline constexpr name no_majority = "masters-no-majority";
inline constexpr name node_gone = "node-gone";
inline constexpr name node_restarted = "node-restarted";
inline constexpr name node_silent = "node-silent";
inline constexpr name node_unready = "node-unready";
inline constexpr name not_in_cluster = "node-not-in-cluster";
inline constexpr name links_missing = "node-links-missing";
inline constexpr name seed_missing = "seed-missing";
inline constexpr name seed_only_self = "seed-only-self";
inline constexpr name join_turned_away = "join-turned-away";
inline constexpr name status_incomplete = "status-incomplete";
inline constexpr name view_differs = "view-differs";

// Differences between members, and ports of members that other members cannot reach.
inline constexpr name clock_differs = "clock-differs";
inline constexpr name option_differs = "option-differs";
inline constexpr name port_out_of_reach = "port-out-of-reach";
inline constexpr name version_differs = "version-differs";

// Why a node is not in the cluster's view: the answers of the nodes that it asks to take it in.
inline constexpr name advertise_out_of_reach = "advertise-out-of-reach";
inline constexpr name join_refused = "join-refused";
inline constexpr name name_in_use = "name-in-use";
inline constexpr name pushed_out = "pushed-out";
inline constexpr name seed_no_address = "seed-no-address";
inline constexpr name seed_no_control_port = "seed-no-control-port";
inline constexpr name seed_other_cluster = "seed-other-cluster";
inline constexpr name seed_speaks_other = "seed-other-version";
inline constexpr name seed_silent = "seed-silent";
inline constexpr name seed_tls = "seed-tls";
inline constexpr name seed_undecided = "seed-undecided";
inline constexpr name seed_unreachable = "seed-unreachable";

// Faults of a node's disk tier.
inline constexpr name disk_failing = "disk-failing";
inline constexpr name disk_full = "disk-full";
inline constexpr name disk_hung = "disk-hung";
inline constexpr name disk_off = "disk-off";
inline constexpr name disk_other_store = "disk-other-store";
inline constexpr name disk_rotten = "disk-rotten";
inline constexpr name disk_slow = "disk-slow";

inline constexpr std::array all{
    fragment,           no_majority,       node_gone,         node_restarted,
    node_silent,        node_unready,      not_in_cluster,    links_missing,
    seed_missing,       seed_only_self,    join_turned_away,  view_differs,
    disk_failing,       disk_full,         disk_off,          disk_hung,
    clock_differs,      option_differs,    port_out_of_reach, version_differs,
    disk_other_store,   disk_rotten,       disk_slow,         advertise_out_of_reach,
    join_refused,       name_in_use,       pushed_out,        seed_no_control_port,
    seed_other_cluster, seed_speaks_other, seed_silent,       seed_tls,
    seed_undecided,     seed_unreachable,  seed_no_address,   status_incomplete};

/// Whether a word is the name of a fault.
constexpr bool is_name(std::string_view word) {
  return std::any_of(all.begin(), all.end(), [&](std::string_view id) { return id == word; });
}

} // namespace peercache::fault_ids
