#include "storage/disk/io/disk_error.hpp"

#include <cerrno>
#include <system_error>

namespace peercache::storage {
namespace {

errc kind_of(int error_number) noexcept {
  switch (error_number) {
  case ENOENT:
    return errc::not_found;
  case EEXIST:
    return errc::refused;
  case ENOSPC:
  case EDQUOT:
    return errc::out_of_space;
  case ENOMEM:
    return errc::out_of_memory;
  case EINVAL:
  case ENOTDIR:
  case EISDIR:
  case ELOOP:
  case ENAMETOOLONG:
    return errc::invalid_argument;
  default:
    return errc::io_failed;
  }
}

} // namespace

error disk_error(int error_number, std::string_view doing, std::string_view name) {
  std::string message = "cannot ";
  message.append(doing).append(" '").append(name).append("': ");
  message += std::generic_category().message(error_number);
  return {kind_of(error_number), std::move(message)};
}

} // namespace peercache::storage
