#include "actors/clearing/clearing_goodbye.hpp"

#include "common/assert.hpp"
#include "common/log.hpp"

#include <chrono>
#include <memory>
#include <utility>

namespace peercache::actors {

void note_life(clearing_pointer self) {
  auto& state = self->state;
  if (auto life = state.spaces.life(); life != state.noted) {
    state.noted = std::move(life);
    state.options.note(state.noted);
  }
}

namespace {

using namespace std::chrono_literals;

/// Longest wait of a leaving node for the members that it tells.
constexpr auto goodbye_timeout = 500ms;

/// Keeps for the next process of this node which nodes this one left behind. Returns nothing, or
/// why it failed.
std::string keep_at_end(clearing_pointer self) {
  note_life(self);
  return self->state.options.keep_at_end(self->state.spaces.encode_for_disk());
}

} // namespace

caf::result<bool> say_goodbye(clearing_pointer self) {
  auto& state = self->state;
  PEERCACHE_ASSERT(state.left); // The record that is kept now says that this node has left.
  if (const auto why_not = keep_at_end(self); !why_not.empty()) {
    log::warn("clear: no clear is certain until this node is back, for it cannot remember that it "
              "left: {}",
              why_not);
    return false;
  }
  state.says_goodbye = true;
  auto promise = self->make_response_promise<bool>();
  auto waiting = std::make_shared<std::size_t>(1);
  auto one_less = [self, waiting, promise]() mutable {
    PEERCACHE_ASSERT(*waiting > 0);
    if (--*waiting != 0)
      return;
    // Keeps the record again: the members' answers told which of them are ending too, and such
    // members are not left behind.
    keep_at_end(self);
    promise.deliver(true);
  };
  if (state.cluster)
    for (const auto& whom : state.cluster->peers) {
      if (whom.self.inc == state.options.self || !whom.gateway)
        continue;
      ++*waiting;
      self->request(whom.gateway, goodbye_timeout, tell_atom_v,
                    state.spaces.tell(whom.self.inc, state.done(), true))
          .then(
              [self, one_less](const std::string& bytes) mutable {
                if (const auto said = cleared_spaces::decode_telling(bytes))
                  self->state.spaces.hear_goodbye(*said);
                one_less();
              },
              [one_less](const caf::error&) mutable { one_less(); });
    }
  one_less();
  return promise;
}

caf::result<std::string> answer_goodbye(clearing_pointer self, const std::string& bytes) {
  auto& state = self->state;
  PEERCACHE_ASSERT(state.left);
  const auto said = cleared_spaces::decode_telling(bytes);
  if (!state.says_goodbye || !said)
    return caf::make_error(caf::sec::runtime_error, std::string("it is leaving the cluster"));
  state.spaces.hear_goodbye(*said);
  return state.spaces.tell(said->from, state.done(), true);
}

} // namespace peercache::actors
