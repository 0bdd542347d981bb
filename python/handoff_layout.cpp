#include "python/handoff_layout.hpp"

#include "python/arguments.hpp"
#include "python/binding/convert.hpp"

#include <algorithm>
#include <cstring>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <tuple>

namespace peercache::python {
namespace {

using handoff::kv_buffer;
using handoff::kv_layout;

/// A buffer: (address, bytes, bytes of an item, layer or None).
using buffer_form =
    std::tuple<std::uint64_t, std::uint64_t, std::uint32_t, std::optional<std::uint32_t>>;
/// A tensor of states: (buffer, dim, outer count, groups).
using tensor_form =
    std::tuple<buffer_form, std::uint32_t, std::uint32_t, std::vector<std::uint32_t>>;
using component_form = std::tuple<std::string, std::vector<tensor_form>>;

kv_buffer buffer_of(const buffer_form& form) {
  const auto& [address, length, item, layer] = form;
  return {address, length, item, layer.value_or(handoff::no_layer)};
}

std::vector<kv_buffer> buffers_of(py::handle forms) {
  std::vector<kv_buffer> buffers;
  for (const auto& form : py::from_python<std::vector<buffer_form>>(forms))
    buffers.push_back(buffer_of(form));
  return buffers;
}

handoff::state_type type_of(const std::string& word) {
  for (std::uint8_t i = 0; i < handoff::state_type_count; ++i)
    if (word == to_string(static_cast<handoff::state_type>(i)))
      return static_cast<handoff::state_type>(i);
  throw py::value_error("no kind of states has the name '" + word + "'");
}

std::vector<handoff::state_component> states_of(py::handle forms) {
  std::vector<handoff::state_component> states;
  for (const auto& [word, tensors] : py::from_python<std::vector<component_form>>(forms)) {
    auto& component = states.emplace_back();
    component.type = type_of(word);
    for (const auto& [buffer, dim, outer_count, groups] : tensors)
      component.tensors.push_back({buffer_of(buffer), dim, outer_count, groups});
  }
  return states;
}

handoff::worker_ranks ranks_of(py::handle form) {
  using number = std::uint32_t;
  const auto [tp, tp_size, pp, pp_size, cp, cp_size] =
      py::from_python<std::tuple<number, number, number, number, number, number>>(form);
  return {tp, tp_size, pp, pp_size, cp, cp_size};
}

using setter = std::function<void(kv_layout&, py::handle)>;

template <class Field>
setter plain(Field kv_layout::*field) {
  return [field](kv_layout& layout, py::handle value) {
    layout.*field = py::from_python<Field>(value);
  };
}

std::map<std::string, setter> setters() {
  return {
      {"dtype", plain(&kv_layout::dtype)},
      {"page_tokens", plain(&kv_layout::page_tokens)},
      {"mla", plain(&kv_layout::mla)},
      {"hybrid_mla", plain(&kv_layout::hybrid_mla)},
      {"all_cp_ranks_send", plain(&kv_layout::all_cp_ranks_send)},
      {"kv_heads", plain(&kv_layout::kv_heads)},
      {"first_layer", plain(&kv_layout::first_layer)},
      {"end_layer", plain(&kv_layout::end_layer)},
      {"model_layers", plain(&kv_layout::model_layers)},
      {"ranks", [](auto& layout, auto value) { layout.ranks = ranks_of(value); }},
      {"buffers", [](auto& layout, auto value) { layout.buffers = buffers_of(value); }},
      {"states", [](auto& layout, auto value) { layout.states = states_of(value); }},
      {"aux", [](auto& layout, auto value) { layout.aux = buffers_of(value); }},
  };
}

} // namespace

kv_layout layout_of(py::handle described) {
  if (!PyDict_Check(described.ptr()))
    throw py::type_error("a layout is a dict");
  using item_form = std::pair<std::string, py::object>;
  const auto known = setters();
  kv_layout layout;
  const auto items = py::checked(PyDict_Items(described.ptr()));
  for (const auto& [name, value] : py::from_python<std::vector<item_form>>(items)) {
    const auto field = known.find(name);
    if (field == known.end())
      throw py::value_error("a layout has no field '" + name + "'");
    try {
      field->second(layout, value);
    } catch (const py::type_error&) {
      throw py::type_error("the field '" + name + "' of a layout has another form");
    }
  }
  return layout;
}

std::vector<std::uint32_t> take_items(py::handle array, const char* what) {
  const lent_buffer lent{array, PyBUF_ND | PyBUF_FORMAT};
  const auto& view = lent.view();
  if (!is_row_of_integers(view, sizeof(std::uint32_t)))
    throw py::type_error(std::string{what} + " are one contiguous row of 32-bit integers, such as "
                                             "numpy.ascontiguousarray(pages, numpy.int32)");
  std::vector<std::uint32_t> items(static_cast<std::size_t>(view.len) / sizeof(std::uint32_t));
  if (!items.empty())
    std::memcpy(items.data(), view.buf, static_cast<std::size_t>(view.len));
  constexpr std::uint32_t end = 1u << 31;
  if (std::any_of(items.begin(), items.end(), [](std::uint32_t item) { return item >= end; }))
    throw py::value_error(std::string{what} + ": a number is negative");
  return items;
}

std::vector<handoff::state_items> take_states(py::handle states) {
  std::vector<handoff::state_items> taken;
  using item_form = std::pair<std::uint32_t, py::object>;
  for (const auto& [first, items] : py::from_python<std::vector<item_form>>(states))
    taken.push_back({first, take_items(items, "the items of states")});
  return taken;
}

} // namespace peercache::python
