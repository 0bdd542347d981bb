#pragma once

// CONTRACT: packed little-endian records that ride in one std::string per batch, byte tables with static_asserts:
//   publish batch : array of {page_key, page_location packed, mode}
//   withdraw batch: array of {page_key, incarnation, generation}
//   lookup request: array of page_key; answer: per key one count byte and `count` packed locations
// Encoders append to a reused std::string; decoders are readers over std::string_view that check every length
// and return false / result on malformed input, never read past the end, never allocate by a forged count.
