// Which parts of a pool a client can write to.

#include "storage/pool_layout.hpp"
#include "storage/pool_memory.hpp"

#include <gtest/gtest.h>

#include <csignal>
#include <cstdlib>
#include <functional>
#include <string>
#include <sys/wait.h>
#include <unistd.h>

namespace peercache::storage::pool_protection_test {
namespace {

constexpr std::uint64_t size_bytes = 8u << 20;

/// What becomes of a process that maps the pool as a client does and then calls `write`: the signal
/// that ends it, 0 when none does, or -1 when it cannot map the pool.
int signal_after(const pool_memory& owner, const std::function<void(pool_memory&)>& write) {
  const auto process = ::fork();
  if (process == 0) {
    auto client = pool_memory::attach(owner.name(), owner.owner());
    if (!client)
      std::_Exit(1);
    std::signal(SIGSEGV, SIG_DFL); // A sanitizer would end the process in its own way.
    write(*client);
    std::_Exit(0);
  }
  int status = 0;
  EXPECT_EQ(::waitpid(process, &status, 0), process);
  return WIFSIGNALED(status) ? WTERMSIG(status) : -WEXITSTATUS(status);
}

TEST(pool_protection, a_client_that_writes_what_only_the_node_may_write_ends) {
  const auto owner =
      pool_memory::create({.name_prefix = "peercache-test-stray-" + std::to_string(::getpid()),
                           .node_name = "node",
                           .owner = incarnation::random(),
                           .size_bytes = size_bytes});
  ASSERT_TRUE(owner) << owner.error().message;
  const auto header_behind = plan_layout(size_bytes, false)->table_offset;
  auto slots = owner->slots();
  page_key key;
  slots.begin_fill({7});
  const auto published = slots.publish({7}, key, 100, 1);
  const auto leased = slots.begin_fill({8});

  const auto signal_of = [&](const std::function<void(pool_memory&)>& write) {
    return signal_after(*owner, write);
  };
  EXPECT_EQ(signal_of([&](auto& client) {
              *(client.readable_region().data() - header_behind) = std::byte{1};
            }),
            SIGSEGV);
  EXPECT_EQ(signal_of([](auto& client) { client.epochs().close(); }), SIGSEGV);
  EXPECT_EQ(signal_of([](auto& client) { client.note().write("a note"); }), SIGSEGV);
  EXPECT_EQ(signal_of([](auto& client) { client.slots().give_up({7}); }), SIGSEGV);
  EXPECT_EQ(signal_of([](auto& client) { client.slots().begin_fill({9}); }), SIGSEGV);
  EXPECT_EQ(signal_of([&](auto& client) {
              *reinterpret_cast<std::byte*>(client.slots().bytes({0}, 1).data() - 1) = std::byte{1};
            }),
            SIGSEGV)
      << "the table's last byte lies in front of the first page";
  EXPECT_EQ(slots.check({7}, published, key, 100), page_status::hit);

  const auto works = [&](pool_memory& client) {
    client.slots().bytes({8}, 100)[0] = std::byte{1};
    client.slots().fill({8}, key, 100, 1);
    client.slots().count_use({8});
    client.index().insert(key, {8});
    client.holds().hold({7}, 1, {1}, {}, {});
  };
  EXPECT_EQ(signal_of(works), 0);
  EXPECT_EQ(slots.check({8}, leased, key, 100), page_status::hit);
}

} // namespace
} // namespace peercache::storage::pool_protection_test
