#pragma once

#include <memory>
#include <mutex>
#include <utility>

namespace peercache {

/// The newest version of a value that one side makes and others read, such as the text of a status.
/// A lock guards the pointer. `std::atomic<std::shared_ptr>` of libstdc++ 12 would not do: its
/// `load` gives its own lock back by a relaxed store, and a weakly ordered machine may then read
/// the pointer after the next writer has replaced it.
///
/// Threads: store() and load() from any thread; a reader keeps the version that it loaded.
template <class T>
class published {
public:
  explicit published(T first) : current_(std::make_shared<const T>(std::move(first))) {}

  void store(T next) {
    auto made = std::make_shared<const T>(std::move(next));
    const std::lock_guard guard(lock_);
    current_.swap(made); // The old version is freed after the lock is given back.
  }

  /// The value that was stored last; never null.
  std::shared_ptr<const T> load() const {
    const std::lock_guard guard(lock_);
    return current_;
  }

private:
  mutable std::mutex lock_; ///< Guards `current_`, for as long as it takes to copy the pointer.
  std::shared_ptr<const T> current_;
};

} // namespace peercache
