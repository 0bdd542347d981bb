#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

/// Decides by C++20's memory model what a few threads may read of each other, whatever the machine:
/// all executions of a program of at most 32 steps are made, and those that the rules allow are
/// kept. Used to show that each fence of our lock-free protocols is needed, and is enough.
namespace peercache::litmus {

/// The orders of std::memory_order; a fence that is `relaxed` does nothing.
enum class order { relaxed, acquire, release, acq_rel, seq_cst };

enum class act { load, store, exchange, fence };

/// A step of a thread. All memory is atomic words, numbered, which begin as 0.
struct step {
  act what;
  int place;
  int value; ///< What a `store` or an `exchange` writes.
  order how;
};

inline step load(int place, order how) {
  return {act::load, place, 0, how};
}
inline step store(int place, int value, order how) {
  return {act::store, place, value, how};
}
inline step exchange(int place, int value, order how) {
  return {act::exchange, place, value, how};
}
inline step fence(order how) {
  return {act::fence, -1, 0, how};
}

/// The threads' steps. There are no branches: a thread that would stop does its other steps for
/// nothing, and the question is asked of executions in which it would have gone on. So no step
/// depends on what was read, and a store may be seen before the loads in front of it are done
/// (arm64 does that) unless an order forbids it.
using program = std::vector<std::vector<step>>;

/// What the loads and exchanges of an execution have read.
class readings {
public:
  explicit readings(const program& threads);
  int at(std::size_t thread, std::size_t step) const { return values_[thread][step]; }
  void set(std::size_t thread, std::size_t step, int value) { values_[thread][step] = value; }

private:
  std::vector<std::vector<int>> values_;
};

/// Whether there is an execution that C++20 allows and whose readings are `wanted`.
bool allows(const program& threads, const std::function<bool(const readings&)>& wanted);

} // namespace peercache::litmus
