#pragma once

#include "common/page_key.hpp"
#include "discovery/hash_ring.hpp"
#include "discovery/view.hpp"

#include <cstddef>
#include <string>
#include <vector>

namespace peercache::cli {

/// Tells which nodes' shards keep the records of a key, by the hash ring of a view. Threads: any.
class key_owners {
public:
  /// @param replicas how many nodes keep the record of a page; no more than a ring can name are
  key_owners(discovery::view view, std::size_t replicas);

  /// The names of the key's owners, the first owner first.
  std::vector<std::string> names(const page_key& key) const;

private:
  const discovery::view view_;
  const discovery::hash_ring ring_;
  const std::size_t replicas_;
};

} // namespace peercache::cli
