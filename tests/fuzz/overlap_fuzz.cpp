#include "actors/overlap/gpu_window.hpp"
#include "link/protocol/overlap_wire.hpp"
#include "tests/fuzz/fuzz_input.hpp"

#include <algorithm>

/// Decodes any bytes as each message about overlaps and GPUs: accepted bytes must be the only
/// encoding of their message. A gpu_window that gets any reports must answer any question with at
/// most the blocks that were asked for.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace peercache;
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const auto has_one_form = [bytes](auto decode) {
    const auto message = decode(bytes);
    if (!message)
      return;
    const auto encoded = link::encode(*message);
    const auto again = decode(encoded);
    PEERCACHE_ASSERT(again && link::encode(*again) == encoded);
  };
  has_one_form(link::decode_gpu_report);
  has_one_form(link::decode_gpu_question);
  has_one_form(link::decode_gpu_run);
  has_one_form(link::decode_overlap_query);
  has_one_form(link::decode_overlap_matches);

  // The first byte is the length of a report, which precedes the question.
  const std::size_t told_bytes = size == 0 ? 0 : std::min<std::size_t>(size - 1, data[0]);
  actors::gpu_window window(64);
  if (const auto told = link::decode_gpu_report(bytes.substr(size > 0, told_bytes)))
    window.take(1, *told);
  if (const auto asked = link::decode_gpu_question(bytes.substr((size > 0) + told_bytes)))
    PEERCACHE_ASSERT(window.leading(*asked).blocks <= asked->prefixes.size() / asked->spaces);
  window.drop(1);
  return 0;
}
