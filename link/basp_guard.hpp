#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace peercache::link {

/// Judges what one peer says in CAF's protocol before CAF reads it. CAF takes whatever it can
/// express from anybody who connects: messages that end an actor (exit, down, link), messages
/// within messages without end, and texts and streams for which it makes room, or dereferences
/// null, before their bytes have come. Processes of ours never send these.
///
/// Let through are: handshakes of one process, before anything else; heartbeats; the notes that an
/// actor is watched or has ended, for actors of the peer that shook hands; and direct messages of
/// numbers, texts, atoms and the types of link/protocol/message_types.hpp. An answer may consist of
/// an error only, with a context of numbers and texts.
///
/// Threads: one. Pure. Errors: a refusal is final; the caller ends the connection.
class basp_guard {
public:
  /// Judges the next piece of a connection, as CAF asks for it: a header alone, or the whole
  /// payload that the header has announced. Returns why it is refused; empty: CAF may read it.
  std::string_view refusal_of(std::span<const char> piece) noexcept;

private:
  static constexpr std::size_t node_bytes = 32;
  using node_name = std::array<char, node_bytes>; ///< A process's name, as CAF writes it.

  std::string_view judge_header(std::span<const char> piece) noexcept;
  std::string_view judge_payload(std::span<const char> piece) noexcept;
  std::string_view judge_handshake(std::span<const char> piece) noexcept;
  std::string_view judge_note(std::span<const char> piece) const noexcept;

  std::uint8_t operation_ = 0;
  bool to_name_ = false; ///< The message is for an actor that is named and not numbered.
  bool answers_ = false; ///< The message answers a request.
  /// Length of the awaited payload; 0: the next piece is a header.
  std::uint32_t payload_bytes_ = 0;
  bool greeted_ = false;
  node_name peer_{};
};

} // namespace peercache::link
