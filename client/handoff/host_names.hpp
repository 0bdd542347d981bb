#pragma once

#include "common/result.hpp"

#include <cstddef>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <utility>

namespace peercache::client {

/// The addresses of hosts that calls name. A name is looked up once, and again when its host was
/// not there: the resolver may block for many seconds.
///
/// Threads: any; nothing but the resolver blocks. Errors: the resolver's, which are not kept.
/// Bounds: `names_max`; beyond them a name is looked up each time.
class host_names {
public:
  static constexpr std::size_t names_max = 4096;
  using resolver = std::function<result<std::string>(const std::string&)>;

  /// @param resolve gives the numeric address of a name; any thread calls it
  explicit host_names(resolver resolve) : resolve_(std::move(resolve)) {}

  result<std::string> address_of(const std::string& name);
  /// Looks names of this address up anew: nobody was found there.
  void forget(const std::string& address);

private:
  const resolver resolve_;
  std::mutex lock_;
  std::map<std::string, std::string> known_; ///< Addresses by name; guarded by `lock_`.
};

} // namespace peercache::client
