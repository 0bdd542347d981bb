#pragma once

#include <Python.h>
#include <cstddef>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

/// Python objects in C++, and C++ functions and classes in Python, over nothing but CPython's
/// limited API (PEP 384): one module then serves every interpreter from 3.10 on. pybind11 and
/// nanobind need a module for each, or 3.12.
///
/// Threads: all of it needs the GIL. Errors: exceptions, which `call.hpp` turns into Python's.
namespace peercache::python::py {

/// Thrown by whoever has set a Python exception for this thread.
struct error_already_set {};

/// An error that becomes Python's TypeError.
class type_error : public std::runtime_error {
public:
  using std::runtime_error::runtime_error;
};

/// A Python value does not have the form that C++ wants; becomes TypeError.
class cast_error final : public type_error {
public:
  using type_error::type_error;
};

/// An error that becomes Python's ValueError.
class value_error final : public std::runtime_error {
public:
  using std::runtime_error::runtime_error;
};

/// A reference to an object that somebody else keeps alive.
class handle {
public:
  handle() = default;
  handle(PyObject* object) noexcept : object_(object) {} // NOLINT(google-explicit-constructor)

  PyObject* ptr() const noexcept { return object_; }
  bool is_none() const noexcept { return object_ == Py_None; }
  explicit operator bool() const noexcept { return object_ != nullptr; }

protected:
  PyObject* object_ = nullptr;
};

/// A reference that keeps its object alive.
class object : public handle {
public:
  object() = default;
  /// Takes over a reference that the caller owns.
  static object steal(PyObject* owned) noexcept {
    object made;
    made.object_ = owned;
    return made;
  }
  static object borrow(handle from) noexcept {
    Py_XINCREF(from.ptr());
    return steal(from.ptr());
  }
  object(const object& from) noexcept : handle(from) { Py_XINCREF(object_); }
  object(object&& from) noexcept : handle(from.release()) {}
  object& operator=(object from) noexcept {
    std::swap(object_, from.object_);
    return *this;
  }
  ~object() { Py_XDECREF(object_); }

  /// Gives the reference to the caller.
  PyObject* release() noexcept { return std::exchange(object_, nullptr); }
};

/// The new reference that a Python function has returned. Errors: `error_already_set` for null.
object checked(PyObject* returned);

class bytes : public object {
public:
  explicit bytes(std::string_view content);
};

class list : public object {
public:
  list();
  void append(const object& item);
};

class dict : public object {
public:
  dict();
  void set(std::string_view name, const object& value);
  /// Sets the item to the value that `to_python` makes (convert.hpp).
  template <class Value>
  void set(std::string_view name, const Value& value);
};

/// A str with this text; bytes that are not UTF-8 are replaced.
object text(std::string_view utf8);

/// Gives the items of a sequence one by one, although Python code may run in between and change the
/// sequence.
class sequence {
public:
  /// Errors: type_error(what) for an object that is not a sequence. A collection without an order
  /// (a set, a dict) is not one: it would give each page some other page's name.
  sequence(handle items, const char* what);

  std::size_t size() const noexcept { return static_cast<std::size_t>(count_); }
  /// The item, which stays alive as long as no Python code runs. Errors: value_error when the
  /// sequence has changed.
  handle operator[](std::size_t index) const;
  /// Takes the items from `first` on, as many as `out` has room for. @pre there are as many. They
  /// stay alive as long as no Python code runs. Errors: value_error when the sequence has changed.
  void take(std::size_t first, std::span<PyObject*> out) const;

private:
  void check_unchanged() const;

  object items_; ///< A list or a tuple.
  bool is_list_ = false;
  Py_ssize_t count_ = 0;
};

} // namespace peercache::python::py
