#include "actors/serving/lookup_connections.hpp"
#include "link/member_question.hpp"
#include "net/frame_channel.hpp"
#include "tests/fuzz/fuzz_input.hpp"

#include <algorithm>

/// Takes any bytes, in pieces, as those that a client sends on its connection to a member: every
/// question that is accepted must be answerable, and no bytes held afterwards. Also reads the bytes
/// as answers, as a client does.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace peercache;
  std::string_view bytes(reinterpret_cast<const char*>(data), size);
  if (const auto answer = link::read_answer(bytes))
    PEERCACHE_ASSERT(answer->body.size() + link::answer_header_bytes == size);
  const auto greeting = net::frames::greeting(1, "", {}, link::member_question_magic);
  actors::lookup_connections connections(net::frames::greeting(1, "", {}), greeting);
  const actors::lookup_connections::handle handle = 1;
  const actors::lookup_connections::time_point now{};
  connections.add(handle, now);
  std::vector<std::string> questions;
  bool is_open = connections.receive(handle, greeting, now, questions);
  const std::size_t piece = bytes.empty() ? 1 : 1 + static_cast<std::uint8_t>(bytes[0]);
  while (is_open && !bytes.empty()) {
    const auto some = bytes.substr(0, piece);
    is_open = connections.receive(handle, some, now, questions);
    bytes.remove_prefix(some.size());
  }
  for (const auto& payload : questions) {
    const auto asked = link::read_question(payload);
    PEERCACHE_ASSERT(asked);
    if (asked->kind == link::member_question::promote)
      PEERCACHE_ASSERT(link::promote_ms(asked->body) <= link::promote_ms_max);
    PEERCACHE_ASSERT(connections.member_answered(handle, asked->kind, asked->body.size(), 1));
    connections.taken(handle, 1, now);
  }
  connections.remove(handle);
  PEERCACHE_ASSERT(connections.held_bytes() == 0);
  return 0;
}
