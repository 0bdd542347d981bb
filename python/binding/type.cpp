#include "python/binding/type.hpp"

#include "python/gil.hpp"

#include <cstddef>
#include <structmember.h>

namespace peercache::python::py {
namespace {

/// The definition of the module; the interpreter refers to it for ever.
PyModuleDef& definition_of(const char* name) {
  static PyModuleDef definition{
      PyModuleDef_HEAD_INIT, name, nullptr, -1, nullptr, nullptr, nullptr, nullptr, nullptr};
  return definition;
}

/// The members of every bound type: the place of an object's weak references, without which a type
/// of the limited API could not be referred to weakly.
PyMemberDef* members_of_all() {
  static PyMemberDef members[] = {
      {"__weaklistoffset__", T_PYSSIZET, offsetof(instance, weak_refs), READONLY, nullptr}, {}};
  return members;
}

std::string type_name(PyTypeObject* type) {
  const auto name = checked(PyObject_GetAttrString(reinterpret_cast<PyObject*>(type), "__name__"));
  return string_of(name);
}

} // namespace

void* held_by(handle given, PyTypeObject* type) {
  if (PyObject_TypeCheck(given.ptr(), type) == 0)
    throw cast_error("a " + type_name(type) + " is wanted");
  auto* held = reinterpret_cast<instance*>(given.ptr())->held;
  if (held == nullptr)
    throw cast_error("this " + type_name(type) + " was never made");
  return held;
}

object new_instance(PyTypeObject* type) {
  return checked(PyType_GenericAlloc(type, 0));
}

void clear_weak_references(instance* ending) noexcept {
  if (ending->weak_refs != nullptr) // Callbacks of weak references are Python code.
    or_park([ending] { PyObject_ClearWeakRefs(reinterpret_cast<PyObject*>(ending)); });
}

void free_instance(instance* ending) noexcept {
  auto* self = reinterpret_cast<PyObject*>(ending);
  auto* type = Py_TYPE(self);
  const auto free = reinterpret_cast<freefunc>(PyType_GetSlot(type, Py_tp_free));
  free(self);
  Py_DECREF(type);
}

PyObject* refuse_to_construct(PyTypeObject* type, PyObject* /*positional*/, PyObject* /*named*/) {
  return guarded<PyObject*>(
      nullptr, [&]() -> PyObject* { throw type_error("only calls make a " + type_name(type)); });
}

module_builder::module_builder(const char* full_name)
    : full_name_(full_name), made_(checked(PyModule_Create(&definition_of(full_name)))) {}

void module_builder::add(const char* name, const object& value) {
  if (PyObject_SetAttrString(made_.ptr(), name, value.ptr()) != 0)
    throw error_already_set{};
}

handle module_builder::exception(const char* name) {
  auto type = checked(PyErr_NewException(name_of(name).c_str(), nullptr, nullptr));
  add(name, type);
  return type.release();
}

PyTypeObject* module_builder::type(const type_parts& parts) {
  std::vector<PyType_Slot> slots{
      {Py_tp_new, reinterpret_cast<void*>(parts.construct)},
      {Py_tp_dealloc, reinterpret_cast<void*>(parts.end)},
      {Py_tp_methods, parts.methods},
      {Py_tp_getset, parts.getters},
      {Py_tp_members, members_of_all()},
  };
  if (parts.length != nullptr)
    slots.push_back({Py_sq_length, reinterpret_cast<void*>(parts.length)});
  slots.push_back({0, nullptr});
  // Before Python 3.11 a type refers to the name of its specification for ever.
  static auto& names = *new std::deque<std::string>;
  PyType_Spec spec{names.emplace_back(name_of(parts.name)).c_str(), sizeof(instance), 0,
                   Py_TPFLAGS_DEFAULT, slots.data()};
  auto made = checked(PyType_FromSpec(&spec));
  add(parts.name, made);
  return reinterpret_cast<PyTypeObject*>(made.release());
}

void module_builder::add_function(const PyMethodDef& definition) {
  // The interpreter refers to the definition for ever.
  auto* kept = new PyMethodDef[2]{definition, {}};
  if (PyModule_AddFunctions(made_.ptr(), kept) != 0)
    throw error_already_set{};
}

} // namespace peercache::python::py
