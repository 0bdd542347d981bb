#pragma once

#include "common/result.hpp"

#include <type_traits>
#include <utility>

namespace peercache::python {

/// An exception that carries an `error` to the code that raises it in Python as `peercache.Error`.
struct raised_error {
  error why;
};

/// The value of a result. Errors: raises the result's error in Python. Needs the GIL.
template <class Value>
Value value_or_raise(result<Value> given) {
  if (!given)
    throw raised_error{given.error()};
  if constexpr (!std::is_void_v<Value>)
    return *std::move(given);
}

} // namespace peercache::python
