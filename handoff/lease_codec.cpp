#include "handoff/lease_codec.hpp"

namespace peercache::handoff {

void append_lease(byte_writer& out, const lease& under) {
  out.number(under.slot.value);
  out.number(under.gen.value);
  out.number(under.key);
}

lease read_lease(byte_reader& in) {
  lease under;
  under.slot.value = in.number<std::uint32_t>();
  under.gen.value = in.number<std::uint64_t>();
  under.key = in.number<page_key>();
  if (!under.gen.readable())
    in.fail();
  return under;
}

} // namespace peercache::handoff
