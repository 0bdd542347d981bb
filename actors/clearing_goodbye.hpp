#pragma once

#include "actors/clearing_actor.hpp"

#include <string>

namespace peercache::actors {

using clearing_pointer = clearing_actor::stateful_pointer<clearing_state>;

// What the clearing actor leaves to the next process of its node, and how it takes its leave.

/// Keeps the record of the node's life beside the pages in memory, if the record has changed.
void note_life(clearing_pointer self);

/// Takes leave of the cluster: keeps the record for the next process, and only then tells the other
/// nodes.
caf::result<bool> say_goodbye(clearing_pointer self);
/// Answers, when this node has left, another node's goodbye: nodes that leave at the same time do
/// not leave each other behind.
caf::result<std::string> answer_goodbye(clearing_pointer self, const std::string& bytes);

} // namespace peercache::actors
