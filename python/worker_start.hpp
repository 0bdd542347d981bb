#pragma once

#include "client/handoff/worker_options.hpp"
#include "common/result.hpp"
#include "python/gil.hpp"
#include "python/living.hpp"
#include "python/raised_error.hpp"

#include <map>
#include <memory>
#include <string>
#include <utility>

namespace peercache::python {

/// The options of a worker, from the configuration as `load_options` finds it. Threads: any.
/// Errors: `invalid_argument`.
result<client::worker_options> worker_options_of(const std::map<std::string, std::string>& given);

/// Starts a worker without the GIL: `start` returns it as a `result` of a unique_ptr. In the main
/// thread handlers of signals run during the start; what a handler has raised is thrown, and the
/// worker ends, because nobody would be given it. After the interpreter's end was announced no
/// worker starts, because nobody would close it. Errors: `peercache.Error`.
template <class Worker, class Start>
std::shared_ptr<Worker> started_outside(Start&& start) {
  const auto begin = [&]() -> result<std::shared_ptr<Worker>> {
    const outside_call outside;
    if (end_announced())
      return error{errc::closed, "the interpreter ends"};
    result<std::unique_ptr<Worker>> started = start();
    if (!started)
      return started.error();
    if (end_announced() || interruption::look())
      return error{errc::closed, "the interpreter ends"};
    return counted(std::shared_ptr<Worker>{*std::move(started)});
  };
  auto begun = begin();
  raise_from_handlers();
  return value_or_raise(std::move(begun));
}

} // namespace peercache::python
