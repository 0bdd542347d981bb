#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace peercache::client {

/// Where a process lives: two processes that live at once differ in one of the three.
struct process_place {
  std::string host;
  std::uint64_t pid_namespace = 0; ///< Containers of one host count their processes apart.
  std::uint64_t pid = 0;

  static process_place own();
};

/// What a client calls itself to the rails of other nodes: "client-1234-0-9f86d081884c". A rail
/// ends what another incarnation of the same name has there, so no two clients of a cluster may
/// share one. At most 40 bytes, which is what a hello has room for.
/// @param number of the client within its process
std::string reader_name(const process_place& where, std::uint32_t number);

} // namespace peercache::client
