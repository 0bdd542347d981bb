#include "common/user_group.hpp"

#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <grp.h>
#include <sys/mman.h>
#include <unistd.h>
#include <vector>

namespace peercache {

std::string group_in_environment() {
  const char* named = std::getenv(node_group_variable);
  return named == nullptr ? "" : named;
}

result<std::optional<gid_t>> group_named(const std::string& name) {
  if (name.empty())
    return std::optional<gid_t>();
  gid_t number = 0;
  const auto* end = name.data() + name.size();
  if (const auto read = std::from_chars(name.data(), end, number);
      read.ec == std::errc() && read.ptr == end && number != static_cast<gid_t>(-1))
    return std::optional<gid_t>(number);
  std::vector<char> text(1u << 16);
  group entry{};
  group* found = nullptr;
  if (::getgrnam_r(name.c_str(), &entry, text.data(), text.size(), &found) != 0 || found == nullptr)
    return {errc::invalid_argument, "this host has no group `" + name + "`"};
  return std::optional<gid_t>(found->gr_gid);
}

result<void> may_share_with(gid_t group) {
  const int file = ::memfd_create("peercache-group", MFD_CLOEXEC);
  if (file < 0)
    return {errc::io_failed, std::string("cannot make a file: ") + std::strerror(errno)};
  const int why = ::fchown(file, static_cast<uid_t>(-1), group) == 0 ? 0 : errno;
  ::close(file);
  if (why != 0)
    return {errc::refused, "this user has to be in the group " + std::to_string(group) + " (" +
                               std::strerror(why) + ")"};
  return {};
}

} // namespace peercache
