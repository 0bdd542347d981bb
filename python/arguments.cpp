#include "python/arguments.hpp"

#include <cstring>
#include <limits>

namespace peercache::python {
namespace {

/// One key, as its object holds it. The view lives as long as the object.
std::string_view text_of(PyObject* key) {
  Py_ssize_t size = 0;
  if (PyUnicode_Check(key)) {
    const auto* text = PyUnicode_AsUTF8AndSize(key, &size);
    if (text == nullptr)
      throw py::error_already_set();
    return {text, static_cast<std::size_t>(size)};
  }
  if (PyBytes_Check(key))
    return {PyBytes_AS_STRING(key), static_cast<std::size_t>(PyBytes_GET_SIZE(key))};
  throw py::type_error("a key is str or bytes");
}

/// A view of a list or tuple, or a list made of another sequence.
py::object fast_sequence(py::handle object, const char* what) {
  auto* fast = PySequence_Fast(object.ptr(), what);
  if (fast == nullptr)
    throw py::error_already_set();
  return py::reinterpret_steal<py::object>(fast);
}

std::vector<std::uint64_t> from_array(py::handle array, const char* what) {
  Py_buffer view;
  if (PyObject_GetBuffer(array.ptr(), &view, PyBUF_ND | PyBUF_FORMAT) != 0)
    throw py::error_already_set();
  const std::string_view format = view.format == nullptr ? "" : view.format;
  const bool fits = view.itemsize == sizeof(std::uint64_t) && view.ndim == 1 &&
                    format.find_first_not_of("<=@lLqQnN") == std::string_view::npos;
  std::vector<std::uint64_t> numbers;
  if (fits) {
    numbers.resize(static_cast<std::size_t>(view.len) / sizeof(std::uint64_t));
    if (!numbers.empty())
      std::memcpy(numbers.data(), view.buf, static_cast<std::size_t>(view.len));
  }
  PyBuffer_Release(&view);
  if (!fits)
    throw py::type_error(std::string{what} + ": an array must hold 64-bit integers in one row");
  return numbers;
}

std::vector<std::uint64_t> from_sequence(py::handle sequence, const char* what) {
  auto fast = fast_sequence(sequence, what);
  const auto count = PySequence_Fast_GET_SIZE(fast.ptr());
  auto** items = PySequence_Fast_ITEMS(fast.ptr());
  std::vector<std::uint64_t> numbers(static_cast<std::size_t>(count));
  for (Py_ssize_t i = 0; i < count; ++i) {
    // What is no int, but counts as one (numpy's numbers), goes the slower way.
    numbers[static_cast<std::size_t>(i)] = PyLong_CheckExact(items[i])
                                               ? PyLong_AsUnsignedLongLong(items[i])
                                               : py::cast<std::uint64_t>(py::handle(items[i]));
    if (PyErr_Occurred() != nullptr)
      throw py::error_already_set();
  }
  return numbers;
}

} // namespace

key_strings take_keys(py::handle keys) {
  if (PyUnicode_Check(keys.ptr()) || PyBytes_Check(keys.ptr()))
    throw py::type_error("keys is a sequence of keys, not one key");
  auto fast = fast_sequence(keys, "keys is a sequence of str or bytes");
  const auto count = static_cast<std::size_t>(PySequence_Fast_GET_SIZE(fast.ptr()));
  auto** items = PySequence_Fast_ITEMS(fast.ptr());
  key_strings taken;
  taken.ends.reserve(count);
  for (std::size_t i = 0; i < count; ++i) {
    taken.text += text_of(items[i]);
    taken.ends.push_back(taken.text.size());
  }
  return taken;
}

std::vector<std::uint64_t> take_integers(py::handle numbers, const char* what) {
  if (PyObject_CheckBuffer(numbers.ptr()) && !PyBytes_Check(numbers.ptr()))
    return from_array(numbers, what);
  return from_sequence(numbers, what);
}

std::vector<page_key> keys_of(const key_strings& keys, const std::vector<key_space>& spaces) {
  std::vector<page_key> digests;
  digests.reserve(keys.size() * spaces.size());
  for (std::size_t i = 0; i < keys.size(); ++i)
    for (const auto& space : spaces)
      digests.push_back(space.key_of(keys[i]));
  return digests;
}

page_memory take_memory(py::handle addresses, py::handle sizes, std::size_t pages) {
  page_memory memory{take_integers(addresses, "addresses"), take_integers(sizes, "sizes")};
  const auto parts = memory.addresses.size();
  if (memory.sizes.size() != parts)
    throw py::value_error("addresses and sizes differ in number");
  if (pages == 0 ? parts != 0 : parts % pages != 0 || parts == 0)
    throw py::value_error(std::to_string(parts) + " addresses cannot be shared out among " +
                          std::to_string(pages) + " pages");
  memory.parts_per_page = pages == 0 ? 0 : parts / pages;
  for (std::size_t i = 0; i < parts; ++i) {
    if (memory.sizes[i] > std::numeric_limits<std::uint32_t>::max())
      throw py::value_error("a part has more than 4 GiB");
    if (memory.addresses[i] == 0 && memory.sizes[i] != 0)
      throw py::value_error("a part lies at address 0");
  }
  return memory;
}

} // namespace peercache::python
