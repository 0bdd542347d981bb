#include "discovery/packet_codec.hpp"
#include "tests/fuzz/fuzz_input.hpp"

/// Decodes any bytes as a packet of the membership protocol: a decoded packet is encoded to the
/// same bytes.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace peercache;
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  if (const auto packet = discovery::decode_packet(bytes, "c"))
    PEERCACHE_ASSERT(discovery::encode_packet(*packet, "c") == bytes);
  return 0;
}
