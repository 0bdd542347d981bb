#pragma once

#include "common/result.hpp"
#include "rdma/verbs/path_options.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace peercache::rdma {

namespace verbs {
struct device_listing;
}

enum class plane_mode : std::uint8_t {
  automatic, ///< Rails where a device is usable, TCP elsewhere.
  verbs,     ///< Rails; an error where none can be used.
  tcp
};

/// The operator's settings for rails; nodes and clients have the same ones.
struct rail_settings {
  plane_mode mode = plane_mode::automatic;
  /// Names of devices, or "auto" for all that are usable.
  std::vector<std::string> devices = {"auto"};
  std::uint8_t port = 0; ///< Port of each device; 0: its first active one.
  /// Index into the port's GID table; -1: chosen as `choose_gid` says.
  std::int32_t gid_index = -1;
  verbs::path_options path;
  /// Whether a server tells each reader keys of its own, by memory windows; who only reads needs
  /// none.
  bool windows = false;
  /// Whether pages have to be inside TLS: READs are not inside it, so no rails are chosen then.
  bool pages_in_tls = false;
};

/// The rails that an operator's settings select on this machine.
struct rail_choice {
  struct rail {
    std::string device;
    std::uint8_t port = 0;
  };
  std::vector<rail> rails; ///< The rails to use; empty means TCP.
  std::string why; ///< One line for log, status and metric: which rails were taken, and why.
};

/// Chooses the rails that these settings allow on this machine. Errors, each with what to do: the
/// path's options are not allowed; or `mode` is verbs and no device is usable, a named device is
/// not usable, or pages have to be inside TLS.
result<rail_choice> choose_rails(const rail_settings& settings);
result<rail_choice> choose_rails(const rail_settings& settings, const verbs::device_listing& there);

} // namespace peercache::rdma
