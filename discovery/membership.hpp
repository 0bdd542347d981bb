#pragma once

// CONTRACT (namespace peercache::discovery). Pure machine: events in, actions out, time as an argument.
//   class membership: one per node, plays member and (if the view's masters list it) master.
//     membership(options, member self)
//     options{seeds (host:port list, the first is the pinned head), max_masters=3, heartbeat=500ms, expiry=2s}
//   events: tick(now), on_join(member), on_heartbeat(node_id, incarnation, view version known), on_heartbeat_answer(...),
//     on_view(view), on_leave(node_id), on_peer_lost(node_id)
//   actions: std::vector<action>, action = std::variant<send_join{seed address}, send_heartbeat{to master},
//     send_view{to member, view}, adopt_view{view}, answer..., send_leave{to}>
// class hash_ring: 160 virtual nodes per member; owners(key, n) -> the n distinct members clockwise of key.prefix().
