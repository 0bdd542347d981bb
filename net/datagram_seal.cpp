#include "net/datagram_seal.hpp"

#include "common/assert.hpp"

#include <cstring>
#include <openssl/evp.h>
#include <openssl/rand.h>

namespace peercache::net {
namespace {

const std::uint8_t* bytes_of(std::string_view text) noexcept {
  return reinterpret_cast<const std::uint8_t*>(text.data());
}

std::array<std::uint8_t, 12> packed(const datagram_nonce& nonce) noexcept {
  std::array<std::uint8_t, 12> bytes;
  std::memcpy(bytes.data(), &nonce.side, sizeof nonce.side);
  std::memcpy(bytes.data() + sizeof nonce.side, &nonce.number, sizeof nonce.number);
  return bytes;
}

} // namespace

result<datagram_key> make_datagram_key() {
  datagram_key key;
  if (RAND_bytes(key.data(), static_cast<int>(key.size())) != 1)
    return {errc::io_failed, "the system gives no random bytes"};
  return key;
}

datagram_seal::datagram_seal()
    : cipher_(EVP_CIPHER_fetch(nullptr, "AES-128-GCM", nullptr)), to_seal_(EVP_CIPHER_CTX_new()),
      to_open_(EVP_CIPHER_CTX_new()) {
  PEERCACHE_ASSERT(cipher_ != nullptr && to_seal_ != nullptr && to_open_ != nullptr);
  PEERCACHE_ASSERT(EVP_EncryptInit_ex2(to_seal_, cipher_, nullptr, nullptr, nullptr) == 1);
  PEERCACHE_ASSERT(EVP_DecryptInit_ex2(to_open_, cipher_, nullptr, nullptr, nullptr) == 1);
}

datagram_seal::~datagram_seal() {
  EVP_CIPHER_CTX_free(to_open_);
  EVP_CIPHER_CTX_free(to_seal_);
  EVP_CIPHER_free(cipher_);
}

void datagram_seal::seal(const datagram_key& key, const datagram_nonce& nonce,
                         std::string_view known, std::string_view context, std::string_view text,
                         std::string& out) {
  const auto iv = packed(nonce);
  const auto before = out.size();
  out.resize(before + text.size() + tag_bytes);
  auto* to = reinterpret_cast<std::uint8_t*>(out.data()) + before;
  int count = 0, last = 0;
  const bool is_sealed =
      EVP_EncryptInit_ex2(to_seal_, nullptr, key.data(), iv.data(), nullptr) == 1 &&
      EVP_EncryptUpdate(to_seal_, nullptr, &count, bytes_of(known),
                        static_cast<int>(known.size())) == 1 &&
      EVP_EncryptUpdate(to_seal_, nullptr, &count, bytes_of(context),
                        static_cast<int>(context.size())) == 1 &&
      EVP_EncryptUpdate(to_seal_, to, &count, bytes_of(text), static_cast<int>(text.size())) == 1 &&
      EVP_EncryptFinal_ex(to_seal_, to + count, &last) == 1 &&
      EVP_CIPHER_CTX_ctrl(to_seal_, EVP_CTRL_AEAD_GET_TAG, tag_bytes, to + text.size()) == 1;
  PEERCACHE_ASSERT(is_sealed); // Sealing fails only without memory.
}

std::optional<std::string_view>
datagram_seal::open(const datagram_key& key, const datagram_nonce& nonce, std::string_view known,
                    std::string_view context, std::string_view sealed) {
  if (sealed.size() < tag_bytes)
    return std::nullopt;
  const auto iv = packed(nonce);
  const auto text = sealed.substr(0, sealed.size() - tag_bytes);
  std::array<std::uint8_t, tag_bytes> tag;
  std::memcpy(tag.data(), sealed.data() + text.size(), tag.size());
  opened_.resize(text.size());
  auto* to = reinterpret_cast<std::uint8_t*>(opened_.data());
  int count = 0, last = 0;
  const bool is_begun =
      EVP_DecryptInit_ex2(to_open_, nullptr, key.data(), iv.data(), nullptr) == 1 &&
      EVP_DecryptUpdate(to_open_, nullptr, &count, bytes_of(known),
                        static_cast<int>(known.size())) == 1 &&
      EVP_DecryptUpdate(to_open_, nullptr, &count, bytes_of(context),
                        static_cast<int>(context.size())) == 1 &&
      EVP_DecryptUpdate(to_open_, to, &count, bytes_of(text), static_cast<int>(text.size())) == 1 &&
      EVP_CIPHER_CTX_ctrl(to_open_, EVP_CTRL_AEAD_SET_TAG, tag_bytes, tag.data()) == 1;
  PEERCACHE_ASSERT(is_begun); // Fails only without memory; the tag is compared below.
  if (EVP_DecryptFinal_ex(to_open_, to + count, &last) != 1)
    return std::nullopt;
  return std::string_view(opened_);
}

} // namespace peercache::net
