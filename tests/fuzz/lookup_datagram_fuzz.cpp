#include "link/lookup_datagram.hpp"
#include "tests/fuzz/fuzz_input.hpp"

/// Takes any bytes as a datagram that came to a node or a client: without the secret they are
/// nothing. The same bytes as keys or as an answer's body come out as they were sealed.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace peercache;
  static link::lookup_datagrams_codec codec;
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const incarnation owner{1, 2};
  const link::datagram_pass pass{3, {9, 8, 7}};
  if (codec.question_of(bytes))
    PEERCACHE_ASSERT(!codec.open_question(bytes, pass.secret, owner));
  if (codec.answered_by(bytes))
    PEERCACHE_ASSERT(!codec.open_answer(bytes, pass.secret, owner));
  (void)link::read_pass(bytes);
  std::string sealed;
  codec.append_question(sealed, pass, owner, 4, bytes.substr(0, 768));
  PEERCACHE_ASSERT(codec.question_of(sealed));
  PEERCACHE_ASSERT(codec.open_question(sealed, pass.secret, owner) == bytes.substr(0, 768));
  sealed.clear();
  const auto body = bytes.substr(0, link::datagram_body_max);
  codec.append_answer(sealed, pass.secret, owner, 4, 5, {link::lookup_reply::places, body});
  PEERCACHE_ASSERT(codec.answered_by(sealed) == 4u);
  PEERCACHE_ASSERT(codec.open_answer(sealed, pass.secret, owner)->body == body);
  return 0;
}
