#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace peercache::link {

/// Judges what one peer says in CAF's protocol before CAF reads it. CAF itself accepts from anybody
/// who connects: messages that end an actor (exit, down, link), messages nested without end, and
/// texts and streams for which CAF makes room, or dereferences null, before their bytes have come.
/// Processes of ours never send these. Let through are: first a handshake that does not select
/// its connection, and later ones of the same process only; heartbeats; notes that an actor is
/// watched or has ended, sent in the name of the process that shook hands; direct messages of
/// numbers, texts, atoms and the types of link/protocol/message_types.hpp; the question of a helper
/// actor of CAF to "SpawnServ", and its answer. An error alone, with a context of numbers, texts
/// and atoms, is let through only where it answers a request.
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
