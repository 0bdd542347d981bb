#pragma once

#include "rdma/data_plane.hpp"

#include <algorithm>
#include <cstring>
#include <span>
#include <vector>

namespace peercache::rdma {

/// A batch of pieces of one size of a peer's areas, with the memory that they are READ into.
/// Piece i lands at `landed(i)`, whatever order the pieces were added in.
class area_batch {
public:
  explicit area_batch(std::uint32_t piece_bytes, std::size_t pieces_max = 1024)
      : piece_bytes_(piece_bytes), memory_(pieces_max * piece_bytes, std::byte{0xA5}) {
    batch.judged = false;
    batch.pages.reserve(pieces_max);
    batch.parts.reserve(pieces_max);
  }

  /// Adds a piece by its address in the peer's process.
  void add(std::uint64_t address) {
    addresses_.push_back(address);
    page_read page;
    page.source = memory_rows::one_piece(address, piece_bytes_);
    page.length_bytes = piece_bytes_;
    page.first_part = static_cast<std::uint32_t>(batch.parts.size());
    page.part_count = 1;
    batch.parts.push_back({&memory_[batch.pages.size() * piece_bytes_], piece_bytes_});
    batch.pages.push_back(page);
  }
  void add(const std::byte* from) { add(reinterpret_cast<std::uint64_t>(from)); }
  /// Lets the pieces be READ from a peer whose lowest area begins at this address.
  void from(std::uint64_t lowest_area) {
    for (std::size_t i = 0; i < addresses_.size(); ++i)
      batch.pages[i].source.address = addresses_[i] - lowest_area;
  }
  void clear() {
    addresses_.clear();
    batch.pages.clear();
    batch.parts.clear();
    batch.reset();
  }

  std::span<std::byte> memory() { return memory_; }
  std::span<const std::byte> landed(std::size_t piece) const {
    return std::span(memory_).subspan(piece * piece_bytes_, piece_bytes_);
  }
  bool holds(std::size_t piece, const std::byte* expected) const {
    return std::memcmp(landed(piece).data(), expected, piece_bytes_) == 0;
  }
  bool all(page_status status) const {
    return std::all_of(batch.pages.begin(), batch.pages.end(),
                       [status](const page_read& page) { return page.status == status; });
  }

  read_batch batch;

private:
  const std::uint32_t piece_bytes_;
  std::vector<std::byte> memory_;
  std::vector<std::uint64_t> addresses_;
};

/// Bytes of which no two pieces of 8 bytes are the same.
inline std::vector<std::byte> numbered_bytes(std::size_t bytes, std::uint64_t seed) {
  std::vector<std::byte> made(bytes);
  for (std::uint64_t at = 0; at + 8 <= bytes; at += 8) {
    const auto word = (seed << 40) + at;
    std::memcpy(&made[at], &word, 8);
  }
  return made;
}

} // namespace peercache::rdma
