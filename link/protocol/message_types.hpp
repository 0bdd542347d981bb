#pragma once

#include "link/protocol/atoms.hpp"
#include "link/protocol/calls_wire.hpp"
#include "link/protocol/clearing.hpp"
#include "link/protocol/directory.hpp"
#include "link/protocol/disk.hpp"
#include "link/protocol/gateway.hpp"
#include "link/protocol/history.hpp"
#include "link/protocol/membership.hpp"
#include "link/protocol/pool.hpp"
#include "link/protocol/reports.hpp"

// All types that may travel between processes besides numbers, strings and atoms, in one list
// (`wire_version`; tests/link/messages_test.cpp sends each message there and back).
CAF_BEGIN_TYPE_ID_BLOCK(peercache, caf::id_block::peercache_atoms::end)

CAF_ADD_TYPE_ID(peercache, (peercache::link::directory_actor))
CAF_ADD_TYPE_ID(peercache, (peercache::link::membership_actor))
CAF_ADD_TYPE_ID(peercache, (peercache::link::session_listener))
CAF_ADD_TYPE_ID(peercache, (peercache::link::gateway_actor))
CAF_ADD_TYPE_ID(peercache, (peercache::link::peer_welcome))
CAF_ADD_TYPE_ID(peercache, (peercache::link::session_welcome))
CAF_ADD_TYPE_ID(peercache, (peercache::metrics::samples))
CAF_ADD_TYPE_ID(peercache, (peercache::link::directory_report))
CAF_ADD_TYPE_ID(peercache, (peercache::link::node_report))
CAF_ADD_TYPE_ID(peercache, (peercache::link::disk_report))
CAF_ADD_TYPE_ID(peercache, (peercache::link::clear_report))
CAF_ADD_TYPE_ID(peercache, (peercache::link::drain_report))
CAF_ADD_TYPE_ID(peercache, (peercache::link::membership_report))
CAF_ADD_TYPE_ID(peercache, (peercache::link::links_report))
CAF_ADD_TYPE_ID(peercache, (peercache::link::history_report))
CAF_ADD_TYPE_ID(peercache, (peercache::link::sessions_report))
CAF_ADD_TYPE_ID(peercache, (peercache::link::call_report))
CAF_ADD_TYPE_ID(peercache, (peercache::link::calls_report))
CAF_ADD_TYPE_ID(peercache, (peercache::link::lost_report))
CAF_ADD_TYPE_ID(peercache, (peercache::link::page_census))

CAF_END_TYPE_ID_BLOCK(peercache)
