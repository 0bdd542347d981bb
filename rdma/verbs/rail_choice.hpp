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
  verbs,     ///< Rails, or an error.
  tcp
};

/// The operator's settings for rails; the same for nodes and clients.
struct rail_settings {
  plane_mode mode = plane_mode::automatic;
  std::vector<std::string> devices = {"auto"}; ///< Names, or "auto" for all that are usable.
  std::uint8_t port = 0;                       ///< 0: the first active one.
  std::int32_t gid_index = -1;                 ///< -1: chosen.
  verbs::path_options path;
};

/// The rails that such settings come to on this machine.
struct rail_choice {
  struct rail {
    std::string device;
    std::uint8_t port = 0;
  };
  std::vector<rail> rails; ///< Empty: TCP.
  std::string why;         ///< One line for log, status and metric: what was taken, and why.
};

/// Refused when `mode` is verbs and no wanted device, or one that is named, is not usable, or when
/// the path's options are not allowed; the message says what to do.
result<rail_choice> choose_rails(const rail_settings& settings);
result<rail_choice> choose_rails(const rail_settings& settings, const verbs::device_listing& there);

} // namespace peercache::rdma
