#include "client/session/gpu_telling.hpp"

namespace peercache::client {

namespace {

using namespace std::chrono_literals;
using session_pointer = session_actor::stateful_pointer<session_actor_state>;

constexpr auto report_timeout = 10s;

/// Whether the client still has this session. If not, its reports no longer matter: the new
/// session's node is told of all blocks.
bool is_of(const session_actor_state& state, std::uint64_t session) {
  const auto pool = state.options.board->pool();
  return pool && pool->session == session;
}

/// Goes on after a report of this session was taken. `full`: more may be waiting.
void report_taken(session_pointer self, std::uint64_t session, bool full) {
  auto& state = self->state;
  if (!is_of(state, session))
    return;
  state.telling_gpu = false;
  if (full)
    tell_gpu(self);
  else
    state.beats.plan(self, gpu_pause);
}

/// Has all blocks told again after a pause, because the node may or may not have taken the report.
void report_failed(session_pointer self, std::uint64_t session, std::chrono::milliseconds pause) {
  auto& state = self->state;
  if (!is_of(state, session))
    return;
  state.telling_gpu = false;
  state.options.board->gpu.tell_again();
  state.tell_gpu_at = self->clock().now() + pause;
}

} // namespace

void tell_gpu(session_pointer self) {
  auto& state = self->state;
  const auto pool = state.options.board->pool();
  if (!pool || state.telling_gpu || self->clock().now() < state.tell_gpu_at)
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
          [self, session = pool->session, full](bool taken) {
            if (taken)
              report_taken(self, session, full);
            else
              report_failed(self, session, gpu_refused_pause);
          },
          [self, session = pool->session](const caf::error&) {
            report_failed(self, session, gpu_failed_pause);
          });
}

void begin_to_tell_gpu(session_pointer self) {
  self->state.telling_gpu = false;
  self->state.tell_gpu_at = {};
  if (self->state.options.board->gpu.begin_again())
    self->state.beats.plan(self, gpu_pause);
}

} // namespace peercache::client
