// Functions of the C interface that work with batches of pages, blocking and started.
#include "client/c/batch_call.hpp"
#include "client/c/growing_struct.hpp"
#include "client/c/handles.hpp"

#include <cerrno>
#include <unistd.h>
#include <utility>

namespace peercache::c_api {

void call_state::complete(int code) {
  {
    std::lock_guard guard{lock_};
    code_ = code;
  }
  changed_.notify_all();
}

void call_state::leave() {
  {
    std::lock_guard guard{lock_};
    left_ = true;
  }
  changed_.notify_all();
}

int call_state::wait_complete(std::chrono::milliseconds at_most) {
  std::unique_lock guard{lock_};
  changed_.wait_for(guard, at_most, [this] { return code_ != PEERCACHE_RUNNING; });
  return code_;
}

void call_state::wait_left() {
  std::unique_lock guard{lock_};
  changed_.wait(guard, [this] { return left_; });
}

namespace {

constexpr std::size_t oldest_completion = 24;

int run_now(peercache_client* client, int operation, const peercache_batch* batch) noexcept {
  return guarded([&]() -> int {
    if (const int code = check_client(client))
      return code;
    batch_call call;
    if (const int code = call.take(operation, batch, client->default_timeout))
      return code;
    return call.run(*client->cache);
  });
}

/// Adds 1 to an eventfd. An eventfd that is full is readable already.
void tell(int event_fd) noexcept {
  const std::uint64_t one = 1;
  while (event_fd >= 0 && write(event_fd, &one, sizeof one) < 0 && errno == EINTR) {
  }
}

/// Makes a started call; then calls the completion's callback and adds 1 to its eventfd.
void run_started(client::cache_client& cache, batch_call& batch,
                 const peercache_completion& completion, call_state& state) noexcept {
  const int code = guarded([&] { return batch.run(cache); });
  if (completion.callback != nullptr)
    completion.callback(code, completion.user);
  state.complete(code);
  tell(completion.event_fd);
  state.leave();
}

int start(peercache_client* client, int operation, const peercache_batch* given,
          const peercache_completion* how, peercache_call** handle) {
  if (handle != nullptr)
    *handle = nullptr;
  if (const int code = check_client(client))
    return code;
  peercache_completion completion = PEERCACHE_COMPLETION_INIT;
  if (how != nullptr)
    if (const int code = take_struct(how, completion, oldest_completion, "completion"))
      return code;
  const auto batch = std::make_shared<batch_call>();
  if (const int code = batch->take(operation, given, client->default_timeout))
    return code;
  if (!client->home.is_here())
    return fail(PEERCACHE_CLOSED, "the client is closed, as each is in a forked child");
  const auto state = std::make_shared<call_state>();
  auto made = handle != nullptr ? std::make_unique<peercache_call>() : nullptr;
  if (made)
    made->state = state;
  const bool begun = client->calls->begin([cache = client->cache.get(), batch, completion, state] {
    run_started(*cache, *batch, completion, *state);
  });
  if (!begun)
    return fail(PEERCACHE_REFUSED,
                "as many calls are running as settings.calls_max allows; wait for one of them");
  if (made)
    *handle = made.release();
  return PEERCACHE_OK;
}

} // namespace
} // namespace peercache::c_api

using namespace peercache;
using namespace peercache::c_api;

extern "C" {

int peercache_set(peercache_client* client, const peercache_batch* batch) {
  return run_now(client, PEERCACHE_OPERATION_SET, batch);
}

int peercache_get(peercache_client* client, const peercache_batch* batch) {
  return run_now(client, PEERCACHE_OPERATION_GET, batch);
}

int peercache_exists(peercache_client* client, const peercache_batch* batch) {
  return run_now(client, PEERCACHE_OPERATION_EXISTS, batch);
}

int peercache_remove(peercache_client* client, const peercache_batch* batch) {
  return run_now(client, PEERCACHE_OPERATION_REMOVE, batch);
}

int peercache_start(peercache_client* client, int operation, const peercache_batch* batch,
                    const peercache_completion* completion, peercache_call** call) {
  return guarded([&] { return start(client, operation, batch, completion, call); });
}

int peercache_call_wait(peercache_call* call, uint32_t at_most_ms) {
  return guarded([&]() -> int {
    if (call == nullptr)
      return refuse_argument("call", " is NULL");
    if (!call->home.is_here())
      return fail(PEERCACHE_CLOSED, "the call was started by the parent of this process");
    const int code = call->state->wait_complete(std::chrono::milliseconds(at_most_ms));
    return code == PEERCACHE_OK
               ? code
               : fail(code, code == PEERCACHE_RUNNING ? "the call is not complete yet"
                                                      : "there was no memory for the call");
  });
}

void peercache_call_free(peercache_call* call) {
  if (call == nullptr || !call->home.is_here())
    return;
  (void)guarded([&]() -> int {
    call->state->wait_left();
    delete call;
    return PEERCACHE_OK;
  });
}
}
