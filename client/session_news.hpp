#pragma once

namespace peercache::client {

struct session_actor_options;

// What a session tells members now and then of the calls of its client, best effort: nobody waits
// for an answer. Each function returns whether there was something to tell. Threads: any; the
// session's actor calls these functions with its beat.

/// Sends withdrawals of false records, one message per owner: a record that stays is found again by
/// its next reader.
bool send_stale_records(const session_actor_options& by);
/// Reports READs to the holders of the pages, one message each: a holder that hears nothing orders
/// its pages for eviction by the uses that it knows.
bool send_uses(const session_actor_options& by);
/// Tells holders which of the pages that they keep for this client may go: a holder that hears
/// nothing keeps them until the hold's time is over.
bool send_releases(const session_actor_options& by);

} // namespace peercache::client
