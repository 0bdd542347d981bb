#pragma once

#include "common/page_key.hpp"
#include "common/page_status.hpp"

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

  std::size_t size() const noexcept { return ends.size(); }
  std::string_view operator[](std::size_t index) const noexcept {
    auto begin = index == 0 ? 0 : ends[index - 1];
    return std::string_view{text}.substr(begin, ends[index] - begin);
  }
};

/// A sequence of str or bytes. Needs the GIL. Errors: py::type_error.
key_strings take_keys(py::handle keys);

/// A list or tuple of non-negative int, or one contiguous array of 64-bit integers (numpy). Needs
/// the GIL. Errors: py::type_error, py::value_error.
std::vector<std::uint64_t> take_integers(py::handle numbers, const char* what);

/// The keys of all pages of a call: each key in each space, the spaces of one key together. Without
/// the GIL.
std::vector<page_key> keys_of(const key_strings& keys, const std::vector<key_space>& spaces);

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
