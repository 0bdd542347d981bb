#include "handoff/messages.hpp"
#include "tests/fuzz/fuzz_input.hpp"

/// Decodes any bytes as a message of hand-over or transfer workers. What was decoded must survive
/// being encoded and decoded again.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace peercache;
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  if (const auto message = handoff::decode(bytes)) {
    const auto again = handoff::decode(handoff::encode(*message));
    PEERCACHE_ASSERT(again && *again == *message);
  }
  return 0;
}
