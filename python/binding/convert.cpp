#include "python/binding/convert.hpp"

#include "python/gil.hpp"

namespace peercache::python::py {
namespace {

/// Throws the exception that a conversion in Python has set: that a value has another form or does
/// not fit is a `cast_error`, anything else was raised by Python code.
[[noreturn]] void throw_left(const char* wanted) {
  if (PyErr_ExceptionMatches(PyExc_TypeError) == 0 &&
      PyErr_ExceptionMatches(PyExc_OverflowError) == 0)
    throw error_already_set{};
  PyErr_Clear();
  throw cast_error(wanted);
}

object index_of(handle number) {
  auto* index = or_park([&] { return PyNumber_Index(number.ptr()); });
  if (index == nullptr)
    throw_left("an integer is wanted");
  return object::steal(index);
}

} // namespace

std::uint64_t unsigned_of(handle number, std::uint64_t max) {
  const auto value = PyLong_AsUnsignedLongLong(index_of(number).ptr());
  if (PyErr_Occurred() != nullptr)
    throw_left("an integer of at least 0 and less than 2^64 is wanted");
  if (value > max)
    throw cast_error("an integer of at most " + std::to_string(max) + " is wanted");
  return value;
}

std::int64_t signed_of(handle number, std::int64_t min, std::int64_t max) {
  const auto value = PyLong_AsLongLong(index_of(number).ptr());
  if (PyErr_Occurred() != nullptr)
    throw_left("an integer of 64 bits is wanted");
  if (value < min || value > max)
    throw cast_error("an integer between " + std::to_string(min) + " and " + std::to_string(max) +
                     " is wanted");
  return value;
}

bool bool_of(handle given) {
  if (PyBool_Check(given.ptr()))
    return given.ptr() == Py_True;
  // Other truth values, such as numpy's, have `__bool__`. A str has not, and is refused: the text
  // "no" would count as true.
  const auto* type = reinterpret_cast<PyObject*>(Py_TYPE(given.ptr()));
  if (PyObject_HasAttrString(const_cast<PyObject*>(type), "__bool__") == 0)
    throw cast_error("a bool is wanted");
  const int is_true = or_park([&] { return PyObject_IsTrue(given.ptr()); });
  if (is_true < 0)
    throw error_already_set{};
  return is_true != 0;
}

double double_of(handle given) {
  const auto value = or_park([&] { return PyFloat_AsDouble(given.ptr()); });
  if (PyErr_Occurred() != nullptr)
    throw_left("a number is wanted");
  return value;
}

std::string string_of(handle given) {
  Py_ssize_t size = 0;
  if (PyUnicode_Check(given.ptr())) {
    const auto* utf8 = PyUnicode_AsUTF8AndSize(given.ptr(), &size);
    if (utf8 == nullptr)
      throw error_already_set{};
    return {utf8, static_cast<std::size_t>(size)};
  }
  char* content = nullptr;
  if (PyBytes_Check(given.ptr()) && PyBytes_AsStringAndSize(given.ptr(), &content, &size) == 0)
    return {content, static_cast<std::size_t>(size)};
  throw cast_error("a str is wanted");
}

std::map<std::string, std::string>
converter<std::map<std::string, std::string>>::from(handle given) {
  if (!PyDict_Check(given.ptr()))
    throw cast_error("a dict of str is wanted");
  std::map<std::string, std::string> values;
  // The items are copied first, so that none of them goes while they are read.
  const auto items = checked(PyDict_Items(given.ptr()));
  for (auto& [key, value] : from_python<std::vector<std::pair<std::string, std::string>>>(items))
    values.insert_or_assign(std::move(key), std::move(value));
  return values;
}

} // namespace peercache::python::py
