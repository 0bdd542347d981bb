#pragma once

#include <atomic>
#include <memory>
#include <utility>

namespace peercache::python {

/// How many objects with threads (clients, workers) of this process have begun and not ended yet.
/// Threads: any.
int living() noexcept;
/// Forgets, in a forked child, the objects of the parent.
void forget_living() noexcept;

std::atomic<int>& living_count() noexcept;

/// Wraps an object so that `living` counts it until it has ended.
template <class Object>
std::shared_ptr<Object> counted(std::shared_ptr<Object> whole) {
  living_count().fetch_add(1);
  auto* object = whole.get();
  return {object, [whole = std::move(whole)](auto*) mutable {
            whole.reset();
            living_count().fetch_sub(1);
          }};
}

} // namespace peercache::python
