#pragma once

#include "common/guards.hpp"

namespace peercache {

/// Switches one guard on or off for the rest of the process. Exists only in programs that link
/// `peercache_switchable_guards`, hence never in one that users run.
/// Threads: any; a thread that already asked `guard_on` acts on the old answer.
void set_guard(guard which, bool on) noexcept;

/// Switches one guard off for a scope and then restores its setting. Threads: see `set_guard`.
class guard_switched_off {
public:
  explicit guard_switched_off(guard which) noexcept : which_(which), was_on_(guard_on(which)) {
    set_guard(which_, false);
  }
  ~guard_switched_off() { set_guard(which_, was_on_); }
  guard_switched_off(const guard_switched_off&) = delete;
  guard_switched_off& operator=(const guard_switched_off&) = delete;

private:
  guard which_;
  bool was_on_;
};

/// Sets a fault, as its environment variable PEERCACHE_TEST_* would. Threads: any.
void set_fault(fault which, std::uint32_t setting) noexcept;

/// Injects one fault for a scope and then restores the fault's earlier setting.
class fault_injected {
public:
  fault_injected(fault which, std::uint32_t setting) noexcept
      : which_(which), before_(fault_setting(which)) {
    set_fault(which_, setting);
  }
  ~fault_injected() { set_fault(which_, before_); }
  fault_injected(const fault_injected&) = delete;
  fault_injected& operator=(const fault_injected&) = delete;

private:
  fault which_;
  std::uint32_t before_;
};

} // namespace peercache
