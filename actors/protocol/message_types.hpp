#pragma once

#include "actors/protocol/atoms.hpp"
#include "actors/protocol/clearing.hpp"
#include "actors/protocol/directory.hpp"
#include "actors/protocol/disk.hpp"
#include "actors/protocol/gateway.hpp"
#include "actors/protocol/membership.hpp"
#include "actors/protocol/pool.hpp"
#include "actors/protocol/reports.hpp"

// Everything that may travel between processes besides numbers, strings and atoms, in one list
// (`wire_version`; tests/actors/messages_test.cpp has each message's way there and back).
CAF_BEGIN_TYPE_ID_BLOCK(peercache, caf::id_block::peercache_atoms::end)

CAF_ADD_TYPE_ID(peercache, (peercache::actors::directory_actor))
CAF_ADD_TYPE_ID(peercache, (peercache::actors::membership_actor))
CAF_ADD_TYPE_ID(peercache, (peercache::actors::session_actor))
CAF_ADD_TYPE_ID(peercache, (peercache::actors::gateway_actor))
CAF_ADD_TYPE_ID(peercache, (peercache::actors::peer_welcome))
CAF_ADD_TYPE_ID(peercache, (peercache::actors::session_welcome))
CAF_ADD_TYPE_ID(peercache, (peercache::actors::directory_report))
CAF_ADD_TYPE_ID(peercache, (peercache::actors::pool_report))
CAF_ADD_TYPE_ID(peercache, (peercache::actors::membership_report))
CAF_ADD_TYPE_ID(peercache, (peercache::actors::rail_report))
CAF_ADD_TYPE_ID(peercache, (peercache::actors::rdma_peer_report))
CAF_ADD_TYPE_ID(peercache, (peercache::actors::client_report))
CAF_ADD_TYPE_ID(peercache, (peercache::actors::node_report))
CAF_ADD_TYPE_ID(peercache, (peercache::actors::disk_report))
CAF_ADD_TYPE_ID(peercache, (peercache::actors::promote_report))
CAF_ADD_TYPE_ID(peercache, (peercache::actors::clear_report))
CAF_ADD_TYPE_ID(peercache, (peercache::actors::clearing_report))

CAF_END_TYPE_ID_BLOCK(peercache)
