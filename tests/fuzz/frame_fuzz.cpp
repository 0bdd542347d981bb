#include "net/frame_channel.hpp"
#include "tests/fuzz/fuzz_input.hpp"

/// Splits any bytes into frames of look-ups: each frame must lie within the bytes, and no bytes be
/// in two frames.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace peercache;
  std::string_view bytes(reinterpret_cast<const char*>(data), size);
  std::string_view payload;
  bool too_long = false;
  std::size_t taken = 0;
  while (net::frames::take_frame(bytes, payload, too_long, 1024)) {
    PEERCACHE_ASSERT(payload.size() <= 1024);
    taken += net::frames::length_bytes + payload.size();
  }
  PEERCACHE_ASSERT(taken + bytes.size() == size);
  return 0;
}
