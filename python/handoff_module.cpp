// The workers that hand prompts over, for the module peercache._native (module.cpp).

#include "python/handoff_workers.hpp"

namespace peercache::python {
namespace {

using options_form = std::map<std::string, std::string>;

template <class Worker>
std::unique_ptr<Worker> start_worker(options_form options, std::string host, std::string name,
                                     py::handle layout) {
  return std::make_unique<Worker>(
      worker_request{std::move(options), std::move(host), std::move(name)}, layout);
}

/// Polls a room without giving the GIL up: a scheduler polls each room in each turn of its loop,
/// and one load is cheaper than to give the GIL up.
int poll_room(const client::room_watch& room) {
  return static_cast<int>(room.poll());
}

/// Binds the methods that prefill and decode workers have in common.
template <class Worker>
py::class_builder<Worker> worker_class(const char* name) {
  const py::parameter not_another_rank{"from_another_rank", py::to_python(false)};
  py::class_builder<Worker> bound(name);
  bound.template constructor<&start_worker<Worker>>({"options", "host", "name", "layout"})
      .template method<&Worker::open>("open", {"room"})
      .template method<&Worker::abort>("abort", {"room", "reason", not_another_rank})
      .template method<&Worker::clear>("clear", {"room"})
      .template method<&Worker::give_memory_back>("give_memory_back")
      .template method<&Worker::lend_memory>("lend_memory")
      .template method<&Worker::stats>("stats")
      .template method<&Worker::close>("close")
      .template getter<&Worker::data_plane>("data_plane")
      .template getter<&Worker::closed>("closed");
  return bound;
}

} // namespace

void bind_handoff(py::module_builder& module) {
  using prefill = native_prefill_worker;
  using decode = native_decode_worker;
  const py::parameter no_states{"states", py::list{}};
  const py::parameter first_row{"aux_row", py::to_python(0)};
  py::class_builder<client::room_watch>("RoomWatch").method<&poll_room>("poll").add_to(module);
  worker_class<prefill>("PrefillWorker")
      .method<&prefill::prefix_pages>("prefix_pages", {"room"})
      .method<&prefill::init>("init", {"room", "pages"})
      .method<&prefill::send>("send", {"room", "pages", "last", no_states, first_row})
      .method<&prefill::failure>("failure", {"room"})
      .method<&prefill::metric>("metric", {"room"})
      .getter<&prefill::port>("port")
      .add_to(module);
  worker_class<decode>("DecodeWorker")
      .method<&decode::connect>("connect", {"room", "sources"})
      .method<&decode::allocate>("allocate",
                                 {"room", "prefix_pages", "pages", no_states, first_row})
      .method<&decode::end>("end", {"room", "reason", {"from_another_rank", py::to_python(false)}})
      .method<&decode::take_lost>("take_lost")
      .add_to(module);
}

} // namespace peercache::python
