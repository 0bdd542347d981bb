#include "client/calls/clear_call.hpp"

#include "client/session/connect_fault.hpp"
#include "common/key_epoch.hpp"

#include <algorithm>
#include <chrono>

namespace peercache::client {

using namespace std::chrono_literals;
using std::chrono::milliseconds;

namespace {

/// Returns the part of the remaining time that is kept for the answer's way back: the node gets the
/// rest, and may answer only at its end.
milliseconds spare_of(milliseconds left) {
  return std::min(left / 4, 100ms);
}

} // namespace

clear_result clear_space(session& with, std::string_view space, deadline until) {
  const auto pool = with.board().pool();
  if (!pool)
    return {false, "there is no node on this host: nobody was told"};
  const auto left = std::max(
      std::chrono::duration_cast<milliseconds>(until - std::chrono::steady_clock::now()), 1ms);
  session::caller self{with};
  auto asked =
      self->request(pool->gateway, left, link::clear_atom_v, space_named(space).value,
                    static_cast<std::uint32_t>((left - spare_of(left)).count()), std::string{});
  const auto at_close = self.fail_at_close({asked.id()});
  clear_result outcome;
  asked.receive(
      [&](const link::clear_report& report) {
        outcome = {report.certain, report.why_not};
      },
      [&](const caf::error& why) {
        self.spoil();
        outcome.why_not = "the node of this host did not answer: " + fault_of(why).message;
      });
  return outcome;
}

} // namespace peercache::client
