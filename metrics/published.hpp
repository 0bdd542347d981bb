#pragma once

#include <atomic>
#include <memory>
#include <utility>

namespace peercache::metrics {

/// The newest version of a value that one side makes and others read, such as the text of a status.
///
/// Threads: store() and load() from any thread; a reader keeps the version that it loaded.
template <class T>
class published {
public:
  explicit published(T first) : current_(std::make_shared<const T>(std::move(first))) {}

  void store(T next) { current_.store(std::make_shared<const T>(std::move(next))); }

  /// The value that was stored last; never null.
  std::shared_ptr<const T> load() const { return current_.load(); }

private:
  std::atomic<std::shared_ptr<const T>> current_;
};

} // namespace peercache::metrics
