#pragma once

#include "common/page_key.hpp"
#include "common/page_status.hpp"

#include <chrono>
#include <cstdint>
#include <pybind11/pybind11.h>
#include <string>
#include <string_view>
#include <vector>

namespace peercache::python {

namespace py = pybind11;

/// Key strings, copied out of Python's objects: other threads of Python may change the list while
/// a call runs without the GIL.
struct key_strings {
  std::string text;
  std::vector<std::size_t> ends; ///< One for each key.
  std::size_t asked = 0;         ///< More than these, when the deadline came before the last.

  std::size_t size() const noexcept { return ends.size(); }
  std::string_view operator[](std::size_t index) const noexcept {
    auto begin = index == 0 ? 0 : ends[index - 1];
    return std::string_view{text}.substr(begin, ends[index] - begin);
  }
};

/// A buffer that an object of Python's lends for as long as this lives: its bytes stay where they
/// are, and as many. Needs the GIL.
class lent_buffer {
public:
  /// @param flags as PyObject_GetBuffer's. Errors: py::error_already_set, as the object raises it.
  lent_buffer(py::handle object, int flags);
  ~lent_buffer() { PyBuffer_Release(&view_); }
  lent_buffer(const lent_buffer&) = delete;
  lent_buffer& operator=(const lent_buffer&) = delete;

  const Py_buffer& view() const noexcept { return view_; }

private:
  Py_buffer view_{};
};

/// A sequence of str or bytes; what has no order (a set, a dict) is none. Needs the GIL. Errors:
/// py::type_error, py::value_error when it changes meanwhile. What comes after the deadline is not
/// looked at.
key_strings take_keys(py::handle keys, std::chrono::steady_clock::time_point limit);

/// Whether these are integers of that size, one behind the other without gaps.
bool is_row_of_integers(const Py_buffer& view, std::size_t bytes_each);

/// A sequence of non-negative int, or one contiguous array of 64-bit integers (numpy). Needs the
/// GIL. Errors: py::type_error, py::value_error, OverflowError for what is negative or too large.
std::vector<std::uint64_t> take_integers(py::handle numbers, const char* what);

/// The keys of all pages of a call: each key in each space, the spaces of one key together; of the
/// first ones only, when the deadline comes before the last. Without the GIL.
std::vector<page_key> keys_of(const key_strings& keys, const std::vector<key_space>& spaces,
                              std::chrono::steady_clock::time_point limit);

/// Memory of the caller's that pages lie in, as a call names it.
struct page_memory {
  std::vector<std::uint64_t> addresses;
  std::vector<std::uint64_t> sizes; ///< Bytes of each.
  std::size_t parts_per_page = 0;
};

/// Checks that the parts can be shared out evenly among `pages`. Needs the GIL. Errors:
/// py::value_error.
page_memory take_memory(py::handle addresses, py::handle sizes, std::size_t pages);

} // namespace peercache::python
