#include "client/handoff/host_names.hpp"

namespace peercache::client {

result<std::string> host_names::address_of(const std::string& name) {
  {
    std::lock_guard guard{lock_};
    if (const auto found = known_.find(name); found != known_.end())
      return found->second;
  }
  auto address = resolve_(name);
  std::lock_guard guard{lock_};
  if (address && known_.size() < names_max)
    known_.insert_or_assign(name, *address);
  return address;
}

void host_names::forget(const std::string& address) {
  std::lock_guard guard{lock_};
  std::erase_if(known_, [&address](const auto& each) { return each.second == address; });
}

} // namespace peercache::client
