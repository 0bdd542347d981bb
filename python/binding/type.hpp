#pragma once

#include "python/binding/call.hpp"

#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace peercache::python::py {

/// A Python object that owns a C++ object.
struct instance {
  PyObject_HEAD;
  void* held;          ///< The C++ object; null when its constructor has failed.
  PyObject* weak_refs; ///< The weak references, which the interpreter keeps here.
};

/// The type by which Python knows a class; null before the module is made.
template <class Class>
inline PyTypeObject* bound_type = nullptr;

/// The C++ object of `given`. Errors: cast_error when it is of another type.
void* held_by(handle given, PyTypeObject* type);
/// A new object of this type; it owns no C++ object yet.
object new_instance(PyTypeObject* type);
/// Clears the weak references to the object. Call before its C++ object ends: no weak reference may
/// find it afterwards.
void clear_weak_references(instance* ending) noexcept;
/// Gives back the memory of an object that no longer holds anything.
void free_instance(instance* ending) noexcept;

template <class Class>
bool is_a(handle given) noexcept {
  return PyObject_TypeCheck(given.ptr(), bound_type<Class>) != 0;
}

template <class Class>
object own(std::unique_ptr<Class> held) {
  auto made = new_instance(bound_type<Class>);
  reinterpret_cast<instance*>(made.ptr())->held = held.release();
  return made;
}

/// Converts classes that Python knows: `from` returns a reference to the C++ object that the Python
/// object owns.
template <class Class>
struct converter {
  static Class& from(handle given) {
    return *static_cast<Class*>(held_by(given, bound_type<Class>));
  }
  static object to(Class value) { return own(std::make_unique<Class>(std::move(value))); }
};

/// Sets the thread's Python exception aside while an object ends, because an object's end may run
/// Python code.
class exception_aside {
public:
  exception_aside() noexcept { PyErr_Fetch(&type_, &value_, &trace_); }
  ~exception_aside() { PyErr_Restore(type_, value_, trace_); }
  exception_aside(const exception_aside&) = delete;
  exception_aside& operator=(const exception_aside&) = delete;

private:
  PyObject* type_ = nullptr;
  PyObject* value_ = nullptr;
  PyObject* trace_ = nullptr;
};

template <class Class>
void end_instance(PyObject* self) {
  auto* ending = reinterpret_cast<instance*>(self);
  const exception_aside aside;
  clear_weak_references(ending);
  delete static_cast<Class*>(std::exchange(ending->held, nullptr));
  free_instance(ending);
}

template <auto Get>
PyObject* get(PyObject* self, void* /*closure*/) {
  return guarded<PyObject*>(
      nullptr, [&] { return call_objects<Get, 1>(signature_of<Get>(), &self).release(); });
}

template <auto Length>
Py_ssize_t length_of(PyObject* self) {
  return guarded<Py_ssize_t>(-1, [&] {
    return static_cast<Py_ssize_t>(
        call_with<Length, 1>(signature_of<Length>(), &self, std::index_sequence<0>{}));
  });
}

/// Constructs an object for the interpreter; `Make` returns a unique_ptr of the class.
template <auto Make>
PyObject* construct(PyTypeObject* /*type*/, PyObject* positional, PyObject* named) {
  return guarded<PyObject*>(nullptr, [&] {
    const auto& of = signature_of<Make>();
    std::vector<PyObject*> values;
    for (Py_ssize_t i = 0; i < PyTuple_Size(positional); ++i)
      values.push_back(PyTuple_GetItem(positional, i));
    PyObject *name = nullptr, *value = nullptr;
    list names;
    for (Py_ssize_t at = 0; named != nullptr && PyDict_Next(named, &at, &name, &value) != 0;) {
      names.append(object::borrow(name));
      values.push_back(value);
    }
    const auto all_names = checked(PyList_AsTuple(names.ptr()));
    std::array<PyObject*, arity<Make> + 1> objects{};
    place_arguments(of, {values.data(), PyTuple_Size(positional), all_names.ptr()}, objects.data());
    return own(call_with<Make, 0>(of, objects.data(), std::make_index_sequence<arity<Make>>{}))
        .release();
  });
}

PyObject* refuse_to_construct(PyTypeObject* type, PyObject* positional, PyObject* named);

class module_builder;

/// Makes a class of C++ known to Python, as a type of the module without subclasses.
template <class Class>
class class_builder {
public:
  /// @param name name of the type; the text must live for ever
  explicit class_builder(const char* name) : name_(name) {}

  template <auto Make>
  class_builder& constructor(std::vector<parameter> parameters) {
    (void)method_definition<Make, 0>(name_, std::move(parameters));
    construct_ = &construct<Make>;
    return *this;
  }
  template <auto Function>
  class_builder& method(const char* name, std::vector<parameter> parameters = {}) {
    methods_->push_back(method_definition<Function, 1>(name, std::move(parameters)));
    return *this;
  }
  template <auto Get>
  class_builder& getter(const char* name) {
    signature_of<Get>().name = name;
    getters_->push_back({name, &get<Get>, nullptr, nullptr, nullptr});
    return *this;
  }
  template <auto Length>
  class_builder& length() {
    signature_of<Length>().name = "__len__";
    length_ = &length_of<Length>;
    return *this;
  }
  /// Makes the type and adds it to the module under its name.
  void add_to(module_builder& to);

private:
  const char* name_;
  newfunc construct_ = &refuse_to_construct;
  lenfunc length_ = nullptr;
  // The type refers to both tables for ever.
  std::vector<PyMethodDef>* methods_ = new std::vector<PyMethodDef>;
  std::vector<PyGetSetDef>* getters_ = new std::vector<PyGetSetDef>;
};

/// The parts of a type, whatever its C++ class is.
struct type_parts {
  const char* name;
  newfunc construct;
  destructor end;
  lenfunc length;
  PyMethodDef* methods; ///< The methods; an empty entry ends them, as it ends `getters`; both live
                        ///< for ever.
  PyGetSetDef* getters;
};

/// The module while it is made.
class module_builder {
public:
  /// Begins the module. @param full_name with its package, such as "peercache._native"
  explicit module_builder(const char* full_name);

  void add(const char* name, const object& value);
  template <auto Function>
  void function(const char* name, std::vector<parameter> parameters = {}) {
    add_function(method_definition<Function, 0>(name, std::move(parameters)));
  }
  /// A new type of exceptions, which the module owns for ever.
  handle exception(const char* name);
  PyTypeObject* type(const type_parts& parts);
  /// The module, for the interpreter.
  PyObject* release() noexcept { return made_.release(); }

private:
  void add_function(const PyMethodDef& definition);
  std::string name_of(const char* name) const { return full_name_ + '.' + name; }

  std::string full_name_;
  object made_;
};

template <class Class>
void class_builder<Class>::add_to(module_builder& to) {
  methods_->push_back({});
  getters_->push_back({});
  bound_type<Class> = to.type(
      {name_, construct_, &end_instance<Class>, length_, methods_->data(), getters_->data()});
}

} // namespace peercache::python::py
