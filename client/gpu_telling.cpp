#include "client/gpu_telling.hpp"

namespace peercache::client {

namespace {

using namespace std::chrono_literals;
using session_pointer = session_actor::stateful_pointer<session_actor_state>;

constexpr auto report_timeout = 10s;
/// Pause after a report that was not answered.
constexpr auto report_pause = 1000ms;

/// Goes on after the answer to a report of this session. `full`: more may be waiting.
void report_ended(session_pointer self, std::uint64_t session, bool told, bool full) {
  auto& state = self->state;
  const auto pool = state.options.board->pool();
  if (!pool || pool->session != session)
    return; // The next session begins anew.
  state.telling_gpu = false;
  if (!told)
    state.options.board->gpu.tell_again();
  if (told && full)
    return tell_gpu(self);
  state.beats.plan(self, told ? gpu_pause : report_pause);
}

} // namespace

void tell_gpu(session_pointer self) {
  auto& state = self->state;
  const auto pool = state.options.board->pool();
  if (!pool || state.telling_gpu)
    return;
  const auto report = state.options.board->gpu.next();
  if (!report)
    return;
  state.telling_gpu = true;
  const auto keys = report->stored.size() + report->evicted.size();
  const bool full = keys == link::gpu_report::keys_max;
  self->request(pool->gateway, report_timeout, link::gpu_atom_v, pool->session,
                link::encode(*report))
      .then(
          [self, session = pool->session, full](bool) { report_ended(self, session, true, full); },
          [self, session = pool->session](const caf::error&) {
            report_ended(self, session, false, false);
          });
}

void begin_to_tell_gpu(session_pointer self) {
  self->state.telling_gpu = false;
  if (self->state.options.board->gpu.begin_again())
    self->state.beats.plan(self, gpu_pause);
}

} // namespace peercache::client
