#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace peercache::client {

/// Identifies a process: two processes that live at once differ in one of the three fields.
struct process_place {
  std::string host;
  /// The PID namespace: each container of a host numbers its processes by itself.
  std::uint64_t pid_namespace = 0;
  std::uint64_t pid = 0;

  static process_place own();
};

/// Returns the name by which the rails of other nodes know a client: "client-1234-0-9f86d081884c".
/// A rail ends the connections of another incarnation of the same name, so no two clients of a
/// cluster may share a name. At most 40 bytes, the room in a hello. @param number number of the
/// client within its process
std::string reader_name(const process_place& where, std::uint32_t number);

} // namespace peercache::client
