// Tests the header of the C library in C++: each initializer macro initializes a struct, and
// functions have C linkage.
#include "client/c/peercache.h"

namespace {

[[maybe_unused]] int (*const get)(peercache_client*, const peercache_batch*) = peercache_get;
[[maybe_unused]] const peercache_batch batch = PEERCACHE_BATCH_INIT;
[[maybe_unused]] const peercache_settings settings = PEERCACHE_SETTINGS_INIT;
[[maybe_unused]] const peercache_flushed flushed = PEERCACHE_FLUSHED_INIT;
[[maybe_unused]] const peercache_statistics statistics = PEERCACHE_STATISTICS_INIT;
[[maybe_unused]] const peercache_completion completion = PEERCACHE_COMPLETION_INIT;

} // namespace
