#include "client/c/failure.hpp"

#include "client/c/peercache.h"

#include <algorithm>
#include <cstring>
#include <exception>
#include <new>
#include <string>

namespace peercache::c_api {
namespace {

constexpr std::size_t sentence_bytes_max = 1023;

// The number of each code is a part of the ABI, whatever becomes of `errc`.
static_assert(static_cast<int>(errc::invalid_argument) == PEERCACHE_INVALID_ARGUMENT);
static_assert(static_cast<int>(errc::not_found) == PEERCACHE_NOT_FOUND);
static_assert(static_cast<int>(errc::refused) == PEERCACHE_REFUSED);
static_assert(static_cast<int>(errc::timed_out) == PEERCACHE_TIMED_OUT);
static_assert(static_cast<int>(errc::unreachable) == PEERCACHE_UNREACHABLE);
static_assert(static_cast<int>(errc::incompatible) == PEERCACHE_INCOMPATIBLE);
static_assert(static_cast<int>(errc::out_of_memory) == PEERCACHE_OUT_OF_MEMORY);
static_assert(static_cast<int>(errc::io_failed) == PEERCACHE_IO_FAILED);
static_assert(static_cast<int>(errc::closed) == PEERCACHE_CLOSED);
static_assert(static_cast<int>(errc::out_of_space) == PEERCACHE_OUT_OF_SPACE);

char* sentence_of_thread() noexcept {
  thread_local char sentence[sentence_bytes_max + 1] = {};
  return sentence;
}

} // namespace

int fail(int code, std::string_view sentence) noexcept {
  auto* kept = sentence_of_thread();
  const auto bytes = std::min(sentence.size(), sentence_bytes_max);
  std::memcpy(kept, sentence.data(), bytes);
  kept[bytes] = '\0';
  return code;
}

int fail(const error& why) noexcept {
  return fail(static_cast<int>(why.code), why.message);
}

int refuse_argument(std::string_view what, std::string_view how) noexcept {
  return guarded([&] { return fail(PEERCACHE_INVALID_ARGUMENT, std::string{what} += how); });
}

const char* last_sentence() noexcept {
  return sentence_of_thread();
}

int fail_from_exception() noexcept {
  try {
    throw;
  } catch (const std::bad_alloc&) {
    return fail(PEERCACHE_OUT_OF_MEMORY, "there is no memory for this call; give it fewer pages");
  } catch (const std::exception& raised) {
    return fail(PEERCACHE_IO_FAILED, raised.what());
  } catch (...) {
    return fail(PEERCACHE_IO_FAILED, "an exception of unknown type ended this call");
  }
}

} // namespace peercache::c_api
