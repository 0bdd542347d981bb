#pragma once

#include "common/error.hpp"

#include <string_view>
#include <utility>

namespace peercache::c_api {

/// Keeps the sentence for `peercache_last_error` in this thread. Returns `code`
/// (`enum peercache_code`), so that a function of the C interface ends with `return fail(…)`.
/// Sentences longer than `sentence_bytes_max` are cut. Threads: any.
int fail(int code, std::string_view sentence) noexcept;
int fail(const error& why) noexcept;
/// Fails for wrong arguments: the sentence is `what`, then `how`.
int refuse_argument(std::string_view what, std::string_view how) noexcept;

/// The sentence of the last failure in this thread; ends with a zero byte.
const char* last_sentence() noexcept;

/// Keeps the sentence of the exception that is being handled. Returns its code.
/// @pre called within a catch clause
int fail_from_exception() noexcept;

/// Runs the body of a function of the C interface and returns its code; no exception leaves it.
template <class Body>
int guarded(Body&& body) noexcept {
  try {
    return std::forward<Body>(body)();
  } catch (...) {
    return fail_from_exception();
  }
}

} // namespace peercache::c_api
