#pragma once

#include <string>

namespace peercache::net {

/// The numeric address of the other side of a TCP connection, for logs.
std::string address_of_peer(int fd);

} // namespace peercache::net
