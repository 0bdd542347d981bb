#include "python/arguments.hpp"

#include "python/gil.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <span>

namespace peercache::python {
namespace {

/// The text of one key, a Python str or bytes. The view is valid as long as the object lives.
std::string_view text_of(PyObject* key) {
  Py_ssize_t size = 0;
  if (PyUnicode_CheckExact(key) || PyUnicode_Check(key)) { // The first calls nothing.
    const auto* text = PyUnicode_AsUTF8AndSize(key, &size);
    if (text == nullptr)
      throw py::error_already_set();
    return {text, static_cast<std::size_t>(size)};
  }
  char* content = nullptr;
  if (PyBytes_Check(key) && PyBytes_AsStringAndSize(key, &content, &size) == 0)
    return {content, static_cast<std::size_t>(size)};
  throw py::type_error("a key is str or bytes");
}

/// Keys whose objects are loaded into the cache together. Divides the items between two looks of
/// `is_over`.
constexpr std::size_t keys_ahead = 32;

/// Loads the object of a key, and the first bytes of its text behind it, into the cache. An engine
/// makes its keys long before it asks for them.
void prefetch_text(const PyObject* key) noexcept {
  constexpr std::size_t line_bytes = 64;
  __builtin_prefetch(key);
  __builtin_prefetch(reinterpret_cast<const char*>(key) + line_bytes);
}

/// Appends a key. Afterwards the text may be longer than `ends` says: keys of a call have about one
/// length, so one that needs room makes room for others.
void append(key_strings& taken, std::string_view key) {
  constexpr std::size_t key_bytes_usual = 256;
  constexpr std::size_t keys_usual = 1024;
  const auto begin = taken.ends.empty() ? 0 : taken.ends.back();
  const auto end = begin + key.size();
  if (end > taken.text.size())
    taken.text.resize(end + std::min(taken.asked - taken.ends.size(), keys_usual) *
                                std::min(key.size(), key_bytes_usual));
  std::copy(key.begin(), key.end(), taken.text.begin() + static_cast<std::ptrdiff_t>(begin));
  taken.ends.push_back(end);
}

/// Whether the call's time has passed. Looks at the clock only once in 1024 items, and not at the
/// first: so a call without any time still does something.
bool is_over(std::chrono::steady_clock::time_point limit, std::size_t item) {
  constexpr std::size_t items_per_look = 1024;
  return item % items_per_look == 0 && item != 0 && std::chrono::steady_clock::now() >= limit;
}

std::uint64_t checked(unsigned long long number) {
  if (PyErr_Occurred() != nullptr)
    throw py::error_already_set();
  return number;
}

/// The value of a Python integer. Objects that are not an int but can be used as one (numpy's
/// numbers) take a slower way.
std::uint64_t integer_of(PyObject* number) {
  if (PyLong_CheckExact(number))
    return checked(PyLong_AsUnsignedLongLong(number));
  const auto held = py::object::borrow(number);
  auto* index = or_park([&] { return PyNumber_Index(held.ptr()); });
  if (index == nullptr)
    throw py::error_already_set();
  return checked(PyLong_AsUnsignedLongLong(py::object::steal(index).ptr()));
}

/// Whether a number from a signed 64-bit array is negative.
bool is_negative(std::uint64_t number) noexcept {
  return static_cast<std::int64_t>(number) < 0;
}

[[noreturn]] void throw_negative(const char* what) {
  PyErr_Format(PyExc_OverflowError, "%s: a number is negative", what);
  throw py::error_already_set();
}

std::vector<std::uint64_t> from_array(py::handle array, const char* what) {
  const lent_buffer lent{array, PyBUF_ND | PyBUF_FORMAT};
  const auto& view = lent.view();
  if (!is_row_of_integers(view, sizeof(std::uint64_t)))
    throw py::type_error(std::string{what} + ": an array must hold 64-bit integers in one row");
  std::vector<std::uint64_t> numbers(static_cast<std::size_t>(view.len) / sizeof(std::uint64_t));
  if (!numbers.empty())
    std::memcpy(numbers.data(), view.buf, static_cast<std::size_t>(view.len));
  const bool is_signed =
      std::string_view{view.format}.find_first_of("lqn") != std::string_view::npos;
  if (is_signed && std::any_of(numbers.begin(), numbers.end(), is_negative))
    throw_negative(what);
  return numbers;
}

std::vector<std::uint64_t> from_sequence(py::handle sequence, const char* what) {
  const auto why_not = std::string{what} + " are a sequence of integers";
  if (PyUnicode_Check(sequence.ptr()) || PyBytes_Check(sequence.ptr()))
    throw py::type_error(why_not);
  const py::sequence items{sequence, why_not.c_str()};
  std::vector<std::uint64_t> numbers(items.size());
  for (std::size_t i = 0; i < numbers.size(); ++i)
    numbers[i] = integer_of(items[i].ptr());
  return numbers;
}

} // namespace

lent_buffer::lent_buffer(py::handle object, int flags) {
  if (or_park([&] { return PyObject_GetBuffer(object.ptr(), &view_, flags); }) != 0)
    throw py::error_already_set();
}

key_strings take_keys(py::handle keys, std::chrono::steady_clock::time_point limit) {
  if (PyUnicode_Check(keys.ptr()) || PyBytes_Check(keys.ptr()))
    throw py::type_error("keys is a sequence of keys, not one key");
  const py::sequence items{keys, "keys is a sequence of str or bytes"};
  key_strings taken;
  taken.asked = items.size();
  taken.ends.reserve(items.size());
  std::array<PyObject*, keys_ahead> objects{};
  for (std::size_t first = 0; first < items.size() && !is_over(limit, first); first += keys_ahead) {
    const auto next = std::span(objects).first(std::min(keys_ahead, items.size() - first));
    items.take(first, next);
    std::for_each(next.begin(), next.end(), prefetch_text);
    for (auto* key : next)
      append(taken, text_of(key));
  }
  taken.text.resize(taken.ends.empty() ? 0 : taken.ends.back());
  return taken;
}

bool holds_objects(const Py_buffer& view) {
  bool in_name = false; // Names of fields stand between colons.
  for (const char c : std::string_view{view.format == nullptr ? "" : view.format}) {
    in_name ^= c == ':';
    if (c == 'O' && !in_name)
      return true;
  }
  return false;
}

bool is_row_of_integers(const Py_buffer& view, std::size_t bytes_each) {
  const std::string_view format = view.format == nullptr ? "" : view.format;
  const auto kind = format.substr(std::min(format.size(), format.find_first_not_of("<=@")));
  return view.ndim == 1 && static_cast<std::size_t>(view.itemsize) == bytes_each &&
         kind.size() == 1 && kind.find_first_of("iIlLqQnN") == 0 &&
         PyBuffer_IsContiguous(&view, 'C') != 0;
}

std::vector<std::uint64_t> take_integers(py::handle numbers, const char* what) {
  if (PyObject_CheckBuffer(numbers.ptr()) && !PyBytes_Check(numbers.ptr()))
    return from_array(numbers, what);
  return from_sequence(numbers, what);
}

std::vector<page_key> keys_of(const key_strings& keys, const std::vector<key_space>& spaces,
                              std::chrono::steady_clock::time_point limit) {
  std::vector<page_key> digests;
  digests.reserve(keys.size() * spaces.size());
  for (std::size_t i = 0; i < keys.size() && !is_over(limit, i); ++i)
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
