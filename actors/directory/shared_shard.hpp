#pragma once

#include "common/error.hpp"
#include "common/published.hpp"
#include "directory/member_shard.hpp"

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace peercache::actors {

/// The directory shard of this member, for the threads that use it. The directory actor keeps it:
/// it follows views, and forgets and gives away records. The pool of this node and the directory's
/// door for other nodes (actors/directory/directory_door.hpp) change a few records at once, where
/// that needs nothing else of the actor. The look-up server answers look-ups from the shard's
/// memory (actors/serving/lookup_server.hpp). What needs no actor saves two wake-ups of threads.
///
/// The rule: whoever changes the shard has the lock. A look-up takes no lock and waits for nobody,
/// not even for a sweep of millions of records: it reads the shard's memory while it changes
/// (directory/shard_search.hpp), by the view that the shard followed when the lock was last given
/// back. So the answer about each key was right at some time between question and answer, and has
/// all changes of messages that were answered before the question came; not those of messages that
/// wait for the actor, such as a new view. A change is made as if its message had come to the
/// actor: while a message waits there after which the change would have another outcome, others
/// than the actor make none (`announce`).
///
/// Threads: any.
class shared_shard {
public:
  /// Keys that were looked up.
  struct counts {
    std::uint64_t lookups = 0;
    std::uint64_t foreign = 0;   ///< Keys that this member neither knew nor owned.
    std::uint64_t published = 0; ///< Records of `try_publish`.
    std::uint64_t withdrawn = 0; ///< Records of `try_withdraw`.
  };

  /// The shard, with its lock for as long as this object lives. A thread has one at a time.
  class locked {
  public:
    explicit locked(shared_shard& of) : of_(of), lock_(of.mutex_) {}
    ~locked() { of_.tell_readers(); }
    locked(const locked&) = delete;
    locked& operator=(const locked&) = delete;
    directory::member_shard* operator->() const noexcept { return &of_.shard_; }

  private:
    friend shared_shard;
    locked(shared_shard& of, std::adopt_lock_t has) : of_(of), lock_(of.mutex_, has) {}

    shared_shard& of_;
    const std::lock_guard<std::mutex> lock_;
  };

  explicit shared_shard(const directory::member_shard::options& options);

  /// Waits for the lock.
  locked lock() { return locked(*this); }
  /// Returns the locations of these keys as `member_shard::look_up` does; waits for the lock.
  result<std::string> look_up(std::string_view keys);
  /// Does as `look_up`, without waiting. Nothing: the shard changed all the time, or the actor that
  /// kept it has ended.
  std::optional<result<std::string>> try_look_up(std::string_view keys);
  /// Publishes a batch as the directory actor does, without waiting. Nothing, and nothing is
  /// recorded: the actor has more to do with it than to record it (`publishes_at_once`), an
  /// announced message waits there, the lock is taken, or the actor has ended.
  /// @pre the actor has no earlier change of the sender left
  std::optional<result<std::string>> try_publish(std::string_view batch,
                                                 const directory::view_number& known);
  /// Withdraws a batch as the directory actor does, without waiting. Nothing, and nothing is
  /// forgotten: the shard gives its records away, and withdrawals have to follow them; or one of
  /// the last three reasons of `try_publish`. @pre as `try_publish`
  std::optional<result<std::uint64_t>> try_withdraw(std::string_view batch);
  /// Announces a message to the actor that keeps the shard: a view, a change of connections, or
  /// that the cluster goes on without this member. Call before the message is sent. Until `heard`
  /// only that actor changes the shard, so that no change overtakes the message.
  void announce() noexcept { announced_.fetch_add(1, std::memory_order_acq_rel); }
  /// Notes that the actor has done as an announced message says. @pre `announce` was called for it
  void heard() noexcept;
  /// Lets other hosts ask instead of reading the shard, until the directory has forgotten what was
  /// cleared. Waits for nothing.
  void forbid_remote_reads() noexcept { shard_.records().forbid_remote_reads(); }
  counts counted() const noexcept;
  /// Notes that nobody changes the shard any longer.
  void end() noexcept { ended_.store(true, std::memory_order_release); }

private:
  void tell_readers();
  bool take_lock();
  void count(std::string_view keys, std::uint64_t foreign) noexcept;

  std::mutex mutex_; ///< Guards changes of `shard_`, and its use by others than look-ups.
  directory::member_shard shard_;
  /// By which view look-ups are answered.
  published<directory::member_shard::answering> answering_;
  std::atomic<std::uint64_t> lookups_{0};
  std::atomic<std::uint64_t> foreign_{0};
  std::atomic<std::uint64_t> published_{0};
  std::atomic<std::uint64_t> withdrawn_{0};
  std::atomic<std::uint64_t> announced_{0}; ///< Announced messages that are not heard yet.
  std::atomic<bool> ended_{false};
};

} // namespace peercache::actors
