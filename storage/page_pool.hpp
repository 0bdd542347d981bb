#pragma once

// CONTRACT (namespace peercache::storage). class page_pool: which page is in which slot, what goes when room is needed.
// Owner thread only (the pool actor); no clock of its own, no thread, no I/O besides the shared memory it was handed.
//   reserve(length_bytes)              -> result<slot_id>      slot is being filled (generation odd)
//   commit(span<const fill>)           fill{slot, key, length, checksum} of one put in prefix order -> per page
//                                      page_location-like {slot, generation} or duplicate (slot freed, key is here already)
//   abandon(slot)                      a reservation that will not be committed
//   find(key) / remove(key)
//   evict_ahead(vector<evicted>& out)  when free < low watermark: victims by policy, tail first, in a batch, until high
//                                      watermark; each `evicted{key, slot, generation}`; pinned slots go to limbo and are
//                                      freed once unpinned
//   fold_uses()                        reads counted in the slot table become touches of the policy
//   for_each_page(...)                 for re-publishing on a new view
//   stats()
