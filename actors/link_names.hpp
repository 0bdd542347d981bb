#pragma once

namespace peercache::link {}

namespace peercache::actors {

// A node's actors speak the protocols all the time: they name messages, handles and reports without
// `link::`.
using namespace link;

} // namespace peercache::actors
