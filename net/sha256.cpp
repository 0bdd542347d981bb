#include "net/sha256.hpp"

#include "common/assert.hpp"

#include <openssl/evp.h>

namespace peercache::net {

struct sha256::state {
  EVP_MD_CTX* context = EVP_MD_CTX_new();

  state() {
    PEERCACHE_ASSERT(context != nullptr);
    PEERCACHE_ASSERT(EVP_DigestInit_ex2(context, EVP_sha256(), nullptr) == 1);
  }
  state(const state&) = delete;
  state& operator=(const state&) = delete;
  ~state() { EVP_MD_CTX_free(context); }
};

sha256::sha256() : state_(std::make_unique<state>()) {}
sha256::~sha256() = default;

void sha256::add(std::span<const std::uint8_t> bytes) noexcept {
  PEERCACHE_ASSERT(EVP_DigestUpdate(state_->context, bytes.data(), bytes.size()) == 1);
}

sha256::digest sha256::finish() noexcept {
  digest made;
  unsigned int size = 0;
  PEERCACHE_ASSERT(EVP_DigestFinal_ex(state_->context, made.data(), &size) == 1);
  PEERCACHE_ASSERT(size == made.size());
  // With a null type the algorithm stays, and nothing is looked up by name.
  PEERCACHE_ASSERT(EVP_DigestInit_ex2(state_->context, nullptr, nullptr) == 1);
  return made;
}

} // namespace peercache::net
