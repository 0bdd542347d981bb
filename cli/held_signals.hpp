#pragma once

#include <csignal>

namespace peercache::cli {

/// Holds back the signals that end a program (SIGINT, SIGTERM, SIGHUP), so that it can put things
/// in order first. The destructor lets them through again: a signal that was held back then ends
/// the process, as its parent expects of a process that was told to end. Threads: made by the first
/// thread before others start, which inherit the mask.
class held_signals {
public:
  held_signals();
  ~held_signals();
  held_signals(const held_signals&) = delete;
  held_signals& operator=(const held_signals&) = delete;

  /// Whether a signal has come. Never blocks.
  bool came() const;
  /// Blocks until a signal has come.
  void wait() const;

private:
  sigset_t before_{};
  sigset_t held_{};
};

} // namespace peercache::cli
