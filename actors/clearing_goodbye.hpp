#pragma once

#include "actors/clearing_actor.hpp"

#include <string>

namespace peercache::actors {

using clearing_pointer = clearing_actor::stateful_pointer<clearing_state>;

// What a clearing leaves to the next process of its node, and how it takes its leave.

/// Keeps the record of the node's life beside the pages in memory, when it has changed.
void note_life(clearing_pointer self);

/// The node leaves: keeps that for the next process, and only then tells the others.
caf::result<bool> say_goodbye(clearing_pointer self);
/// The node has left and hears of another's leave: who leaves at the same time leaves nobody
/// behind.
caf::result<std::string> answer_goodbye(clearing_pointer self, const std::string& bytes);

} // namespace peercache::actors
