#pragma once

#include "common/page_key.hpp"
#include "common/page_status.hpp"
#include "python/binding/object.hpp"

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace peercache::python {

/// Key strings, copied out of Python's objects, since other threads of Python may change the list
/// while a call runs without the GIL.
struct key_strings {
  std::string text;
  std::vector<std::size_t> ends; ///< The end of each key in `text`: one entry for each key.
  /// Keys that the call named: more than `ends` has when the deadline came before the last key was
  /// copied.
  std::size_t asked = 0;

  std::size_t size() const noexcept { return ends.size(); }
  std::string_view operator[](std::size_t index) const noexcept {
    auto begin = index == 0 ? 0 : ends[index - 1];
    return std::string_view{text}.substr(begin, ends[index] - begin);
  }
};

/// A Python object's buffer, held for as long as this lives: its bytes keep their place and their
/// number. Needs the GIL.
class lent_buffer {
public:
  /// Takes the buffer. @param flags as of PyObject_GetBuffer. Errors: py::error_already_set, as the
  /// object raises it.
  lent_buffer(py::handle object, int flags);
  ~lent_buffer() { PyBuffer_Release(&view_); }
  lent_buffer(const lent_buffer&) = delete;
  lent_buffer& operator=(const lent_buffer&) = delete;

  const Py_buffer& view() const noexcept { return view_; }

private:
  Py_buffer view_{};
};

/// Copies keys out of a sequence of str or bytes; a collection without an order (a set, a dict) is
/// not a sequence. Keys that come after the deadline are not looked at. Needs the GIL. Errors:
/// py::type_error; py::value_error when the sequence changes during the copy.
key_strings take_keys(py::handle keys, std::chrono::steady_clock::time_point limit);

/// Whether the buffer holds references to Python objects, or has fields that are such references.
bool holds_objects(const Py_buffer& view);

/// Whether the buffer holds integers of `bytes_each`, one behind the other without gaps.
bool is_row_of_integers(const Py_buffer& view, std::size_t bytes_each);

/// The numbers of a sequence of non-negative int, or of one contiguous array of 64-bit integers
/// (numpy). Needs the GIL. Errors: py::type_error, py::value_error, OverflowError for a number that
/// is negative or too large.
std::vector<std::uint64_t> take_integers(py::handle numbers, const char* what);

/// Makes the page keys of a call: each key in each space, the page keys of one key side by side.
/// When the deadline comes before the last, only the first ones are made. Runs without the GIL.
std::vector<page_key> keys_of(const key_strings& keys, const std::vector<key_space>& spaces,
                              std::chrono::steady_clock::time_point limit);

/// The caller's memory for pages, as a call names it: parts by address and size.
struct page_memory {
  std::vector<std::uint64_t> addresses;
  std::vector<std::uint64_t> sizes; ///< Bytes of each part.
  std::size_t parts_per_page = 0;
};

/// Reads the parts and checks that they can be shared out evenly among `pages` pages. Needs the
/// GIL. Errors: py::value_error.
page_memory take_memory(py::handle addresses, py::handle sizes, std::size_t pages);

} // namespace peercache::python
