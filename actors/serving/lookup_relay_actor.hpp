#pragma once

#include "link/member_question.hpp"
#include "link/protocol/directory.hpp"
#include "link/protocol/gateway.hpp"
#include "net/inbox.hpp"

#include <caf/typed_actor.hpp>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

namespace peercache::actors {

/// What an actor of this process has answered to a question that came over the look-up port.
struct relayed_answer {
  std::uint64_t ticket = 0; ///< Which question, in the words of who relayed it.
  /// Body of the answer; nothing when the actor refused the question, or has ended.
  std::optional<std::string> body;
};
using relayed_answers = net::inbox<relayed_answer>;

/// The RELAY protocol: asks the directory or the gateway on behalf of the look-up server, which is
/// not an actor (actors/serving/lookup_server.hpp).
using lookup_relay_actor = caf::typed_actor<
    // Look-up server: a ticket, a member_question and its body, which `link::read_question` has
    // accepted. Each ticket is answered once, in `relayed_answers`.
    caf::reacts_to<link::tell_atom, std::uint64_t, std::uint8_t, std::string, link::from_here>>;

struct lookup_relay_options {
  link::directory_actor directory;
  link::gateway_actor gateway;
  std::shared_ptr<relayed_answers> answers; ///< Where answers go.
};

/// Waits for each answer without a time-out, because the actors live in this process.
lookup_relay_actor::behavior_type run_lookup_relay(lookup_relay_actor::pointer self,
                                                   const lookup_relay_options& options);

} // namespace peercache::actors
