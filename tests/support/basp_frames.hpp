#pragma once

#include <caf/actor_system.hpp>
#include <caf/binary_serializer.hpp>
#include <caf/io/basp/header.hpp>
#include <caf/message.hpp>
#include <caf/message_id.hpp>
#include <caf/node_id.hpp>

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace peercache {

/// Frames of CAF's protocol (BASP) as bytes: honest ones, which CAF's own code serializes, and
/// forged ones, which only an attacker sends. A frame is a header of 32 bytes and a payload.
class basp_frames {
public:
  using operation = caf::io::basp::message_type;

  /// @param system whose types the messages have; outlives this object @param self the name of the
  /// process that speaks
  basp_frames(caf::actor_system& system, caf::node_id self)
      : system_(system), self_(std::move(self)) {}

  /// The bytes into which CAF serializes these values.
  template <class... T>
  std::string written(T... values) const {
    std::vector<char> bytes;
    caf::binary_serializer sink(system_, bytes);
    if (sink(values...))
      return {};
    return {bytes.begin(), bytes.end()};
  }
  std::string frame(operation what, const std::string& payload, std::uint64_t id = 0,
                    std::uint64_t receiver = 0, std::uint8_t flags = 0,
                    std::uint64_t sender = 0) const {
    return written(caf::io::basp::header{what, flags, static_cast<std::uint32_t>(payload.size()),
                                         id, sender, receiver}) +
           payload;
  }

  /// The first frame that a process sends on a connection to another process.
  std::string handshake() const { return frame(operation::client_handshake, written(self_)); }
  std::string direct(std::uint64_t receiver, const caf::message& said) const {
    return direct(receiver, written(said));
  }
  /// The frame of a message whose bytes are given.
  std::string direct(std::uint64_t receiver, const std::string& message,
                     std::uint64_t id = caf::message_id::default_async_value,
                     std::uint8_t flags = 0) const {
    return frame(operation::direct_message, std::string(1, '\0') + message, id, receiver, flags);
  }
  /// The bytes of a message that lists its types, for example "@<>+@str", and has no values.
  static std::string types(std::string_view list) {
    return std::string(2, '\0') + length(static_cast<std::uint32_t>(list.size())) +
           std::string(list);
  }
  /// A length in the encoding of CAF's serializer.
  static std::string length(std::uint32_t value) {
    std::string bytes;
    for (; value > 127; value >>= 7)
      bytes += static_cast<char>(value | 128);
    return bytes + static_cast<char>(value);
  }
  /// The bytes of a message that contains a message, `depth` levels deep; the innermost message is
  /// empty.
  static std::string nested(std::size_t depth) {
    std::string bytes;
    for (std::size_t i = 0; i < depth; ++i)
      bytes += types("@<>+@message");
    return bytes + types("@<>");
  }

private:
  caf::actor_system& system_;
  caf::node_id self_;
};

} // namespace peercache
