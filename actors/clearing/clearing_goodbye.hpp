#pragma once

#include "actors/clearing/clearing_actor.hpp"

#include <string>

namespace peercache::actors {

using clearing_pointer = clearing_actor::stateful_pointer<clearing_state>;

// What the clearing actor leaves to the next process of its node, and how it takes its leave.

/// Keeps the record of the node's life beside the pages in memory, if the record has changed.
void note_life(clearing_pointer self);

/// Takes leave of the cluster: keeps the record for the next process, and only then tells the other
/// nodes. Answers false, and tells nobody, when the record could not be kept.
caf::result<bool> say_goodbye(clearing_pointer self);
/// Answers another node's telling when this node has left and says goodbye itself. In this way two
/// nodes that leave at the same time learn of each other, and neither counts the other as left
/// behind.
caf::result<std::string> answer_goodbye(clearing_pointer self, const std::string& bytes);

} // namespace peercache::actors
