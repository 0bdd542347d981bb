#pragma once

#include <cstdint>

namespace peercache {

/// The process that an object was made in. A forked child has a copy of the object and none of the
/// threads behind it, and shares its sockets and its memory with the parent: whatever would send,
/// wait for a thread or give something back asks `is_here` first. Threads: any.
class home_process {
public:
  home_process() noexcept;

  /// Whether this is still the process that the object was made in; false in a child that was
  /// forked since. Costs one load.
  bool is_here() const noexcept;

private:
  std::uint32_t forks_before_;
};

/// Closes `file` in each child that is forked from now on, before `fork` returns in the child. What
/// the kernel ties to the open file, such as its locks, then ends with this process, even if
/// children outlive it. Threads: any.
void close_in_children(int file);

/// Closes a file of close_in_children in this process. No fork comes in between, so that a child
/// never keeps the file open, nor loses another file that has got its number.
void close_noted(int file) noexcept;

} // namespace peercache
