#pragma once

#include "common/result.hpp"

#include <cstddef>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <utility>

namespace peercache::client {

/// The addresses of hosts that calls name. A name is looked up once, because the resolver may block
/// for many seconds, and again after `forget`.
///
/// Threads: any; only the resolver blocks. Errors: the resolver's, which are not kept. Bounds:
/// `names_max` names are kept; any further name is looked up at each call.
class host_names {
public:
  static constexpr std::size_t names_max = 4096;
  using resolver = std::function<result<std::string>(const std::string&)>;

  /// @param resolve gives the numeric address of a name; any thread calls it
  explicit host_names(resolver resolve) : resolve_(std::move(resolve)) {}

  result<std::string> address_of(const std::string& name);
  /// Forgets the names of this address, which are looked up anew: nobody answered there.
  void forget(const std::string& address);

private:
  const resolver resolve_;
  std::mutex lock_;
  std::map<std::string, std::string> known_; ///< Addresses by name; guarded by `lock_`.
};

} // namespace peercache::client
