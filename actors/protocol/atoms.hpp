#pragma once

#include <caf/all.hpp>
#include <caf/io/all.hpp>

// The verbs of all protocols. Names travel on the wire, positions do not: append freely, never
// rename.
CAF_BEGIN_TYPE_ID_BLOCK(peercache_atoms, caf::first_custom_type_id)

CAF_ADD_ATOM(peercache_atoms, peercache::actors, publish_atom, "publish")
CAF_ADD_ATOM(peercache_atoms, peercache::actors, withdraw_atom, "withdraw")
CAF_ADD_ATOM(peercache_atoms, peercache::actors, lookup_atom, "lookup")
CAF_ADD_ATOM(peercache_atoms, peercache::actors, reserve_atom, "reserve")
CAF_ADD_ATOM(peercache_atoms, peercache::actors, commit_atom, "commit")
CAF_ADD_ATOM(peercache_atoms, peercache::actors, abandon_atom, "abandon")
CAF_ADD_ATOM(peercache_atoms, peercache::actors, remove_atom, "remove")
CAF_ADD_ATOM(peercache_atoms, peercache::actors, hello_atom, "hello")
CAF_ADD_ATOM(peercache_atoms, peercache::actors, session_atom, "session")
CAF_ADD_ATOM(peercache_atoms, peercache::actors, leave_atom, "leave")
CAF_ADD_ATOM(peercache_atoms, peercache::actors, report_atom, "report")
CAF_ADD_ATOM(peercache_atoms, peercache::actors, used_atom, "used")
CAF_ADD_ATOM(peercache_atoms, peercache::actors, status_atom, "status")
CAF_ADD_ATOM(peercache_atoms, peercache::actors, stats_atom, "stats")
CAF_ADD_ATOM(peercache_atoms, peercache::actors, view_atom, "view")
CAF_ADD_ATOM(peercache_atoms, peercache::actors, drain_atom, "drain")
CAF_ADD_ATOM(peercache_atoms, peercache::actors, packet_atom, "packet")
CAF_ADD_ATOM(peercache_atoms, peercache::actors, beat_atom, "beat")
CAF_ADD_ATOM(peercache_atoms, peercache::actors, dial_atom, "dial")
CAF_ADD_ATOM(peercache_atoms, peercache::actors, topology_atom, "topology")
CAF_ADD_ATOM(peercache_atoms, peercache::actors, write_atom, "write")
CAF_ADD_ATOM(peercache_atoms, peercache::actors, load_atom, "load")
CAF_ADD_ATOM(peercache_atoms, peercache::actors, walk_atom, "walk")
CAF_ADD_ATOM(peercache_atoms, peercache::actors, ack_atom, "ack")
CAF_ADD_ATOM(peercache_atoms, peercache::actors, promote_atom, "promote")
CAF_ADD_ATOM(peercache_atoms, peercache::actors, warm_atom, "warm")
CAF_ADD_ATOM(peercache_atoms, peercache::actors, verify_atom, "verify")
CAF_ADD_ATOM(peercache_atoms, peercache::actors, evict_atom, "evict")
CAF_ADD_ATOM(peercache_atoms, peercache::actors, locate_atom, "locate")
CAF_ADD_ATOM(peercache_atoms, peercache::actors, stored_atom, "stored")
CAF_ADD_ATOM(peercache_atoms, peercache::actors, gone_atom, "gone")
CAF_ADD_ATOM(peercache_atoms, peercache::actors, turn_atom, "turn")
CAF_ADD_ATOM(peercache_atoms, peercache::actors, restore_atom, "restore")
CAF_ADD_ATOM(peercache_atoms, peercache::actors, compare_atom, "compare")
CAF_ADD_ATOM(peercache_atoms, peercache::actors, list_atom, "list")
CAF_ADD_ATOM(peercache_atoms, peercache::actors, pump_atom, "pump")
CAF_ADD_ATOM(peercache_atoms, peercache::actors, scrub_atom, "scrub")
CAF_ADD_ATOM(peercache_atoms, peercache::actors, adopt_atom, "adopt")

CAF_END_TYPE_ID_BLOCK(peercache_atoms)
