#include "python/binding/object.hpp"

#include "python/gil.hpp"

namespace peercache::python::py {
namespace {

Py_ssize_t signed_size(std::size_t size) noexcept {
  return static_cast<Py_ssize_t>(size);
}

void must_be_zero(int returned) {
  if (returned != 0)
    throw error_already_set{};
}

} // namespace

object checked(PyObject* returned) {
  if (returned == nullptr)
    throw error_already_set{};
  return object::steal(returned);
}

bytes::bytes(std::string_view content)
    : object(checked(PyBytes_FromStringAndSize(content.data(), signed_size(content.size())))) {}

list::list() : object(checked(PyList_New(0))) {}

void list::append(const object& item) {
  must_be_zero(PyList_Append(ptr(), item.ptr()));
}

dict::dict() : object(checked(PyDict_New())) {}

void dict::set(std::string_view name, const object& value) {
  must_be_zero(PyDict_SetItem(ptr(), text(name).ptr(), value.ptr()));
}

object text(std::string_view utf8) {
  return checked(PyUnicode_DecodeUTF8(utf8.data(), signed_size(utf8.size()), "replace"));
}

sequence::sequence(handle items, const char* what) {
  if (PySequence_Check(items.ptr()) == 0)
    throw type_error(what);
  is_list_ = PyList_Check(items.ptr());
  if (is_list_) {
    items_ = object::borrow(items);
  } else {
    auto* copied = or_park([&] { return PySequence_Tuple(items.ptr()); });
    if (copied == nullptr && PyErr_ExceptionMatches(PyExc_TypeError) != 0) {
      PyErr_Clear();
      throw type_error(what);
    }
    items_ = checked(copied);
  }
  count_ = is_list_ ? PyList_Size(items_.ptr()) : PyTuple_Size(items_.ptr());
}

void sequence::check_unchanged() const {
  if (is_list_ && PyList_Size(items_.ptr()) != count_)
    throw value_error("a sequence has changed while it was read");
}

handle sequence::operator[](std::size_t index) const {
  PyObject* item = nullptr;
  take(index, std::span(&item, 1));
  return item;
}

void sequence::take(std::size_t first, std::span<PyObject*> out) const {
  check_unchanged();
  for (std::size_t i = 0; i < out.size(); ++i) {
    const auto at = signed_size(first + i);
    out[i] = is_list_ ? PyList_GetItem(items_.ptr(), at) : PyTuple_GetItem(items_.ptr(), at);
  }
}

} // namespace peercache::python::py
