#include "link/protocol/samples_wire.hpp"
#include "tests/fuzz/fuzz_input.hpp"

/// Samples that clients and nodes report: what is read can be written and read again.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace peercache;
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  if (const auto samples = link::decode_samples(bytes)) {
    const auto again = link::encode_samples(*samples);
    PEERCACHE_ASSERT(bool(link::decode_samples(again)));
  }
  return 0;
}
