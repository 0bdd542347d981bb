#include "config/load.hpp"
#include "tests/fuzz/fuzz_input.hpp"

/// Parses any text as a configuration file, which must succeed or return faults.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace peercache;
  config::sources from;
  from.file = {"f.toml", {reinterpret_cast<const char*>(data), size}};
  from.host_name = "h";
  if (const auto loaded = config::merge_sources(from); !loaded)
    PEERCACHE_ASSERT(!loaded.error().message.empty());
  return 0;
}
