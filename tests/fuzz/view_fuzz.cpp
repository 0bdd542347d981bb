#include "discovery/view_codec.hpp"
#include "discovery/view_difference.hpp"
#include "tests/fuzz/fuzz_input.hpp"

#include <algorithm>
#include <string>

namespace {

using namespace peercache;

/// The base that differences are applied to: three members, of whom two are masters, and one gone.
discovery::view base() {
  discovery::view made;
  made.term = 1;
  made.version = 1;
  for (const auto* name : {"a", "b", "c"}) {
    auto& who = made.members.emplace_back();
    who.name = name;
    who.id = node_id_of(name);
    who.inc = {1, static_cast<std::uint64_t>(*name)};
    who.host = "h";
  }
  std::sort(made.members.begin(), made.members.end(),
            [](const auto& x, const auto& y) { return x.id < y.id; });
  made.masters = {"a", "b"};
  made.issuer = made.members.front().inc;
  made.gone.push_back({"d", "h", 1, 1, {}});
  return made;
}

/// Reads any bytes as a difference; made to name the base, it makes no view or one that can travel.
void apply_difference(std::string_view bytes) {
  byte_reader in(bytes);
  auto change = discovery::read_difference(in);
  if (!in.finished())
    return;
  std::string again;
  byte_writer out(again);
  discovery::write_difference(out, change);
  PEERCACHE_ASSERT(again == bytes);
  change.base = base().stamp();
  if (const auto made = discovery::apply(change, base()))
    PEERCACHE_ASSERT(discovery::decode_view(discovery::encode_view(*made)));
}

} // namespace

/// Decodes any bytes as views, differences and members that a peer sends: whatever is decoded is
/// encoded to the same bytes.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  if (const auto view = discovery::decode_view(bytes))
    PEERCACHE_ASSERT(discovery::encode_view(*view) == bytes);
  if (const auto who = discovery::decode_member(bytes))
    PEERCACHE_ASSERT(discovery::encode_member(*who) == bytes);
  apply_difference(bytes);
  return 0;
}
