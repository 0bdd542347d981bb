// The workers that hand prompts over, for the module peercache._native (module.cpp).

#include "python/handoff_workers.hpp"

#include <pybind11/stl.h>

namespace peercache::python {
namespace {

using options_form = std::map<std::string, std::string>;

template <class Worker>
std::unique_ptr<Worker> start_worker(const options_form& options, const std::string& host,
                                     const std::string& name, const py::dict& layout) {
  return std::make_unique<Worker>(worker_request{options, host, name}, layout);
}

/// Binds what both workers have.
template <class Worker>
py::class_<Worker> bind_worker(py::module_& module, const char* name) {
  using py::arg;
  py::class_<Worker> bound(module, name);
  bound
      .def(py::init(&start_worker<Worker>), arg("options"), arg("host"), arg("name"), arg("layout"))
      .def("open", &Worker::open, arg("room"))
      .def("abort", &Worker::abort, arg("room"), arg("reason"), arg("from_another_rank") = false)
      .def("clear", &Worker::clear, arg("room"))
      .def("give_memory_back", &Worker::give_memory_back)
      .def("lend_memory", &Worker::lend_memory)
      .def("stats", &Worker::stats)
      .def("close", &Worker::close)
      .def_property_readonly("data_plane", &Worker::data_plane)
      .def_property_readonly("closed", &Worker::closed);
  return bound;
}

} // namespace

void bind_handoff(py::module_& module) {
  using py::arg;
  // `poll` keeps the GIL: a scheduler polls each room in each turn of its loop, and one load is
  // cheaper than to give the GIL up.
  py::class_<client::room_watch>(module, "RoomWatch").def("poll", [](const client::room_watch& at) {
    return static_cast<int>(at.poll());
  });
  bind_worker<native_prefill_worker>(module, "PrefillWorker")
      .def("prefix_pages", &native_prefill_worker::prefix_pages, arg("room"))
      .def("init", &native_prefill_worker::init, arg("room"), arg("pages"))
      .def("send", &native_prefill_worker::send, arg("room"), arg("pages"), arg("last"),
           arg("states") = py::list{}, arg("aux_row") = 0)
      .def("failure", &native_prefill_worker::failure, arg("room"))
      .def("metric", &native_prefill_worker::metric, arg("room"))
      .def_property_readonly("port", &native_prefill_worker::port);
  bind_worker<native_decode_worker>(module, "DecodeWorker")
      .def("connect", &native_decode_worker::connect, arg("room"), arg("sources"))
      .def("allocate", &native_decode_worker::allocate, arg("room"), arg("prefix_pages"),
           arg("pages"), arg("states") = py::list{}, arg("aux_row") = 0)
      .def("end", &native_decode_worker::end, arg("room"), arg("reason"),
           arg("from_another_rank") = false)
      .def("take_lost", &native_decode_worker::take_lost);
}

} // namespace peercache::python
