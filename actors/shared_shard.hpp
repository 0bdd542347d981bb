#pragma once

#include "common/error.hpp"
#include "directory/member_shard.hpp"

#include <atomic>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace peercache::actors {

/// The directory shard of this member, for the two threads that use it: the directory actor's, the
/// only one that changes the shard, and the look-up server's, which answers look-ups from it
/// (actors/lookup_server.hpp). An answer that needs no actor saves two wake-ups of threads.
///
/// The rule: whoever reads or changes the shard has the lock, for one message at most. So a look-up
/// sees each message's changes as a whole, and all changes of messages that were answered before it
/// came; not those of messages that wait for the actor, such as a new view. The look-up server
/// never waits for the lock, which a sweep of millions of records has for seconds: it tries, and
/// passes the question on to the actor when the lock is taken, or when somebody waits for it: the
/// lock is not fair, and a flood of look-ups would keep the actor out.
///
/// Threads: any.
class shared_shard {
public:
  /// Keys that were looked up.
  struct counts {
    std::uint64_t lookups = 0;
    std::uint64_t foreign = 0; ///< Keys that this member neither knew nor owned.
  };

  /// The shard, with its lock for as long as this object lives. A thread has one at a time.
  class locked {
  public:
    locked(std::unique_lock<std::mutex> lock, directory::member_shard& shard) noexcept
        : lock_(std::move(lock)), shard_(&shard) {}
    directory::member_shard* operator->() const noexcept { return shard_; }

  private:
    std::unique_lock<std::mutex> lock_;
    directory::member_shard* shard_;
  };

  /// @param records_max records beyond this number are refused
  shared_shard(const directory::member_shard::options& options, std::uint64_t records_max);

  /// Waits for the lock.
  locked lock();
  /// Returns the locations of these keys as `member_shard::look_up` does; waits for the lock.
  result<std::string> look_up(std::string_view keys);
  /// Does as `look_up`, without waiting. Nothing: another thread has the lock or waits for it, or
  /// the actor that kept the shard has ended.
  std::optional<result<std::string>> try_look_up(std::string_view keys);
  counts counted();
  /// Notes that nobody changes the shard any longer.
  void end();

private:
  std::unique_lock<std::mutex> wait_for_lock();
  result<std::string> look_up_locked(std::string_view keys);

  std::mutex mutex_;            ///< Guards all other members but `waiting_`.
  std::atomic<int> waiting_{0}; ///< Threads that wait for the lock.
  directory::member_shard shard_;
  counts counts_;
  bool ended_ = false;
};

} // namespace peercache::actors
