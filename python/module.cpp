// peercache._native: the part of the C++ client that Python can call. The package wraps it
// (peercache/client.py); _native.pyi lists it.

#include "config/options.hpp"
#include "config/render.hpp"
#include "python/gil.hpp"
#include "python/handoff_workers.hpp"
#include "python/living.hpp"
#include "python/native_client.hpp"
#include "python/native_transfer_engine.hpp"
#include "python/page_rows.hpp"
#include "python/raised_error.hpp"
#include "python/token_chain.hpp"

#include <deque>
#include <future>
#include <pybind11/stl.h>
#include <thread>

namespace peercache::python {
namespace {

void raise_error(py::handle type, const error& why) {
  auto raised = type(to_string(why));
  raised.attr("code") = std::string{to_string(why.code)};
  PyErr_SetObject(type.ptr(), raised.ptr());
}

std::unique_ptr<native_client> open_client(std::map<std::string, std::string> options,
                                           bool embedded, bool wait_for_node) {
  const auto open = [&]() -> result<opened_cache> {
    const outside_call outside;
    if (end_announced())
      return {errc::closed, "the interpreter ends"};
    auto made = open_cache({std::move(options), embedded, wait_for_node});
    // The interpreter's end closed all clients that there were; nobody would close one that is made
    // now. After an interruption nobody would be given the client.
    if (made && (end_announced() || interruption::given()))
      return {errc::closed, "the interpreter ends"};
    return made;
  };
  auto opened = open();
  raise_from_handlers();
  return std::make_unique<native_client>(value_or_raise(std::move(opened)));
}

key_space make_space(py::handle fields) {
  const auto strings = take_keys(fields, std::chrono::steady_clock::time_point::max());
  std::vector<std::string_view> views;
  for (std::size_t i = 0; i < strings.size(); ++i)
    views.push_back(strings[i]);
  return key_space{views};
}

py::bytes digest_of(const key_space& space, const std::string& key) {
  const auto digest = space.key_of(key);
  return {reinterpret_cast<const char*>(digest.bytes.data()), digest.bytes.size()};
}

/// The keys of the full pages of a prompt, as `chain_keys` makes them. Errors: py::type_error for
/// tokens that are not one contiguous row of 32-bit integers, py::value_error.
std::vector<std::string> chain_of(const key_space& space, py::handle tokens,
                                  std::size_t page_tokens) {
  if (page_tokens == 0)
    throw py::value_error("pages have at least one token");
  const lent_buffer lent{tokens, PyBUF_FULL_RO};
  const auto& view = lent.view();
  if (!is_row_of_integers(view, sizeof(std::uint32_t)))
    throw py::type_error(
        "tokens are one contiguous row of 32-bit integers, such as array(\"I\") or "
        "numpy.ascontiguousarray(tokens, numpy.uint32)");
  const without_gil outside;
  return chain_keys(space,
                    {static_cast<const std::uint32_t*>(view.buf),
                     static_cast<std::size_t>(view.len) / sizeof(std::uint32_t)},
                    page_tokens);
}

/// Holds the memory of objects with the buffer protocol: it keeps its place and its size while this
/// lives. Needs the GIL.
class lent_memory {
public:
  /// Holds the object's memory and returns its (address, bytes). Errors: what the object raises
  /// when its bytes are not contiguous, or not writable.
  std::pair<std::uint64_t, std::uint64_t> lend(py::handle object, bool writable) {
    const auto& view = lent_.emplace_back(object, writable ? PyBUF_WRITABLE : PyBUF_SIMPLE).view();
    return {reinterpret_cast<std::uint64_t>(view.buf), static_cast<std::uint64_t>(view.len)};
  }

private:
  std::deque<lent_buffer> lent_;
};

closable& gate_of(py::handle each) {
  if (py::isinstance<native_prefill_worker>(each))
    return py::cast<native_prefill_worker&>(each).gate();
  if (py::isinstance<native_decode_worker>(each))
    return py::cast<native_decode_worker&>(each).gate();
  if (py::isinstance<native_transfer_engine>(each))
    return py::cast<native_transfer_engine&>(each).gate();
  return py::cast<native_client&>(each).gate();
}

/// Ends all clients and workers for the interpreter's end: none opens any more, and open ones end
/// within `seconds` or are left to the end of the process.
void end_all(const py::list& clients, double seconds) {
  announce_end();
  std::vector<closable*> open;
  for (const auto each : clients)
    open.push_back(&gate_of(each));
  const auto until = std::chrono::steady_clock::now() +
                     std::chrono::milliseconds(static_cast<std::int64_t>(seconds * 1e3));
  auto ended = std::make_shared<std::promise<void>>();
  auto when_ended = ended->get_future();
  for (auto* each : open)
    each->shut();
  // Clients and workers are ended in a thread of their own, since the end of an embedded node may
  // wait for a peer that is frozen.
  std::thread ending([open, until, ended] {
    for (auto* each : open)
      each->close(until);
    ended->set_value();
  });
  bool all_ended = false;
  {
    const without_gil outside;
    all_ended = when_ended.wait_until(until) == std::future_status::ready;
    if (!wait_for_other_threads(until) || !all_ended || living() > 0)
      leave_without_destructors();
  }
  if (all_ended)
    return ending.join();
  ending.detach();
  // The thread goes on with them, so the list keeps one reference for ever.
  clients.inc_ref();
}

void forked() {
  set_main_thread(PyThread_get_thread_ident());
  forget_other_threads();
  forget_living();
}

/// The option table as a list of (name, form, meaning).
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

py::bytes statuses(const page_results& results) {
  std::string packed;
  packed.reserve(results.size());
  for (const auto& page : results.pages())
    packed.push_back(static_cast<char>(page.status));
  return packed;
}

py::list successes(const page_results& results) {
  py::list list(results.size());
  for (std::size_t i = 0; i < results.size(); ++i)
    PyList_SET_ITEM(list.ptr(), static_cast<Py_ssize_t>(i),
                    py::bool_(is_success(results.pages()[i].status)).release().ptr());
  return list;
}

py::list groups(const page_results& results) {
  const auto& pages = results.pages();
  py::list list;
  for (auto first = pages.begin(); first != pages.end();) {
    const auto last = std::find_if(first, pages.end(), [&](const auto& page) {
      return page.status != first->status || page.origin != first->origin ||
             page.length_bytes != first->length_bytes;
    });
    list.append(py::make_tuple(static_cast<int>(first->status), static_cast<int>(first->origin),
                               first->length_bytes, last - first));
    first = last;
  }
  return list;
}

void bind_results(py::module_& module) {
  py::class_<page_results>(module, "Results")
      .def("__len__", &page_results::size)
      .def_property_readonly("run", &page_results::leading_run)
      .def_property_readonly("success_bytes", &page_results::success_bytes)
      .def_property_readonly("ok", &successes)
      .def_property_readonly("statuses", &statuses)
      .def_property_readonly("groups", &groups);
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
      .def("clear", &native_client::clear, arg("space"), default_timeout)
      .def("register_memory", &native_client::register_memory, arg("address"), arg("bytes"))
      .def("unregister_memory", &native_client::unregister_memory, arg("address"))
      .def("stats", &native_client::stats)
      .def("members", &native_client::members)
      .def("call_times", &native_client::call_times)
      .def("close", &native_client::close)
      .def_property_readonly("data_plane", &native_client::data_plane)
      .def_property_readonly("node_address", &native_client::node_address)
      .def_property_readonly("timeout", &native_client::default_timeout_seconds)
      .def_property_readonly("closed", &native_client::closed);
}

void bind_all(py::module_& module) {
  const auto main_thread = py::module_::import("threading").attr("main_thread")();
  set_main_thread(main_thread.attr("ident").cast<unsigned long>());
  // The exception type is never given back: the process may need it until its last moment.
  static py::handle error_type;
  error_type = py::exception<raised_error>(module, "Error").release();
  py::register_exception_translator([](std::exception_ptr thrown) {
    try {
      std::rethrow_exception(std::move(thrown));
    } catch (const raised_error& failed) {
      raise_error(error_type, failed.why);
    }
  });
  py::class_<key_space>(module, "KeySpace")
      .def(py::init(&make_space), py::arg("fields"))
      .def("key_of", &digest_of, py::arg("key"));
  bind_results(module);
  bind_rows(module);
  bind_client(module);
  bind_handoff(module);
  bind_transfer_engine(module);
  py::class_<lent_memory>(module, "LentMemory")
      .def(py::init<>())
      .def("lend", &lent_memory::lend, py::arg("buffer"), py::arg("writable"));
  module.def("chain_keys", &chain_of, py::arg("space"), py::arg("tokens"), py::arg("page_tokens"));
  module.def("option_table", &option_table);
  module.def("end_all", &end_all, py::arg("clients"), py::arg("seconds"));
  module.def("forked", &forked);
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
