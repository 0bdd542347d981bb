#pragma once

#include "common/forks.hpp"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <utility>

namespace peercache::python {

/// An object that is closed when the interpreter ends. Threads: any.
class closable {
public:
  using time_point = std::chrono::steady_clock::time_point;

  virtual ~closable() = default;
  /// Refuses new loans, and makes running calls end soon. Does not wait for them.
  virtual void shut() = 0;
  /// Calls `shut`, waits for the loans that are out, until `until` at the latest, and lets go of
  /// the lent object. The object ends in this call, or with the last call that still has a loan of
  /// it.
  virtual void close(time_point until) = 0;
};

/// Holds an object (a client, a worker) that calls borrow. The object ends when the gate is closed
/// and the last call has given it back. In a forked child the gate is closed, and the object stays
/// the parent's. Threads: any.
template <class Lent>
class loan_gate final : public closable {
public:
  explicit loan_gate(std::shared_ptr<Lent> whole) : shared_(std::make_unique<shared>()) {
    shared_->open_one = std::move(whole);
  }
  ~loan_gate() override {
    // In a forked child the shared state is leaked: a thread of the parent may wait at its
    // condition, and the destructor would wait for that thread for ever.
    if (!home_.is_here())
      (void)shared_.release();
  }
  loan_gate(const loan_gate&) = delete;
  loan_gate& operator=(const loan_gate&) = delete;

  /// The object for the duration of one call; empty once the gate is closed.
  class loan {
  public:
    explicit loan(loan_gate& from) : from_(from) {
      // Checked before locking: in a forked child the lock may be held by a thread of the parent.
      if (!from.is_open())
        return;
      std::lock_guard guard{from.shared_->lock};
      lent_ = from.shared_->open_one;
      if (lent_)
        ++from.shared_->loans;
    }
    ~loan() {
      if (!lent_)
        return;
      lent_.reset(); // The last reference ends the object here, not in `close`.
      {
        std::lock_guard guard{from_.shared_->lock};
        --from_.shared_->loans;
      }
      from_.shared_->returned.notify_all();
    }
    loan(const loan&) = delete;
    loan& operator=(const loan&) = delete;

    explicit operator bool() const noexcept { return lent_ != nullptr; }
    Lent& operator*() const noexcept { return *lent_; }
    Lent* operator->() const noexcept { return lent_.get(); }

  private:
    loan_gate& from_;
    std::shared_ptr<Lent> lent_;
  };

  bool is_open() const noexcept { return home_.is_here() && shared_->open.load(); }

  void shut() override {
    if (!home_.is_here())
      return;
    std::shared_ptr<Lent> last;
    {
      std::lock_guard guard{shared_->lock};
      shared_->open = false;
      if (shared_->open_one)
        shared_->last = std::move(shared_->open_one);
      last = shared_->last;
    }
    if constexpr (requires { last->close(); })
      if (last)
        last->close();
  }

  void close(time_point until) override {
    if (!home_.is_here())
      return;
    shut();
    std::shared_ptr<Lent> last;
    std::unique_lock guard{shared_->lock};
    shared_->returned.wait_until(guard, until, [this] { return shared_->loans == 0; });
    last = std::move(shared_->last);
    guard.unlock();
    last.reset(); // The lock is not held here, since the object may take long to end.
  }

private:
  struct shared {
    std::mutex lock;
    std::condition_variable returned;
    /// The object to lend; null after `shut`. Guarded by `lock`.
    std::shared_ptr<Lent> open_one;
    /// The object that was lent, from `shut` to the end of `close`. Guarded by `lock`.
    std::shared_ptr<Lent> last;
    int loans = 0; ///< Calls that use the object now. Guarded by `lock`.
    /// Whether calls may borrow the object. Written under `lock`, read without it.
    std::atomic<bool> open{true};
  };
  std::unique_ptr<shared> shared_;
  const home_process home_;
};

} // namespace peercache::python
