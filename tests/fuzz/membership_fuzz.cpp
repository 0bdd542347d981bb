#include "discovery/membership.hpp"
#include "discovery/packet_codec.hpp"
#include "tests/fuzz/fuzz_input.hpp"

#include "directory/shard.hpp"

#include <chrono>

namespace {

using namespace peercache;
using namespace std::chrono_literals;

discovery::member self() {
  discovery::member who;
  who.name = "n1";
  who.id = node_id_of(who.name);
  who.host = "10.0.0.1";
  who.inc = {1, 1};
  who.control_port = 1;
  who.data_port = 2;
  who.http_port = 3;
  return who;
}

/// Lets a directory shard follow the views, as the directory actor does.
void follow(directory::shard& shard, const std::vector<discovery::action>& actions) {
  for (const auto& each : actions)
    if (const auto* adopted = std::get_if<discovery::adopt_view>(&each)) {
      std::vector<incarnation> members;
      for (const auto& member : adopted->latest.members)
        members.push_back(member.inc);
      PEERCACHE_ASSERT(!members.empty());
      shard.set_members(members);
    } else if (const auto* sent = std::get_if<discovery::send_packet>(&each)) {
      PEERCACHE_ASSERT(discovery::decode_packet(discovery::encode_packet(sent->body, "c"), "c"));
    }
}

} // namespace

/// Gives the membership of a node that founds or looks for a cluster any packets at any times: no
/// assertion may fail, and a shard must be able to follow its views.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::input in(data, size);
  discovery::membership_options options;
  if (in.value<std::uint8_t>() % 2 == 0)
    options.seeds = {{"10.0.0.2", 1}};
  discovery::time_point now{1s};
  discovery::membership node(options, self(), now);
  directory::shard shard(1024);
  while (!in.empty()) {
    now += in.value<std::uint8_t>() * 10ms;
    follow(shard, node.tick(now));
    if (const auto packet = discovery::decode_packet(in.piece(), "c"))
      follow(shard, node.on_packet(*packet, now));
  }
  return 0;
}
