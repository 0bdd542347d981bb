#pragma once

#include "python/gil.hpp"
#include "python/loan_gate.hpp"

#include <utility>

namespace peercache::python {

/// Runs `work(object)` for a call from Python, without the GIL. In the main thread handlers of
/// signals run during the work; what a handler has raised is thrown. `otherwise` is the answer when
/// the gate is closed.
template <class Answer, class Lent, class Work>
Answer borrow(loan_gate<Lent>& gate, Answer otherwise, Work&& work) {
  auto answer = [&] {
    const outside_call outside;
    // While the loan lasts, a `close` on another thread does not take the object from this call.
    const typename loan_gate<Lent>::loan lent{gate};
    return lent ? work(*lent) : std::move(otherwise);
  }();
  raise_from_handlers();
  return answer;
}

/// Closes the gate without the GIL, and waits for the calls that use what it lends.
inline void close_gate(closable& gate) {
  // A signal's handler runs within a call of its own thread, so it does not wait for that call.
  const auto until =
      interruption::possible() ? interruption::clock::now() : closable::time_point::max();
  const without_gil outside;
  gate.close(until);
}

} // namespace peercache::python
