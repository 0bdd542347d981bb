#include "actors/pool/unmapped_clients.hpp"

namespace peercache::actors {

void unmapped_clients::note(const std::string& client, time_point now) {
  std::erase_if(seen_, [&](const auto& one) { return now - one.second > kept; });
  if (seen_.size() < clients_max || seen_.contains(client))
    seen_[client] = now;
}

std::vector<std::string> unmapped_clients::names(time_point now) const {
  std::vector<std::string> all;
  for (const auto& [name, last] : seen_)
    if (now - last <= kept)
      all.push_back(name);
  return all;
}

} // namespace peercache::actors
