#pragma once

namespace peercache::client {

struct session_actor_options;

// What a session tells members and its node now and then of the calls of its client, best effort:
// nobody waits for an answer. Threads: any; the session's actor calls these functions with its
// beat.

/// Sends owners withdrawals of false records, one message each: a record that stays is found again
/// by its next reader. Tells holders which of the pages that they keep for this client may go: a
/// holder that hears nothing keeps them until the hold's time is over. Returns whether there was
/// something to tell.
bool send_news(const session_actor_options& by);
/// Reports READs to the holders of the pages, one message each: a holder that hears nothing orders
/// its pages for eviction by the uses that it knows. Returns whether there was something to tell.
bool send_uses(const session_actor_options& by);
/// Gives slots back to the node that were leased for many sets and that no set has wanted lately.
void give_back_idle_slots(const session_actor_options& by);

} // namespace peercache::client
