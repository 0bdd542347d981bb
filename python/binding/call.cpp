#include "python/binding/call.hpp"

#include <new>

namespace peercache::python::py {
namespace {

bool (*translate_other)(const std::exception_ptr&) = nullptr;

std::string call_of(const signature& of) {
  return std::string{of.name} + "()";
}

/// The parameter of this name. Errors: type_error.
std::size_t parameter_named(const signature& of, PyObject* name) {
  const auto wanted = string_of(name);
  for (std::size_t i = 0; i < of.parameters.size(); ++i)
    if (wanted == of.parameters[i].name)
      return i;
  throw type_error(call_of(of) + " has no argument '" + wanted + "'");
}

void set_ours(const std::exception_ptr& thrown) {
  try {
    std::rethrow_exception(thrown);
  } catch (const error_already_set&) {
    if (PyErr_Occurred() == nullptr)
      PyErr_SetString(PyExc_SystemError, "an exception of Python's was lost");
  } catch (const type_error& error) {
    PyErr_SetString(PyExc_TypeError, error.what());
  } catch (const value_error& error) {
    PyErr_SetString(PyExc_ValueError, error.what());
  } catch (const std::bad_alloc&) {
    PyErr_NoMemory();
  } catch (const std::exception& error) {
    PyErr_SetString(PyExc_RuntimeError, error.what());
  } catch (...) {
    PyErr_SetString(PyExc_RuntimeError, "an exception that is not known");
  }
}

} // namespace

void place_arguments(const signature& of, const given_arguments& given, PyObject** places) {
  const auto all = of.parameters.size();
  const auto positional = static_cast<std::size_t>(given.count);
  if (positional > all)
    throw type_error(call_of(of) + " takes at most " + std::to_string(all) +
                     " arguments, and not " + std::to_string(positional));
  for (std::size_t i = 0; i < all; ++i)
    places[i] = i < positional ? given.values[i] : nullptr;
  const auto named = given.names == nullptr ? 0 : PyTuple_Size(given.names);
  for (Py_ssize_t i = 0; i < named; ++i) {
    const auto at = parameter_named(of, PyTuple_GetItem(given.names, i));
    if (places[at] != nullptr)
      throw type_error(call_of(of) + " has the argument '" + of.parameters[at].name + "' twice");
    places[at] = given.values[given.count + i];
  }
  for (std::size_t i = 0; i < all; ++i) {
    if (places[i] == nullptr)
      places[i] = of.parameters[i].otherwise.ptr();
    if (places[i] == nullptr)
      throw type_error(call_of(of) + " lacks the argument '" + of.parameters[i].name + "'");
  }
}

void set_exception(const std::exception_ptr& thrown) noexcept {
  try {
    if (translate_other != nullptr && translate_other(thrown))
      return;
  } catch (...) { // Python had no room for the exception.
    return set_ours(std::current_exception());
  }
  set_ours(thrown);
}

void set_translator(bool (*translate)(const std::exception_ptr&)) noexcept {
  translate_other = translate;
}

} // namespace peercache::python::py
