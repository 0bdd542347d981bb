#pragma once

#include "directory/shard.hpp"

#include <atomic>

namespace peercache::directory {

/// Marks a line's records as changing, from the first change to the last (the writer's side of
/// directory/shard_search.hpp): the version is odd meanwhile. One at a time.
class shard::line_change {
public:
  line_change(shard& of, unit_number line) noexcept : of_(of), line_(line) {
    of_.set_word(line_, 0, of_.word(line_, 0) + one_step);
    // No reader sees a change and the version before it.
    std::atomic_thread_fence(std::memory_order_release);
  }
  ~line_change() {
    of_.set_word(line_, 0, of_.word(line_, 0) + one_step, std::memory_order_release);
  }
  line_change(const line_change&) = delete;
  line_change& operator=(const line_change&) = delete;

private:
  static constexpr std::uint64_t one_step = std::uint64_t{1} << 32;
  shard& of_;
  const unit_number line_;
};

/// Marks the header as changing, and stores it at the end. May stand within another one, whose end
/// it leaves to the outer one.
class shard::header_change {
public:
  explicit header_change(shard& of) noexcept : of_(of), outermost_(of.header_.whole()) {
    if (!outermost_)
      return;
    ++of_.header_.changes;
    of_.store_header();
    std::atomic_thread_fence(std::memory_order_release);
  }
  ~header_change() {
    if (!outermost_)
      return;
    ++of_.header_.changes;
    of_.store_header();
    // Whoever sees a later change sees this header.
    std::atomic_thread_fence(std::memory_order_release);
  }
  header_change(const header_change&) = delete;
  header_change& operator=(const header_change&) = delete;

private:
  shard& of_;
  const bool outermost_;
};

} // namespace peercache::directory
