#include "pool_scan.hpp"

#include "storage/pool_memory.hpp"

namespace peercache::chaos {

result<pool_pages> scan_pool(const std::string& name_prefix, const std::string& node_name,
                             const incarnation& owner) {
  auto name = "/" + name_prefix + "-" + node_name + "-" + to_string(owner);
  auto pool = storage::pool_memory::attach(name, owner);
  if (!pool)
    return pool.error();
  auto slots = pool->slots();
  pool_pages pages;
  for (std::uint32_t i = 0; i < slots.granules(); ++i) {
    auto entry = slots.contents({i});
    // Checks the slot a second time, because its owner may have been writing the entry during the
    // first read.
    if (entry.gen.readable() &&
        slots.check({i}, entry.gen, entry.key, entry.length_bytes) == page_status::hit)
      pages.emplace(entry.key, entry.gen);
  }
  return pages;
}

} // namespace peercache::chaos
