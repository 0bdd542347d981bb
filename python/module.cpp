// peercache._native: the part of the C++ client that Python can call. The package wraps it
// (peercache/client.py); _native.pyi lists it.

#include "config/options.hpp"
#include "config/render.hpp"
#include "python/binding/type.hpp"
#include "python/gil.hpp"
#include "python/handoff_workers.hpp"
#include "python/living.hpp"
#include "python/native_client.hpp"
#include "python/native_transfer_engine.hpp"
#include "python/page_rows.hpp"
#include "python/raised_error.hpp"
#include "python/token_chain.hpp"

#include <algorithm>
#include <future>
#include <list>
#include <thread>

namespace peercache::python {
namespace {

/// The type of `peercache.Error`. The reference is never given back, because the process may need
/// the type until its last moment.
py::handle error_type;

void raise_error(const error& why) {
  const auto reason = py::to_python(to_string(why));
  const auto raised =
      py::checked(PyObject_CallFunctionObjArgs(error_type.ptr(), reason.ptr(), nullptr));
  const auto code = py::to_python(std::string{to_string(why.code)});
  if (PyObject_SetAttrString(raised.ptr(), "code", code.ptr()) == 0)
    PyErr_SetObject(error_type.ptr(), raised.ptr());
}

bool translate_raised_error(const std::exception_ptr& thrown) {
  try {
    std::rethrow_exception(thrown);
  } catch (const raised_error& failed) {
    raise_error(failed.why);
    return true;
  } catch (...) {
    return false;
  }
}

std::unique_ptr<native_client> open_client(std::map<std::string, std::string> options,
                                           bool embedded, bool wait_for_node) {
  const auto open = [&]() -> result<opened_cache> {
    const outside_call outside;
    if (end_announced())
      return {errc::closed, "the interpreter ends"};
    auto made = open_cache({std::move(options), embedded, wait_for_node});
    // The interpreter's end has closed all clients: nobody would close this new client. After an
    // interruption no caller would get the client.
    if (made && (end_announced() || interruption::given()))
      return {errc::closed, "the interpreter ends"};
    return made;
  };
  auto opened = open();
  raise_from_handlers();
  return std::make_unique<native_client>(value_or_raise(std::move(opened)));
}

std::unique_ptr<key_space> make_space(py::handle fields) {
  const auto strings = take_keys(fields, std::chrono::steady_clock::time_point::max());
  std::vector<std::string_view> views;
  for (std::size_t i = 0; i < strings.size(); ++i)
    views.push_back(strings[i]);
  return std::make_unique<key_space>(views);
}

py::bytes digest_of(const key_space& space, const std::string& key) {
  const auto digest = space.key_of(key);
  return py::bytes{{reinterpret_cast<const char*>(digest.bytes.data()), digest.bytes.size()}};
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

/// Holds the memory of objects with the buffer protocol: the memory keeps its place and its size
/// while this lives. Needs the GIL.
class lent_memory {
public:
  /// Holds the object's memory and returns its (address, bytes). Errors: what the object raises
  /// when its bytes are not contiguous, or not writable; py::type_error for memory that holds
  /// references to objects, which other bytes would make pointers to nowhere.
  std::pair<std::uint64_t, std::uint64_t> lend(py::handle object, bool writable) {
    const int flags = PyBUF_ND | PyBUF_FORMAT | (writable ? PyBUF_WRITABLE : 0);
    // The buffer goes into a list of its own first: taking it may run Python code that calls
    // `lend`, which changes `lent_`.
    std::list<lent_buffer> one;
    const auto& view = one.emplace_back(object, flags).view();
    if (holds_objects(view))
      throw py::type_error("memory for pages holds bytes or numbers, not objects");
    lent_.splice(lent_.end(), one);
    return {reinterpret_cast<std::uint64_t>(view.buf), static_cast<std::uint64_t>(view.len)};
  }

private:
  std::list<lent_buffer> lent_;
};

closable& gate_of(py::handle each) {
  if (py::is_a<native_prefill_worker>(each))
    return py::from_python<native_prefill_worker>(each).gate();
  if (py::is_a<native_decode_worker>(each))
    return py::from_python<native_decode_worker>(each).gate();
  if (py::is_a<native_transfer_engine>(each))
    return py::from_python<native_transfer_engine>(each).gate();
  return py::from_python<native_client>(each).gate();
}

/// Ends all clients and workers for the interpreter's end: no further ones can be opened, and open
/// ones end within `seconds` or are left to the end of the process.
void end_all(py::handle clients, double seconds) {
  announce_end();
  const auto all = py::from_python<std::vector<py::object>>(clients);
  std::vector<closable*> open;
  open.reserve(all.size());
  for (const auto& each : all)
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
  // The thread `ending` still uses the clients, so their list is never freed.
  Py_INCREF(clients.ptr());
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
    table.append(py::to_python(std::tuple{std::string{option.name}, config::form_of(option),
                                          std::string{option.meaning}}));
  return table;
}

template <class Word>
py::list words(std::size_t count) {
  py::list list;
  for (std::size_t i = 0; i < count; ++i)
    list.append(py::text(to_string(static_cast<Word>(i))));
  return list;
}

py::bytes statuses(const page_results& results) {
  std::string packed;
  packed.reserve(results.size());
  for (const auto& page : results.pages())
    packed.push_back(static_cast<char>(page.status));
  return py::bytes{packed};
}

py::list successes(const page_results& results) {
  py::list list;
  for (const auto& page : results.pages())
    list.append(py::to_python(is_success(page.status)));
  return list;
}

py::list holds(const page_results& results) {
  py::list list;
  for (const auto& page : results.pages())
    list.append(py::to_python(page.held));
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
    list.append(
        py::to_python(std::tuple{static_cast<int>(first->status), static_cast<int>(first->origin),
                                 first->length_bytes, last - first}));
    first = last;
  }
  return list;
}

using numbers = std::vector<std::uint64_t>;

std::unique_ptr<page_rows> make_rows(numbers firsts, numbers steps, std::uint64_t page_tokens,
                                     std::uint64_t pages) {
  return std::make_unique<page_rows>(std::move(firsts), std::move(steps), page_tokens, pages);
}

std::unique_ptr<lent_memory> make_lent_memory() {
  return std::make_unique<lent_memory>();
}

void bind_small(py::module_builder& module) {
  py::class_builder<key_space>("KeySpace")
      .constructor<&make_space>({"fields"})
      .method<&digest_of>("key_of", {"key"})
      .add_to(module);
  py::class_builder<page_results>("Results")
      .length<&page_results::size>()
      .getter<&page_results::leading_run>("run")
      .getter<&page_results::success_bytes>("success_bytes")
      .getter<&successes>("ok")
      .getter<&holds>("held")
      .getter<&statuses>("statuses")
      .getter<&groups>("groups")
      .add_to(module);
  py::class_builder<page_rows>("PageRows")
      .constructor<&make_rows>({"firsts", "steps", "page_tokens", "pages"})
      .method<&page_rows::addresses>("addresses", {"indices", "pages"})
      .add_to(module);
  py::class_builder<lent_memory>("LentMemory")
      .constructor<&make_lent_memory>({})
      .method<&lent_memory::lend>("lend", {"buffer", "writable"})
      .add_to(module);
}

void bind_client(py::module_builder& module) {
  using client = native_client;
  const py::parameter timeout{"timeout", py::object::borrow(Py_None)};
  const std::vector<py::parameter> keys{"spaces", "keys", timeout};
  const std::vector<py::parameter> pages{"spaces", "keys", "addresses", "sizes", timeout};
  py::class_builder<client>("Client")
      .constructor<&open_client>(
          {"options", {"embedded", py::to_python(false)}, {"wait_for_node", py::to_python(true)}})
      .method<&client::set>("set", pages)
      .method<&client::get>("get", pages)
      .method<&client::exists>("exists", {"spaces",
                                          "keys",
                                          timeout,
                                          {"hold", py::object::borrow(Py_None)},
                                          {"chain", py::to_python(false)}})
      .method<&client::remove>("remove", keys)
      .method<&client::prefetch>("prefetch", {"spaces", "keys"})
      .method<&client::report_gpu>("report_gpu",
                                   {"spaces", "stored", "evicted", "all_evicted", "rank"})
      .method<&client::overlap>("overlap",
                                {"spaces", "hashes", "tokens", "block_tokens", "node", timeout})
      .method<&client::tiers>("tiers", keys)
      .method<&client::flush>("flush", {timeout})
      .method<&client::clear>("clear", {"space", timeout})
      .method<&client::register_memory>("register_memory", {"address", "bytes"})
      .method<&client::unregister_memory>("unregister_memory", {"address"})
      .method<&client::describe>("describe", {"space", "door", "fields", "facts"})
      .method<&client::note_unasked>("note_unasked", {"space", "reason", "pages"})
      .method<&client::stats>("stats")
      .method<&client::members>("members")
      .method<&client::call_times>("call_times")
      .method<&client::close>("close")
      .getter<&client::data_plane>("data_plane")
      .getter<&client::node_address>("node_address")
      .getter<&client::default_timeout_seconds>("timeout")
      .getter<&client::closed>("closed")
      .add_to(module);
}

void note_main_thread() {
  const auto threading = py::checked(PyImport_ImportModule("threading"));
  const auto thread = py::checked(PyObject_CallMethod(threading.ptr(), "main_thread", nullptr));
  const auto ident = py::checked(PyObject_GetAttrString(thread.ptr(), "ident"));
  set_main_thread(py::from_python<unsigned long>(ident));
}

PyObject* make_module() {
  note_main_thread();
  py::module_builder module("peercache._native");
  error_type = module.exception("Error");
  py::set_translator(&translate_raised_error);
  bind_small(module);
  bind_client(module);
  bind_handoff(module);
  bind_transfer_engine(module);
  module.function<&chain_of>("chain_keys", {"space", "tokens", "page_tokens"});
  module.function<&option_table>("option_table");
  module.function<&end_all>("end_all", {"clients", "seconds"});
  module.function<&forked>("forked");
  module.add("status_words", words<page_status>(page_status_count));
  module.add("origin_words", words<page_origin>(page_origin_count));
  module.add("parts_per_page_max", py::to_python(limits::parts_per_page_max));
  module.add("page_bytes_max", py::to_python(limits::page_bytes_max));
  return module.release();
}

} // namespace
} // namespace peercache::python

PyMODINIT_FUNC PyInit__native() {
  return peercache::python::py::guarded<PyObject*>(nullptr, &peercache::python::make_module);
}
