#pragma once

#include "metrics/samples.hpp"

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace peercache::link {

// Reports say what actors tell of themselves besides their numbers; the numbers are samples and
// travel by name (link/protocol/samples_wire.hpp). A report travels field by field, in the order of
// its `inspect`: another field is another `wire_version`. User-declared constructors keep g++ from
// taking the structs for paren-initialisable aggregates.

/// The actors of a node that have a part in its report, as `node_report::silent` and people name
/// them.
namespace node_parts {
inline constexpr const char* pool = "pool";
inline constexpr const char* directory = "directory";
inline constexpr const char* membership = "membership";
inline constexpr const char* disk = "disk tier";
inline constexpr const char* links = "connections";
inline constexpr const char* promoter = "promoter";
inline constexpr const char* clearing = "clearing";
inline constexpr const char* overlap = "overlap index";
} // namespace node_parts

/// Something that keeps a node from being well, as the node itself says it.
struct node_fault {
  node_fault() = default;
  node_fault(std::string name, std::string words, std::string mend, std::uint64_t since = 0)
      : id(std::move(name)), what(std::move(words)), fix(std::move(mend)), since_ms(since) {}
  std::string id;             ///< A name of common/fault_ids.hpp.
  std::string what;           ///< What is wrong, in words, without the node's name.
  std::string fix;            ///< What to do; empty where `what` says it.
  std::uint64_t since_ms = 0; ///< Since when the fault lasts, in ms since 1970; 0: not known.
  bool operator==(const node_fault&) const = default;
  template <class Inspector>
  friend auto inspect(Inspector& f, node_fault& x) {
    return f(x.id, x.what, x.fix, x.since_ms);
  }
};

/// What a directory shard says besides its metrics.
struct directory_report {
  directory_report() = default;
  /// How many records the shard has of the pages in each node's pool, by the node's name.
  std::map<std::string, std::uint64_t> records_of;
  template <class Inspector>
  friend auto inspect(Inspector& f, directory_report& x) {
    return f(x.records_of);
  }
};

/// What a node's membership says besides its metrics.
struct membership_report {
  membership_report() = default;
  /// Addresses of discovery.seeds at which there is neither a member of the view nor a gone member;
  /// none before the node is in a view.
  std::vector<std::string> missing_seeds;
  /// What keeps the node out of the cluster's view: the answer of each address that the node asks
  /// to be taken in; and callers that the node itself refuses again and again.
  std::vector<node_fault> faults;
  template <class Inspector>
  friend auto inspect(Inspector& f, membership_report& x) {
    return f(x.missing_seeds, x.faults);
  }
};

/// What a node says of its connections to other nodes.
struct links_report {
  links_report() = default;
  /// Ports of members that this node cannot connect to, though it is connected with the member.
  std::vector<node_fault> faults;
  template <class Inspector>
  friend auto inspect(Inspector& f, links_report& x) {
    return f(x.faults);
  }
};

/// What the disk tier of a node says besides its metrics.
struct disk_report {
  disk_report() = default;
  std::string why_off; ///< Why the tier is off, in words; empty while it is on.
  std::string path;    ///< The folder in which the tier keeps this node's pages.
  std::string store;   ///< "bucket", "file_per_key", "offset".
  std::string io;      ///< "io_uring", or "posix" with the reason in `why_fallback`.
  std::string why_fallback;
  std::string breaker;    ///< "closed", "open", "half_open".
  bool verifying = false; ///< The whole tier is being read because an operator asked for it.
  /// Faults that have begun and not ended.
  std::vector<node_fault> faults;
  template <class Inspector>
  friend auto inspect(Inspector& f, disk_report& x) {
    return f(x.why_off, x.path, x.store, x.io, x.why_fallback, x.breaker, x.verifying, x.faults);
  }
};

/// What became of a clear.
struct clear_report {
  clear_report() = default;
  bool certain = false;    ///< No page from before the clear is ever a hit, for any client.
  std::uint32_t epoch = 0; ///< The space's epoch after the clear.
  std::vector<std::string> unaware; ///< Names of members that have not confirmed the clear.
  std::vector<std::string> missing; ///< Names of former members that may still live, unreachable.
  std::string why_not; ///< Why the clear is not certain, in words; empty when it is certain.
  template <class Inspector>
  friend auto inspect(Inspector& f, clear_report& x) {
    return f(x.certain, x.epoch, x.unaware, x.missing, x.why_not);
  }
};

/// What a drain came to.
struct drain_report {
  drain_report() = default;
  std::uint64_t given = 0;     ///< Directory records that their new owners took.
  std::uint64_t left = 0;      ///< Directory records that they did not get, or refused; at most.
  std::uint64_t unwritten = 0; ///< Pages in memory only that could not be written to disk in time.
  /// An actor of the node did not answer: more may be left and unwritten than the report says.
  bool uncertain = false;

  bool complete() const { return left == 0 && unwritten == 0 && !uncertain; }
  template <class Inspector>
  friend auto inspect(Inspector& f, drain_report& x) {
    return f(x.given, x.left, x.unwritten, x.uncertain);
  }
};

/// One node as `peercache status` shows it.
struct node_report {
  node_report() = default;
  std::string member;         ///< Encoded discovery::member.
  std::string unready_reason; ///< Why the node is not ready, in words; empty when it is ready.
  std::string data_plane;     ///< How the node serves pages, "tcp" or "verbs", with the reason.
  std::string version;        ///< The version of PeerCache that runs.
  /// The numbers of all actors of the node, and the sums of its clients' numbers.
  metrics::samples samples;
  directory_report directory;
  disk_report disk;
  membership_report membership;
  links_report links;
  std::uint16_t lookup_port = 0; ///< The port where the directory answers clients.
  std::uint64_t unix_ms = 0;     ///< The node's time of day when it answered, in ms since 1970.
  /// The options that all members of a cluster need alike, by their names.
  std::map<std::string, std::string> common_options;
  /// Names (`node_parts`) of the node's actors that did not answer the gateway in time: the report
  /// lacks their numbers and what they say.
  std::vector<std::string> silent;
  template <class Inspector>
  friend auto inspect(Inspector& f, node_report& x) {
    return f(x.member, x.unready_reason, x.data_plane, x.version, x.samples, x.directory, x.disk,
             x.membership, x.links, x.lookup_port, x.unix_ms, x.common_options, x.silent);
  }
};

/// The pages that a client has named in one key space.
struct session_space {
  session_space() = default;
  std::uint64_t space = 0;         ///< The space_id.
  std::string door;                ///< Maker of the key space: "sglang", ...; empty: not told.
  std::vector<std::string> fields; ///< Fields of the key space; none: not told.
  std::uint64_t asked = 0;         ///< Pages of exists and get.
  std::uint64_t stored = 0;        ///< Pages of set.
  template <class Inspector>
  friend auto inspect(Inspector& f, session_space& x) {
    return f(x.space, x.door, x.fields, x.asked, x.stored);
  }
};

/// One client of a node, as `peercache sessions` shows it.
struct session_row {
  session_row() = default;
  std::string client;          ///< Name of the client: "client-PID/VERSION".
  std::uint64_t opened_ms = 0; ///< When the session was opened, by the node's clock; ms since 1970.
  bool silent = false;         ///< The connection is lost; the process may live.
  std::uint32_t slots = 0;     ///< Slots that the client is filling, or may fill.
  metrics::samples totals;     ///< What the client has counted since its start.
  /// Why the client is slower than it could be, in words; empty: it is not.
  std::string slow_path;
  std::vector<session_space> spaces;
  template <class Inspector>
  friend auto inspect(Inspector& f, session_row& x) {
    return f(x.client, x.opened_ms, x.silent, x.slots, x.totals, x.slow_path, x.spaces);
  }
};

/// The clients of a node.
struct sessions_report {
  sessions_report() = default;
  std::vector<session_row> rows;
  template <class Inspector>
  friend auto inspect(Inspector& f, sessions_report& x) {
    return f(x.rows);
  }
};

} // namespace peercache::link
