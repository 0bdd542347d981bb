#include "link/basp_guard.hpp"

#include "link/protocol/message_types.hpp"

#include <caf/atom.hpp>
#include <caf/io/basp/header.hpp>
#include <caf/io/basp/message_type.hpp>
#include <caf/message_id.hpp>
#include <caf/node_id.hpp>

#include <algorithm>
#include <utility>

namespace peercache::link {

namespace {

using operation = caf::io::basp::message_type;

constexpr std::string_view cut_short = "it ends too early";

/// Reads what CAF's serializer has written: numbers with their high byte first.
class reader {
public:
  explicit reader(std::span<const char> bytes) : rest_(bytes) {}

  bool ok() const noexcept { return ok_; }
  std::string_view take(std::size_t bytes) noexcept {
    ok_ = ok_ && bytes <= rest_.size();
    if (!ok_)
      return {};
    const std::string_view taken(rest_.data(), bytes);
    rest_ = rest_.subspan(bytes);
    return taken;
  }
  template <class Number>
  Number number() noexcept {
    Number value = 0;
    for (const char byte : take(sizeof(Number)))
      value = static_cast<Number>((std::uint64_t{value} << 8) | static_cast<unsigned char>(byte));
    return value;
  }
  /// Reads a length: seven bits in each byte, the low ones first; the last byte is below 128. CAF
  /// reads up to five bytes of a length, and drops bits that do not fit.
  std::size_t length() noexcept {
    std::size_t value = 0;
    for (unsigned shift = 0; shift < 35; shift += 7) {
      const auto byte = number<std::uint8_t>();
      value |= std::size_t{byte & 0x7Fu} << shift;
      if (byte < 128)
        return value;
    }
    ok_ = false;
    return 0;
  }

private:
  std::span<const char> rest_;
  bool ok_ = true;
};

/// The names, as CAF writes them, of CAF's own types that may travel in our messages.
constexpr std::array<std::string_view, 13> plain_types = {"@str", "@atom",  "@u8",  "@u16", "@u32",
                                                          "@u64", "@i8",    "@i16", "@i32", "@i64",
                                                          "bool", "double", "float"};

template <caf::type_id_t... Offsets>
constexpr auto names_of_block(std::integer_sequence<caf::type_id_t, Offsets...>) {
  constexpr auto begin = caf::id_block::peercache::begin;
  return std::array<std::string_view, sizeof...(Offsets)>{
      caf::type_name_by_id<static_cast<caf::type_id_t>(begin + Offsets)>::value...};
}

/// The names of all types of link/protocol/message_types.hpp.
constexpr auto our_types = names_of_block(
    std::make_integer_sequence<caf::type_id_t,
                               caf::id_block::peercache::end - caf::id_block::peercache::begin>{});

template <class Names>
bool has(const Names& names, std::string_view name) noexcept {
  return std::find(names.begin(), names.end(), name) != names.end();
}

constexpr std::string_view empty_message = "@<>";
/// Types of the question by which a helper, an actor that CAF starts for each peer, asks for the
/// peer's server of configurations. The answer is the only accepted message with an actor of any
/// type.
constexpr std::string_view helpers_question = "@<>+@atom+@atom+@str";
constexpr std::string_view answer_to_helper = "@<>+@atom+@str+@strong_actor_ptr+@str";
constexpr std::string_view lone_error = "@<>+@error";

/// Whether `allowed` accepts every element of `types`, the list of a message's types as CAF writes
/// it.
template <class Allowed>
bool all_elements(std::string_view types, Allowed&& allowed) noexcept {
  if (!types.starts_with(empty_message))
    return false;
  types.remove_prefix(empty_message.size());
  while (!types.empty()) {
    if (types.front() != '+')
      return false;
    types.remove_prefix(1);
    const auto name = types.substr(0, types.find('+'));
    if (!allowed(name))
      return false;
    types.remove_prefix(name.size());
  }
  return true;
}

/// Reads the list of a message's types; the message's values follow in `from`. Empty when a type is
/// given by number.
std::string_view types_of(reader& from) noexcept {
  if (from.number<std::uint16_t>() != 0) // CAF's messages give all types by name.
    return {};
  return from.take(from.length());
}

std::string_view judge_error(reader& from) noexcept {
  from.number<std::uint8_t>();  // Skips the error's code.
  from.number<std::uint64_t>(); // Skips the error's category; the error's context follows, which is
                                // a message.
  const auto types = types_of(from);
  if (!from.ok())
    return cut_short;
  const auto is_plain = [](std::string_view name) { return has(plain_types, name); };
  return all_elements(types, is_plain) ? "" : "it has an error with a context that is not plain";
}

std::string_view judge_message(reader from, bool to_name, bool answers) noexcept {
  if (from.number<std::uint8_t>() != 0)
    return "it is passed on from actor to actor";
  const auto types = types_of(from);
  if (!from.ok())
    return cut_short;
  if (to_name)
    return types == helpers_question ? "" : "it is for an actor of CAF";
  if (types == lone_error) // An error that answers nothing ends the actor that gets it.
    return answers ? judge_error(from) : "it is an error that answers nothing";
  if (types == answer_to_helper)
    return "";
  const auto is_ours = [](std::string_view name) {
    return has(plain_types, name) || has(our_types, name);
  };
  return all_elements(types, is_ours) ? "" : "it has elements that no message of ours has";
}

bool is_handshake(operation what) noexcept {
  return what == operation::server_handshake || what == operation::client_handshake;
}

/// The name of CAF's actor that creates actors by type, the only one that is sent messages by name.
constexpr auto named_server = static_cast<std::uint64_t>(caf::atom("SpawnServ"));

} // namespace

std::string_view basp_guard::refusal_of(std::span<const char> piece) noexcept {
  if (payload_bytes_ == 0)
    return judge_header(piece);
  const auto refused = piece.size() == payload_bytes_ ? judge_payload(piece) : cut_short;
  payload_bytes_ = 0;
  return refused;
}

std::string_view basp_guard::judge_header(std::span<const char> piece) noexcept {
  if (piece.size() != caf::io::basp::header_size)
    return cut_short;
  reader from(piece);
  operation_ = from.number<std::uint8_t>();
  from.take(2);
  const auto flags = from.number<std::uint8_t>();
  payload_bytes_ = from.number<std::uint32_t>();
  const caf::message_id id(from.number<std::uint64_t>());
  from.number<std::uint64_t>(); // Skips the sender's id.
  const auto receiver = from.number<std::uint64_t>();
  answers_ = id.is_response();
  to_name_ = (flags & caf::io::basp::header::named_receiver_flag) != 0;
  const auto what = static_cast<operation>(operation_);
  if (!greeted_ && !is_handshake(what))
    return "it does not shake hands first";
  // CAF would send on this connection what is for the process that the handshake names, and would
  // not stop when the connection ends.
  if (!greeted_ && (flags & caf::io::basp::header::select_connection_flag) != 0)
    return "it selects a connection before it has shaken hands on it";
  if ((payload_bytes_ == 0) != (what == operation::heartbeat))
    return payload_bytes_ == 0 ? cut_short : "it is a heartbeat with more than that";
  switch (what) {
  case operation::server_handshake:
  case operation::client_handshake:
  case operation::monitor_message:
  case operation::down_message:
  case operation::heartbeat:
    return "";
  case operation::direct_message:
    if (id.is_stream_message())
      return "it is of a stream";
    return to_name_ && receiver != named_server ? "it is for an actor of CAF" : "";
  case operation::routed_message:
    break;
  }
  return "its kind is none of ours";
}

std::string_view basp_guard::judge_payload(std::span<const char> piece) noexcept {
  const auto what = static_cast<operation>(operation_);
  if (is_handshake(what))
    return judge_handshake(piece);
  if (what == operation::direct_message)
    return judge_message(reader(piece), to_name_, answers_);
  return judge_note(piece);
}

std::string_view basp_guard::judge_handshake(std::span<const char> piece) noexcept {
  reader from(piece);
  const auto name = from.take(node_bytes);
  if (!from.ok())
    return cut_short;
  constexpr auto usual = static_cast<std::uint64_t>(caf::node_id::default_data::class_id);
  if (reader(piece).number<std::uint64_t>() != usual)
    return "its name is not that of a process";
  // Two processes that dial each other at the same time agree by a further handshake which of the
  // two connections stays.
  if (greeted_ && !std::equal(name.begin(), name.end(), peer_.begin()))
    return "it shakes hands with another name";
  std::copy(name.begin(), name.end(), peer_.begin());
  greeted_ = true;
  return "";
}

/// Judges a note that an actor is watched or has ended. A note has the names of the sender's and
/// the receiver's process; a note of an end has the actor's exit reason as well.
std::string_view basp_guard::judge_note(std::span<const char> piece) const noexcept {
  reader from(piece);
  const auto sender = from.take(node_bytes);
  const auto receiver = from.take(node_bytes);
  if (!from.ok())
    return cut_short;
  if (!std::equal(sender.begin(), sender.end(), peer_.begin()))
    return "it speaks for another process";
  // CAF's names of processes begin with the kind of the name; the receiver's has to be of the
  // peer's kind.
  constexpr auto usual_bytes = sizeof(std::uint64_t);
  if (!std::equal(receiver.begin(), receiver.begin() + usual_bytes, peer_.begin()))
    return "it names no process";
  return static_cast<operation>(operation_) == operation::down_message ? judge_error(from) : "";
}

} // namespace peercache::link
