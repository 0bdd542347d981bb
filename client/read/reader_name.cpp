#include "client/read/reader_name.hpp"

#include "common/checksum.hpp"

#include <array>
#include <cstdio>
#include <span>
#include <sys/stat.h>
#include <unistd.h>

namespace peercache::client {

process_place process_place::own() {
  process_place made;
  std::array<char, 256> host{};
  if (::gethostname(host.data(), host.size() - 1) == 0)
    made.host = host.data();
  struct stat found {};
  if (::stat("/proc/self/ns/pid", &found) == 0)
    made.pid_namespace = found.st_ino;
  made.pid = static_cast<std::uint64_t>(::getpid());
  return made;
}

std::string reader_name(const process_place& where, std::uint32_t number) {
  const auto place = where.host + '/' + std::to_string(where.pid_namespace);
  const auto digest = checksum_of(std::as_bytes(std::span(place)));
  std::array<char, 13> hex{};
  std::snprintf(hex.data(), hex.size(), "%012llx",
                static_cast<unsigned long long>(digest & 0xffff'ffff'ffff));
  return "client-" + std::to_string(where.pid) + '-' + std::to_string(number) + '-' + hex.data();
}

} // namespace peercache::client
