#pragma once

#include "common/checksum.hpp"
#include "common/copy.hpp"
#include "tests/client/actors/fake_node.hpp"

#include <span>
#include <string>

namespace peercache::client {

/// A node for a client's calls: a real, small pool, and a fake gateway that answers as the test
/// says. By default it accepts every commit, and always has slots.
struct played_node {
  explicit played_node(const std::string& name)
      : memory(make_small_pool()), says(fake_node_of(memory)), self(member_of(memory, name)) {
    says.slots_for = [this](const std::string& lengths) { return slots_for(lengths); };
    says.statuses_of = [this](const std::string& filled) { return publish(filled); };
  }

  /// Begins to fill a new slot, and returns it.
  slot_id new_slot(std::uint32_t length_bytes) {
    const slot_id slot{next_slot};
    memory.slots().begin_fill(slot, limits::granules_of(length_bytes));
    next_slot += limits::granules_of(length_bytes);
    return slot;
  }
  std::string slots_for(const std::string& lengths) {
    std::string slots;
    for (std::size_t i = 0; i < link::record_count<std::uint32_t>(lengths); ++i)
      link::append_record(slots, new_slot(link::record_at<std::uint32_t>(lengths, i)));
    return slots;
  }
  std::string publish(const std::string& filled) {
    std::string statuses;
    for (std::size_t i = 0; i < link::record_count<link::filled_slot>(filled); ++i) {
      const auto page = link::record_at<link::filled_slot>(filled, i);
      memory.slots().publish(page.slot, page.key, page.length_bytes, page.checksum);
      statuses.push_back(static_cast<char>(page_status::stored));
    }
    return statuses;
  }
  /// Puts this page into the pool, and returns its location. @param indexed whether the page is in
  /// the host index, too, where processes of the host find it
  directory::page_location hold(const page_key& key, std::span<const std::byte> bytes,
                                bool indexed = true) {
    const auto length_bytes = static_cast<std::uint32_t>(bytes.size());
    directory::page_location place;
    place.node = self.id;
    place.holder = self.inc;
    place.slot = new_slot(length_bytes);
    place.length_bytes = length_bytes;
    place.checksum = checksum_of(bytes);
    copy_page(memory.slots().bytes(place.slot, length_bytes), bytes);
    place.gen = memory.slots().publish(place.slot, key, length_bytes, place.checksum);
    if (auto index = memory.index(); indexed)
      index.insert(key, place.slot);
    return place;
  }
  void evict(const directory::page_location& page) { memory.slots().give_up(page.slot); }

  storage::pool_memory memory;
  fake_node says;
  discovery::member self;
  link::gateway_actor gateway;
  std::uint32_t next_slot = 0;
};

} // namespace peercache::client
