#pragma once

namespace peercache::link {}

namespace peercache::actors {

// A node's actors use the protocols everywhere: they name messages, handles and reports without
// `link::`.
using namespace link;

} // namespace peercache::actors
