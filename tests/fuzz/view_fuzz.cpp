#include "discovery/view_codec.hpp"
#include "tests/fuzz/fuzz_input.hpp"

/// Decodes any bytes as views and members that a peer sends: whatever is decoded is encoded to the
/// same bytes.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace peercache;
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  if (const auto view = discovery::decode_view(bytes))
    PEERCACHE_ASSERT(discovery::encode_view(*view) == bytes);
  if (const auto who = discovery::decode_member(bytes))
    PEERCACHE_ASSERT(discovery::encode_member(*who) == bytes);
  return 0;
}
