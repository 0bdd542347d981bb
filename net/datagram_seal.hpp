#pragma once

#include "common/result.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

struct evp_cipher_ctx_st;
struct evp_cipher_st;

namespace peercache::net {

/// A secret that two processes share for as long as a connection between them stands.
using datagram_key = std::array<std::uint8_t, 16>;

/// Returns a key that nobody can guess. Fails when the system has no random bytes.
result<datagram_key> make_datagram_key();

/// Twelve bytes that never come twice under one key: whoever seals has a `side` of its own, and
/// counts its messages.
struct datagram_nonce {
  std::uint32_t side = 0;
  std::uint64_t number = 0;
};

/// Encrypts and authenticates small messages: AES-128-GCM. Its tag covers the message and, besides,
/// two texts that both sides know (`known`, `context`) and that are not encrypted. One object seals
/// and opens any number of messages under any keys.
///
/// Threads: one at a time. Errors: none when sealing; without memory the process ends.
class datagram_seal {
public:
  static constexpr std::size_t tag_bytes = 16;

  datagram_seal();
  ~datagram_seal();
  datagram_seal(const datagram_seal&) = delete;
  datagram_seal& operator=(const datagram_seal&) = delete;

  /// Appends the encrypted text and its tag to `out`. @pre `known` is not within `out`
  void seal(const datagram_key& key, const datagram_nonce& nonce, std::string_view known,
            std::string_view context, std::string_view text, std::string& out);
  /// Returns the text that was sealed, valid until the next call; nothing when the bytes are not
  /// what a process with this key has sealed with this nonce and these texts.
  std::optional<std::string_view> open(const datagram_key& key, const datagram_nonce& nonce,
                                       std::string_view known, std::string_view context,
                                       std::string_view sealed);

private:
  evp_cipher_st* cipher_;
  evp_cipher_ctx_st* to_seal_;
  evp_cipher_ctx_st* to_open_;
  std::string opened_;
};

} // namespace peercache::net
