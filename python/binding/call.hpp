#pragma once

#include "python/binding/convert.hpp"

#include <array>
#include <cxxabi.h>
#include <exception>
#include <functional>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

namespace peercache::python::py {

/// A parameter of a function that Python calls.
struct parameter {
  parameter(const char* of_name) : name(of_name) {} // NOLINT(google-explicit-constructor)
  parameter(const char* of_name, object value) : name(of_name), otherwise(std::move(value)) {}

  const char* name;
  object otherwise; ///< The default value; null: the call must have this argument.
};

/// The name and the parameters by which Python calls a C++ function.
struct signature {
  const char* name = "";
  std::vector<parameter> parameters;
};

/// The signature under which a function was given to Python. It is set once, while the module is
/// made, and never given back.
template <auto Function>
signature& signature_of() {
  static auto* known = new signature;
  return *known;
}

/// The arguments of a call as the interpreter hands them over: `count` positional ones, then those
/// whose names are in `names`, a tuple or null.
struct given_arguments {
  PyObject* const* values = nullptr;
  Py_ssize_t count = 0;
  PyObject* names = nullptr;
};

/// Puts each argument to its parameter, in `places`. Errors: type_error for one that is missing,
/// unknown or given twice.
void place_arguments(const signature& of, const given_arguments& given, PyObject** places);

/// Sets Python's exception for what was thrown.
void set_exception(const std::exception_ptr& thrown) noexcept;
/// Sets the function that translates exceptions of other kinds than this binding's: it sets
/// Python's exception and returns true, or returns false.
void set_translator(bool (*translate)(const std::exception_ptr&)) noexcept;

/// Runs the C++ function that Python has called. What it throws becomes a Python exception.
template <class Failed, class Work>
Failed guarded(Failed failed, Work&& work) {
  try {
    return work();
  } catch (abi::__forced_unwind&) {
    throw; // The end of a thread is not an exception and has to go on.
  } catch (...) {
    set_exception(std::current_exception());
    return failed;
  }
}

/// The parameters of a callable; a member function's object is the first.
template <class Function>
struct callable;
template <class Result, class... Each>
struct callable<Result (*)(Each...)> {
  using result = Result;
  using parameters = std::tuple<Each...>;
};
template <class Result, class... Each>
struct callable<Result (*)(Each...) noexcept> : callable<Result (*)(Each...)> {};
template <class Class, class Result, class... Each>
struct callable<Result (Class::*)(Each...)> : callable<Result (*)(Class&, Each...)> {};
template <class Class, class Result, class... Each>
struct callable<Result (Class::*)(Each...) const> : callable<Result (*)(const Class&, Each...)> {};
template <class Class, class Result, class... Each>
struct callable<Result (Class::*)(Each...) noexcept> : callable<Result (*)(Class&, Each...)> {};
template <class Class, class Result, class... Each>
struct callable<Result (Class::*)(Each...) const noexcept>
    : callable<Result (*)(const Class&, Each...)> {};

template <auto Function>
inline constexpr std::size_t arity =
    std::tuple_size_v<typename callable<decltype(Function)>::parameters>;

/// The C++ value of an argument; its error names the argument.
template <class Value>
decltype(auto) argument(const signature& of, std::size_t at, PyObject* given) {
  try {
    return from_python<Value>(given);
  } catch (const cast_error& wrong) {
    throw type_error(std::string{"the argument '"} + of.parameters[at].name + "' of " + of.name +
                     "(): " + wrong.what());
  }
}

/// Calls the function with these objects. The first `First` of them are not arguments of the call:
/// a method has one such object, its `self`.
template <auto Function, std::size_t First, std::size_t... I>
decltype(auto) call_with(const signature& of, PyObject* const* objects,
                         std::index_sequence<I...> /*each*/) {
  using parameters = typename callable<decltype(Function)>::parameters;
  const auto value =
      [&]<std::size_t At>(std::integral_constant<std::size_t, At>) -> decltype(auto) {
    using bare = std::remove_cvref_t<std::tuple_element_t<At, parameters>>;
    if constexpr (At < First)
      return from_python<bare>(objects[At]);
    else
      return argument<bare>(of, At - First, objects[At]);
  };
  // Braces make the arguments' conversions run in order.
  std::tuple<decltype(value(std::integral_constant<std::size_t, I>{}))...> values{
      value(std::integral_constant<std::size_t, I>{})...};
  return std::invoke(Function,
                     static_cast<std::tuple_element_t<I, parameters>&&>(std::get<I>(values))...);
}

template <auto Function, std::size_t First>
object call_objects(const signature& of, PyObject* const* objects) {
  constexpr auto each = std::make_index_sequence<arity<Function>>{};
  if constexpr (std::is_void_v<typename callable<decltype(Function)>::result>) {
    call_with<Function, First>(of, objects, each);
    return object::borrow(Py_None);
  } else {
    return to_python(call_with<Function, First>(of, objects, each));
  }
}

/// The C function that the interpreter calls for a function of the module (`First` is 0) or a
/// method (1).
template <auto Function, std::size_t First>
PyObject* call(PyObject* self, PyObject* const* values, Py_ssize_t count, PyObject* names) {
  return guarded<PyObject*>(nullptr, [&] {
    const auto& of = signature_of<Function>();
    std::array<PyObject*, arity<Function> + 1> objects{self};
    place_arguments(of, {values, count, names}, objects.data() + First);
    return call_objects<Function, First>(of, objects.data()).release();
  });
}

/// Notes how Python calls the function, and returns what the interpreter needs for it.
template <auto Function, std::size_t First>
PyMethodDef method_definition(const char* name, std::vector<parameter> parameters) {
  using fast_call = PyObject* (*)(PyObject*, PyObject* const*, Py_ssize_t, PyObject*);
  static_assert(arity<Function> >= First);
  if (parameters.size() != arity<Function> - First)
    throw std::logic_error(std::string{name} + " has another number of parameters");
  signature_of<Function>() = {name, std::move(parameters)};
  const fast_call called = &call<Function, First>;
  return {name, reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(called)),
          METH_FASTCALL | METH_KEYWORDS, nullptr};
}

} // namespace peercache::python::py
