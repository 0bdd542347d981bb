#pragma once

#include "common/result.hpp"
#include "discovery/view.hpp"

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <string>

namespace peercache::actors {

/// Looks for the addresses of seeds whose names have none yet, in a thread for each of them: a
/// look-up blocks for as long as a name service is silent, and no name waits for another.
///
/// Threads: one owner. Ownership: a thread ends by itself when its name has an address, or when its
/// look-up returns after this object's end; nobody waits for it. Errors: a name without an address
/// is looked up again after a pause, for ever; a name for which no thread could be started is never
/// looked up.
class seed_names {
public:
  /// Gives the numeric address of a name, or why there is none; the threads call it.
  using resolver = std::function<result<std::string>(const std::string& name)>;
  /// By seed, as it is configured, the numeric address of its host, or why there is none.
  using answers = std::map<discovery::endpoint, result<std::string>>;

  /// @param lacking the seeds without an address, and why
  seed_names(answers lacking, const resolver& resolve, std::chrono::milliseconds pause);
  ~seed_names();
  seed_names(const seed_names&) = delete;
  seed_names& operator=(const seed_names&) = delete;

  /// Returns the newest answer for each seed that was looked up since the last call; the first call
  /// also has what the constructor was given.
  answers take();
  /// Waits until each seed was looked up once, or for this long. Returns what `take` does.
  answers take_within(std::chrono::milliseconds patience);

private:
  struct board;
  static void look_up(board& shared, const discovery::endpoint& seed, const resolver& resolve,
                      std::chrono::milliseconds pause);

  std::shared_ptr<board> board_;
};

} // namespace peercache::actors
