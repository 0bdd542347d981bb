#pragma once

#include "handoff/kv_layout.hpp"
#include "handoff/transfer_plan.hpp"
#include "python/binding/object.hpp"

#include <cstdint>
#include <vector>

namespace peercache::python {

/// The layout that a dict describes, as `_native.pyi` lists its keys; a key that is missing keeps
/// its default. Needs the GIL. Errors: py::value_error for an unknown key or kind of states,
/// py::type_error for an object that is not a dict and for a value of another form; a layout that
/// no engine can have is refused later, by `handoff::check`.
handoff::kv_layout layout_of(py::handle described);

/// The items of an array of non-negative 32-bit integers (numpy.int32) in one row, copied. Needs
/// the GIL. Errors: py::type_error for another array, py::value_error for a negative number.
std::vector<std::uint32_t> take_items(py::handle array, const char* what);

/// The items of each component of states. `states` is a sequence of pairs: the place of a
/// component's first item, and an array of its items. Needs the GIL. Errors: as `take_items`.
std::vector<handoff::state_items> take_states(py::handle states);

} // namespace peercache::python
