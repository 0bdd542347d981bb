#pragma once

#include "actors/link_names.hpp"
#include "link/protocol/pool.hpp"

#include <functional>
#include <string>

// How the pool actor reserves slots. Where the bytes of evicted pages are zeroed, room in a full
// pool takes as long as writing that many bytes; so a message reserves slots only up to a limit of
// zeroed bytes, and the rest is done in messages of the actor to itself.
namespace peercache::actors {

/// A reserve that is not answered yet.
struct open_reserve {
  std::string lengths; ///< Packed u32, one for each page.
  std::string slots;   ///< Packed slot_id, one for each page that was looked at.
  std::function<void(std::string slots)> answer;
};

struct pool_state;
using pool_pointer = pool_actor::stateful_pointer<pool_state>;

/// Reserves slots for these lengths, and calls `answer` with them: before it returns, or later when
/// many bytes have to be zeroed first. Reserves are answered in the order in which they came.
void reserve_then(pool_pointer self, std::string lengths,
                  std::function<void(std::string slots)> answer);
caf::result<std::string> reserve_slots(pool_pointer self, const std::string& lengths);

/// Goes on with the reserves that are not answered, up to the limit of one message.
void reserve_on(pool_pointer self);

} // namespace peercache::actors
