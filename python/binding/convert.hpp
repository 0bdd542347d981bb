#pragma once

#include "python/binding/object.hpp"

#include <concepts>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

namespace peercache::python::py {

/// How values go between Python and C++: `from` takes one from Python, `to` makes one for it.
/// Errors: `cast_error` for a value of another form or out of range; `error_already_set` for what
/// Python code raises during the conversion. The general form, for classes that Python knows, is in
/// type.hpp.
template <class Value>
struct converter;

template <class Value>
decltype(auto) from_python(handle given) {
  return converter<Value>::from(given);
}

template <class Value>
object to_python(Value&& value) {
  return converter<std::remove_cvref_t<Value>>::to(std::forward<Value>(value));
}

template <class Value>
void dict::set(std::string_view name, const Value& value) {
  set(name, to_python(value));
}

/// The value of an int, or of what can be used as one (numpy's numbers), within the limits.
std::uint64_t unsigned_of(handle number, std::uint64_t max);
std::int64_t signed_of(handle number, std::int64_t min, std::int64_t max);
bool bool_of(handle given);
double double_of(handle given);
std::string string_of(handle given);

template <>
struct converter<bool> {
  static bool from(handle given) { return bool_of(given); }
  static object to(bool value) { return object::borrow(value ? Py_True : Py_False); }
};

template <std::unsigned_integral Number>
struct converter<Number> {
  static Number from(handle given) {
    return static_cast<Number>(unsigned_of(given, std::numeric_limits<Number>::max()));
  }
  static object to(Number value) { return checked(PyLong_FromUnsignedLongLong(value)); }
};

template <std::signed_integral Number>
struct converter<Number> {
  using limits = std::numeric_limits<Number>;
  static Number from(handle given) {
    return static_cast<Number>(signed_of(given, limits::min(), limits::max()));
  }
  static object to(Number value) { return checked(PyLong_FromLongLong(value)); }
};

template <>
struct converter<double> {
  static double from(handle given) { return double_of(given); }
  static object to(double value) { return checked(PyFloat_FromDouble(value)); }
};

template <>
struct converter<std::string> {
  static std::string from(handle given) { return string_of(given); }
  static object to(std::string_view value) { return text(value); }
};

template <>
struct converter<handle> {
  static handle from(handle given) { return given; }
};

template <>
struct converter<object> {
  static object from(handle given) { return object::borrow(given); }
  static object to(object value) { return value; }
};

/// Objects that C++ has made (a list, a dict, bytes) go to Python as they are.
template <std::derived_from<object> Object>
struct converter<Object> {
  static object to(object value) { return value; }
};

template <class Value>
struct converter<std::optional<Value>> {
  static std::optional<Value> from(handle given) {
    if (given.is_none())
      return std::nullopt;
    return from_python<Value>(given);
  }
  static object to(const std::optional<Value>& value) {
    return value ? to_python(*value) : object::borrow(Py_None);
  }
};

template <class Value>
struct converter<std::vector<Value>> {
  static std::vector<Value> from(handle given) {
    if (PyUnicode_Check(given.ptr()) || PyBytes_Check(given.ptr()))
      throw cast_error("a sequence is wanted");
    const sequence items{given, "a sequence is wanted"};
    std::vector<Value> values;
    values.reserve(items.size());
    for (std::size_t i = 0; i < items.size(); ++i)
      values.push_back(from_python<Value>(object::borrow(items[i])));
    return values;
  }
  static object to(const std::vector<Value>& values) {
    list made;
    for (const auto& each : values)
      made.append(to_python(each));
    return made;
  }
};

template <class... Values>
struct converter<std::tuple<Values...>> {
  static std::tuple<Values...> from(handle given) {
    const sequence items{given, "a sequence is wanted"};
    if (items.size() != sizeof...(Values))
      throw cast_error("a sequence of " + std::to_string(sizeof...(Values)) + " items is wanted");
    return from(items, std::index_sequence_for<Values...>{});
  }
  static object to(const std::tuple<Values...>& values) {
    return to(values, std::index_sequence_for<Values...>{});
  }

private:
  template <std::size_t... I>
  static std::tuple<Values...> from(const sequence& items, std::index_sequence<I...> /*each*/) {
    return {from_python<Values>(object::borrow(items[I]))...};
  }
  template <std::size_t... I>
  static object to(const std::tuple<Values...>& values, std::index_sequence<I...> /*each*/) {
    auto made = checked(PyTuple_New(sizeof...(Values)));
    // The tuple takes each reference over.
    (PyTuple_SetItem(made.ptr(), I, to_python(std::get<I>(values)).release()), ...);
    return made;
  }
};

template <class First, class Second>
struct converter<std::pair<First, Second>> {
  using both = converter<std::tuple<First, Second>>;
  static std::pair<First, Second> from(handle given) {
    return std::make_from_tuple<std::pair<First, Second>>(both::from(given));
  }
  static object to(const std::pair<First, Second>& values) { return both::to(values); }
};

template <>
struct converter<std::map<std::string, std::string>> {
  static std::map<std::string, std::string> from(handle given);
};

} // namespace peercache::python::py
