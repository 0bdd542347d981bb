#include "tests/fakes/memory_disk_file.hpp"

#include "common/assert.hpp"

#include <algorithm>
#include <cstring>

namespace peercache::storage {
namespace {

constexpr std::size_t sector_bytes = 512;
constexpr std::size_t sectors_per_block = disk_block_bytes / sector_bytes;

using bytes_ptr = memory_disk_file::bytes_ptr;

std::shared_ptr<std::byte> copy_of_block(const bytes_ptr& from) {
  std::shared_ptr<std::byte> copy(new std::byte[disk_block_bytes](),
                                  std::default_delete<std::byte[]>());
  if (from)
    std::memcpy(copy.get(), from.get(), disk_block_bytes);
  return copy;
}

bytes_ptr block_at(const bytes_ptr& from, std::uint64_t index) {
  return {from, from.get() + index * disk_block_bytes};
}

/// Calls step(block, offset in the block, offset in the range, bytes) for each block of a range.
template <class F>
void each_block(std::uint64_t offset_bytes, std::uint64_t bytes, F step) {
  for (std::uint64_t done = 0; done < bytes;) {
    const auto at = offset_bytes + done;
    const auto in_block = at % disk_block_bytes;
    const auto length = std::min(bytes - done, disk_block_bytes - in_block);
    step(at / disk_block_bytes, in_block, done, length);
    done += length;
  }
}

} // namespace

void memory_disk_file::image::resize(std::uint64_t order, std::uint64_t to) {
  blocks.resize(in_blocks(to) / disk_block_bytes);
  const auto rest = to % disk_block_bytes;
  if (to < bytes && rest != 0 && blocks.back().bytes) {
    auto cut = copy_of_block(blocks.back().bytes);
    std::memset(cut.get() + rest, 0, disk_block_bytes - rest);
    blocks.back().bytes = std::move(cut);
  }
  bytes = to;
  bytes_order = order;
}

void memory_disk_file::image::put(std::uint64_t order, std::uint64_t at, bytes_ptr from) {
  const auto end = (at + 1) * disk_block_bytes;
  if (end > bytes) {
    if (order < bytes_order)
      return; // A later resize has cut this block off, so its bytes are dropped.
    resize(order, end);
  }
  blocks[at] = {std::move(from), order};
}

void memory_disk_file::image::overwrite(std::uint64_t offset_bytes,
                                        std::span<const std::byte> from) {
  each_block(
      offset_bytes, from.size(),
      [&](std::uint64_t at, std::uint64_t in_block, std::uint64_t done, std::uint64_t length) {
        if (at >= blocks.size())
          return;
        auto changed = copy_of_block(blocks[at].bytes);
        std::memcpy(changed.get() + in_block, from.data() + done, length);
        blocks[at].bytes = std::move(changed);
      });
}

void memory_disk_file::read(std::uint64_t offset_bytes, std::span<std::byte> into) const {
  PEERCACHE_ASSERT(offset_bytes + into.size() <= seen_.bytes);
  each_block(
      offset_bytes, into.size(),
      [&](std::uint64_t at, std::uint64_t in_block, std::uint64_t done, std::uint64_t length) {
        const auto& from = seen_.blocks[at].bytes;
        if (from)
          std::memcpy(into.data() + done, from.get() + in_block, length);
        else
          std::memset(into.data() + done, 0, length);
      });
}

void memory_disk_file::apply(image& to, const change& what) {
  if (what.is_resize) {
    if (what.order > to.bytes_order)
      to.resize(what.order, what.bytes);
    return;
  }
  const auto first = what.offset_bytes / disk_block_bytes;
  for (std::uint64_t i = 0; i < what.bytes / disk_block_bytes; ++i)
    if (first + i >= to.blocks.size() || what.order > to.blocks[first + i].order)
      to.put(what.order, first + i, block_at(what.from, i));
}

void memory_disk_file::apply_torn(image& to, const change& what, std::mt19937_64& random) {
  const auto first = what.offset_bytes / disk_block_bytes;
  const auto sectors = what.bytes / sector_bytes;
  const bool is_prefix = random() % 2 == 0;
  const auto length = random() % (sectors + 1);
  for (std::uint64_t i = 0; i < what.bytes / disk_block_bytes; ++i) {
    if (first + i < to.blocks.size() && what.order < to.blocks[first + i].order)
      continue;
    const auto from = block_at(what.from, i);
    auto mixed =
        copy_of_block(first + i < to.blocks.size() ? to.blocks[first + i].bytes : bytes_ptr());
    bool any = false;
    for (std::size_t s = 0; s < sectors_per_block; ++s) {
      const bool there = is_prefix ? i * sectors_per_block + s < length : random() % 2 == 0;
      if (there)
        std::memcpy(mixed.get() + s * sector_bytes, from.get() + s * sector_bytes, sector_bytes);
      any |= there;
    }
    if (any)
      to.put(what.order, first + i, std::move(mixed));
  }
}

void memory_disk_file::write(std::uint64_t order, std::uint64_t offset_bytes, std::uint64_t bytes,
                             bytes_ptr from) {
  changes_.push_back(
      {.order = order, .offset_bytes = offset_bytes, .bytes = bytes, .from = std::move(from)});
  apply(seen_, changes_.back());
}

void memory_disk_file::resize(std::uint64_t order, std::uint64_t bytes) {
  changes_.push_back({.order = order, .is_resize = true, .bytes = bytes});
  apply(seen_, changes_.back());
}

void memory_disk_file::perhaps(std::uint64_t order, std::uint64_t offset_bytes, std::uint64_t bytes,
                               bytes_ptr from) {
  changes_.push_back({.order = order,
                      .offset_bytes = offset_bytes,
                      .bytes = bytes,
                      .from = std::move(from),
                      .doomed = true});
}

void memory_disk_file::sync(std::uint64_t before) {
  std::erase_if(changes_, [&](const change& what) {
    if (what.order >= before || what.doomed)
      return false;
    apply(durable_, what);
    return true;
  });
}

void memory_disk_file::sync_failed(std::uint64_t before) {
  for (auto& what : changes_)
    what.doomed |= what.order < before;
}

void memory_disk_file::overwrite(std::uint64_t offset_bytes, std::span<const std::byte> from) {
  PEERCACHE_ASSERT(offset_bytes + from.size() <= seen_.bytes);
  seen_.overwrite(offset_bytes, from);
  durable_.overwrite(offset_bytes, from);
}

memory_disk_file memory_disk_file::after_power_cut(std::mt19937_64& random, survivors what) const {
  image left = durable_;
  for (const auto& one : changes_) {
    const auto fate = what == survivors::some ? random() % 3 : what == survivors::all ? 1 : 0;
    if (fate == 1)
      apply(left, one);
    else if (fate == 2 && !one.is_resize)
      apply_torn(left, one, random);
  }
  left.bytes_order = 0;
  for (auto& one : left.blocks)
    one.order = 0;
  memory_disk_file after;
  after.seen_ = left;
  after.durable_ = std::move(left);
  return after;
}

} // namespace peercache::storage
