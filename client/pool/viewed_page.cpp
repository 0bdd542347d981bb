#include "client/pool/viewed_page.hpp"

#include "common/checksum.hpp"
#include "common/guards.hpp"
#include "storage/page_holds.hpp"

#include <chrono>
#include <cstdint>
#include <optional>
#include <utility>

namespace peercache::client {

using std::chrono::steady_clock;

result<std::unique_ptr<viewed_page>> viewed_page::find(const own_pool_ptr& pool,
                                                       const page_key& key,
                                                       std::chrono::milliseconds hold,
                                                       storage::holder_tag holder, bool verify) {
  const auto found = pool ? pool->find(key) : std::nullopt;
  if (!found)
    return {errc::not_found, "this host's pool has no such page in memory"};
  auto made = std::make_unique<viewed_page>();
  made->pool = pool;
  made->key = key;
  made->at = *found;
  made->holder = holder;
  if (hold.count() > 0) {
    const auto now = steady_clock::now();
    storage::hold_course one{pool->holds, holder, now, now + hold};
    made->held = storage::hold_page(one, pool->slots, found->slot, found->gen,
                                    found->length_bytes) == storage::hold_outcome::held;
  }
  const auto status = pool->slots.check(found->slot, found->gen, key, found->length_bytes);
  std::uint64_t digest = found->checksum;
  if (status == page_status::hit && verify)
    digest = checksum_of(pool->slots.bytes(found->slot, found->length_bytes));
  if (status != page_status::hit || !made->intact()) {
    made->release();
    return {errc::not_found, "this host's pool has just given the page up"};
  }
  if (digest != found->checksum && guard_on(guard::checksum)) {
    made->release();
    return {errc::io_failed, "the page's bytes do not have its checksum"};
  }
  pool->slots.count_use(found->slot);
  return made;
}

bool viewed_page::intact() const noexcept {
  return pool->slots.still_readable(at.slot, at.gen) && !pool->epochs.is_old(key);
}

void viewed_page::release() noexcept {
  if (std::exchange(held, false))
    pool->end_hold(at.slot, at.length_bytes, holder, steady_clock::now());
}

} // namespace peercache::client
