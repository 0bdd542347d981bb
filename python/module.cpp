// peercache._native: what of the C++ client Python can call. Python's part of the package makes it
// comfortable (peercache/client.py) and says in _native.pyi what is here.

#include "config/options.hpp"
#include "config/render.hpp"
#include "python/native_client.hpp"
#include "python/page_rows.hpp"
#include "python/token_chain.hpp"

#include <pybind11/stl.h>

namespace peercache::python {
namespace {

/// An error of C++ on its way to where it becomes `peercache.Error`: `open_client` alone.
struct open_failed {
  error why;
};

void raise_error(py::handle type, const error& why) {
  auto raised = type(to_string(why));
  raised.attr("code") = std::string{to_string(why.code)};
  PyErr_SetObject(type.ptr(), raised.ptr());
}

std::unique_ptr<native_client> open_client(std::map<std::string, std::string> options,
                                           bool embedded, bool wait_for_node) {
  const auto open = [&] {
    py::gil_scoped_release release;
    return open_cache({std::move(options), embedded, wait_for_node});
  };
  auto opened = open();
  if (!opened)
    throw open_failed{opened.error()};
  return std::make_unique<native_client>(*std::move(opened));
}

key_space make_space(py::handle fields) {
  const auto strings = take_keys(fields);
  std::vector<std::string_view> views;
  for (std::size_t i = 0; i < strings.size(); ++i)
    views.push_back(strings[i]);
  return key_space{views};
}

py::bytes digest_of(const key_space& space, const std::string& key) {
  const auto digest = space.key_of(key);
  return {reinterpret_cast<const char*>(digest.bytes.data()), digest.bytes.size()};
}

/// The keys of the full pages of a prompt, as `chain_keys` says. `tokens` has the buffer protocol
/// and holds 32-bit integers; it must not change meanwhile.
std::vector<std::string> chain_of(const key_space& space, py::buffer tokens,
                                  std::size_t page_tokens) {
  const auto view = tokens.request();
  if (view.itemsize != sizeof(std::uint32_t) || view.ndim != 1 || page_tokens == 0)
    throw py::value_error("tokens are one row of 32-bit integers, pages have at least one token");
  py::gil_scoped_release release;
  return chain_keys(
      space, {static_cast<const std::uint32_t*>(view.ptr), static_cast<std::size_t>(view.size)},
      page_tokens);
}

/// Where the bytes of an object with the buffer protocol lie. They must be contiguous.
std::pair<std::uint64_t, std::uint64_t> memory_of(py::handle object, bool writable) {
  Py_buffer view;
  if (PyObject_GetBuffer(object.ptr(), &view, writable ? PyBUF_WRITABLE : PyBUF_SIMPLE) != 0)
    throw py::error_already_set();
  std::pair<std::uint64_t, std::uint64_t> place{reinterpret_cast<std::uint64_t>(view.buf),
                                                static_cast<std::uint64_t>(view.len)};
  PyBuffer_Release(&view);
  return place;
}

/// (name, form, meaning) of each option.
py::list option_table() {
  py::list table;
  for (const auto& option : config::options())
    table.append(py::make_tuple(std::string{option.name}, config::form_of(option),
                                std::string{option.meaning}));
  return table;
}

template <class Word>
py::list words(std::size_t count) {
  py::list list;
  for (std::size_t i = 0; i < count; ++i)
    list.append(std::string{to_string(static_cast<Word>(i))});
  return list;
}

template <class Field>
py::bytes codes(const page_results& results, Field field) {
  std::string packed;
  packed.reserve(results.size());
  for (const auto& page : results.pages())
    packed.push_back(static_cast<char>(page.*field));
  return packed;
}

py::list successes(const page_results& results) {
  py::list list(results.size());
  for (std::size_t i = 0; i < results.size(); ++i)
    PyList_SET_ITEM(list.ptr(), static_cast<Py_ssize_t>(i),
                    py::bool_(is_success(results.pages()[i].status)).release().ptr());
  return list;
}

py::list lengths(const page_results& results) {
  py::list list(results.size());
  for (std::size_t i = 0; i < results.size(); ++i)
    list[i] = results.pages()[i].length_bytes;
  return list;
}

void bind_results(py::module_& module) {
  py::class_<page_results>(module, "Results")
      .def("__len__", &page_results::size)
      .def_property_readonly("run", &page_results::leading_run)
      .def_property_readonly("success_bytes", &page_results::success_bytes)
      .def_property_readonly("ok", &successes)
      .def_property_readonly("lengths", &lengths)
      .def_property_readonly(
          "statuses",
          [](const page_results& all) { return codes(all, &client::page_result::status); })
      .def_property_readonly("origins", [](const page_results& all) {
        return codes(all, &client::page_result::origin);
      });
}

void bind_rows(py::module_& module) {
  using numbers = std::vector<std::uint64_t>;
  py::class_<page_rows>(module, "PageRows")
      .def(py::init<numbers, numbers, std::uint64_t, std::uint64_t>(), py::arg("firsts"),
           py::arg("steps"), py::arg("page_tokens"), py::arg("pages"))
      .def("addresses", &page_rows::addresses, py::arg("indices"), py::arg("pages"));
}

void bind_client(py::module_& module) {
  using py::arg;
  const auto default_timeout = arg("timeout") = py::none();
  py::class_<native_client>(module, "Client")
      .def(py::init(&open_client), arg("options"), arg("embedded") = false,
           arg("wait_for_node") = true)
      .def("set", &native_client::set, arg("spaces"), arg("keys"), arg("addresses"), arg("sizes"),
           default_timeout)
      .def("get", &native_client::get, arg("spaces"), arg("keys"), arg("addresses"), arg("sizes"),
           default_timeout)
      .def("exists", &native_client::exists, arg("spaces"), arg("keys"), default_timeout)
      .def("remove", &native_client::remove, arg("spaces"), arg("keys"), default_timeout)
      .def("prefetch", &native_client::prefetch, arg("spaces"), arg("keys"))
      .def("tiers", &native_client::tiers, arg("spaces"), arg("keys"), default_timeout)
      .def("flush", &native_client::flush, default_timeout)
      .def("remember_moved", &native_client::remember_moved, arg("most"))
      .def("withdraw_moved", &native_client::withdraw_moved, default_timeout)
      .def("register_memory", &native_client::register_memory, arg("address"), arg("bytes"))
      .def("unregister_memory", &native_client::unregister_memory, arg("address"))
      .def("stats", &native_client::stats)
      .def("members", &native_client::members)
      .def("nodes_gone", &native_client::nodes_gone)
      .def("call_times", &native_client::call_times)
      .def("close", &native_client::close)
      .def_property_readonly("data_plane", &native_client::data_plane)
      .def_property_readonly("node_address", &native_client::node_address)
      .def_property_readonly("timeout", &native_client::default_timeout_seconds)
      .def_property_readonly("closed", &native_client::closed);
}

void bind_all(py::module_& module) {
  // Never given back: it may be needed until the last moment of the process.
  static py::handle error_type;
  error_type = py::exception<open_failed>(module, "Error").release();
  py::register_exception_translator([](std::exception_ptr thrown) {
    try {
      std::rethrow_exception(std::move(thrown));
    } catch (const open_failed& failed) {
      raise_error(error_type, failed.why);
    }
  });
  py::class_<key_space>(module, "KeySpace")
      .def(py::init(&make_space), py::arg("fields"))
      .def("key_of", &digest_of, py::arg("key"));
  bind_results(module);
  bind_rows(module);
  bind_client(module);
  module.def("memory_of", &memory_of, py::arg("buffer"), py::arg("writable"));
  module.def("chain_keys", &chain_of, py::arg("space"), py::arg("tokens"), py::arg("page_tokens"));
  module.def("option_table", &option_table);
  module.attr("status_words") = words<page_status>(page_status_count);
  module.attr("origin_words") = words<page_origin>(page_origin_count);
  module.attr("parts_per_page_max") = limits::parts_per_page_max;
  module.attr("page_bytes_max") = limits::page_bytes_max;
}

} // namespace
} // namespace peercache::python

PYBIND11_MODULE(_native, module) {
  peercache::python::bind_all(module);
}
