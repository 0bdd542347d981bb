#pragma once

#include "common/ids.hpp"
#include "common/page_key.hpp"
#include "common/page_status.hpp"

#include <cstddef>
#include <span>

namespace peercache::rdma {

/// The pages that a page server sends: the pool of this node, as slots. Implementations are safe to
/// call from the data-plane thread while the pool's owner evicts.
class page_source {
public:
  virtual ~page_source() = default;

  /// Pins `slot` if it holds exactly this page: generation, key and length compare equal. On `hit`,
  /// `bytes` stay unchanged until `unpin`. Any other status is the reason why nothing was pinned.
  virtual page_status pin(slot_id slot, generation gen, const page_key& key,
                          std::uint32_t length_bytes, std::span<const std::byte>& bytes) = 0;
  virtual void unpin(slot_id slot) = 0;
};

} // namespace peercache::rdma
