#pragma once

#include "common/assert.hpp"
#include "common/error.hpp"

#include <optional>
#include <utility>
#include <variant>

namespace peercache {

/// A value, or the error that took its place. Errors have causes outside of this program; bugs of
/// ours are assertions.
template <class T>
class [[nodiscard]] result {
public:
  result(T value) : state_(std::in_place_index<0>, std::move(value)) {}
  result(peercache::error err) : state_(std::in_place_index<1>, std::move(err)) {}
  result(errc code, std::string message) : result(peercache::error{code, std::move(message)}) {}

  explicit operator bool() const noexcept { return state_.index() == 0; }

  T& operator*() & noexcept { return value(); }
  const T& operator*() const& noexcept { return const_cast<result*>(this)->value(); }
  T&& operator*() && noexcept { return std::move(value()); }
  T* operator->() noexcept { return &value(); }
  const T* operator->() const noexcept { return &const_cast<result*>(this)->value(); }

  /// The error that took the value's place. @pre !*this
  const struct error& error() const noexcept {
    PEERCACHE_ASSERT(state_.index() == 1);
    return *std::get_if<1>(&state_);
  }

private:
  T& value() noexcept {
    PEERCACHE_ASSERT(state_.index() == 0);
    return *std::get_if<0>(&state_);
  }

  std::variant<T, struct error> state_;
};

template <>
class [[nodiscard]] result<void> {
public:
  result() = default;
  result(peercache::error err) : error_(std::move(err)) {}
  result(errc code, std::string message) : error_(std::in_place) {
    error_->code = code;
    error_->message = std::move(message);
  }

  explicit operator bool() const noexcept { return !error_; }

  /// The error of a call that has no value to return. @pre !*this
  const struct error& error() const noexcept {
    PEERCACHE_ASSERT(error_.has_value());
    return *error_;
  }

private:
  std::optional<struct error> error_;
};

} // namespace peercache
