#pragma once

#include "directory/wire.hpp"
#include "discovery/hash_ring.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace peercache::directory {

/// The records of one message to one directory owner, and the caller's indices of their pages.
struct owner_batch {
  node_id owner;
  std::string records;
  std::vector<std::uint32_t> indices;
};

/// Sorts records into messages: several pages share one message to an owner. Plain class; a few
/// allocations per batch. Invariant: no batch has more than limits::batch_pages_max records.
class owner_batches {
public:
  /// @param ring names the owners of each key; borrowed, outlives this object @param replicas
  /// owners of a key @pre replicas <= hash_ring::replicas_max
  owner_batches(const discovery::hash_ring& ring, std::uint32_t replicas);

  /// Adds a record for all owners of its key. @param index the number by which the caller knows the
  /// page
  void add(std::uint32_t index, const publish_record& record);
  void add(std::uint32_t index, const withdraw_record& record);
  /// Adds a record for `owner` only, whichever other owners its key has.
  void add_to(node_id owner, std::uint32_t index, const publish_record& record);
  void add_to(node_id owner, std::uint32_t index, const withdraw_record& record);

  std::vector<owner_batch> take() { return std::move(batches_); }

private:
  template <class Append>
  void add_for_owners(std::uint32_t index, const page_key& key, Append append);
  owner_batch& open_batch(node_id owner);

  const discovery::hash_ring& ring_;
  const std::uint32_t replicas_;
  std::vector<owner_batch> batches_;
};

} // namespace peercache::directory
