#include "link/protocol/samples_wire.hpp"
#include "tests/fuzz/fuzz_input.hpp"

/// Decodes any bytes as samples that clients and nodes report. What was decoded must survive being
/// encoded and decoded again.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace peercache;
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  if (const auto samples = link::decode_samples(bytes)) {
    const auto again = link::encode_samples(*samples);
    PEERCACHE_ASSERT(bool(link::decode_samples(again)));
  }
  return 0;
}
