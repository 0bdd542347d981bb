// Tests of which parts of a pool a client can write to.

#include "storage/pool_layout.hpp"
#include "storage/pool_memory.hpp"

#include <gtest/gtest.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <utility>
#include <vector>

namespace peercache::storage::pool_protection_test {
namespace {

constexpr std::uint64_t size_bytes = 8u << 20;

/// Returns the file descriptors of this process that refer to the pool's shared memory object.
std::vector<int> descriptors_of(const pool_memory& pool) {
  const auto& name = pool.name();
  struct stat object {};
  EXPECT_EQ(
      ::stat((name.find('/', 1) == std::string::npos ? "/dev/shm" + name : name).c_str(), &object),
      0);
  std::vector<int> found;
  for (const auto& each : std::filesystem::directory_iterator("/proc/self/fd")) {
    struct stat other {};
    const int file = std::stoi(each.path().filename());
    if (::fstat(file, &other) == 0 && other.st_dev == object.st_dev &&
        other.st_ino == object.st_ino)
      found.push_back(file);
  }
  return found;
}

/// Forks a process that maps the pool as a client does and calls `write`. Returns the signal that
/// ends the process, 0 when none does, -1 when it cannot map the pool.
int signal_after(const pool_memory& owner, const std::function<void(pool_memory&)>& write) {
  const auto process = ::fork();
  if (process == 0) {
    auto client = pool_memory::attach(owner.name(), owner.owner());
    if (!client)
      std::_Exit(1);
    // A sanitizer's handler would end the process by other means than the signal.
    std::signal(SIGSEGV, SIG_DFL);
    write(*client);
    std::_Exit(0);
  }
  int status = 0;
  EXPECT_EQ(::waitpid(process, &status, 0), process);
  return WIFSIGNALED(status) ? WTERMSIG(status) : -WEXITSTATUS(status);
}

class pool_protection : public testing::TestWithParam<const char*> {
protected:
  void SetUp() override {
    auto made =
        pool_memory::create({.name_prefix = "peercache-test-stray-" + std::to_string(::getpid()),
                             .node_name = "node",
                             .owner = incarnation::random(),
                             .size_bytes = size_bytes,
                             .huge_page_directory = GetParam(),
                             .huge_page_bytes = huge_page_bytes()});
    if (!made && *GetParam() != '\0')
      GTEST_SKIP() << made.error().message;
    ASSERT_TRUE(made) << made.error().message;
    owner_.emplace(std::move(*made));
    owner_->holds().limit(owner_->granules());
    auto slots = owner_->slots();
    slots.begin_fill(published_);
    gen_ = slots.publish(published_, key_, length_, 1);
    owner_->holds().open(published_);
    slots.begin_fill({0});
    slots.begin_fill(last());
  }
  static std::uint64_t huge_page_bytes() { return *GetParam() != '\0' ? 2u << 20 : 0; }
  slot_id last() const { return {owner_->granules() - 1}; }
  int signal_after(const std::function<void(pool_memory&)>& write) const {
    return storage::pool_protection_test::signal_after(*owner_, write);
  }
  /// Returns the byte at `offset` of a client's mapping.
  static std::byte& byte_at(pool_memory& client, std::uint64_t offset) {
    const auto behind = plan_layout(size_bytes, huge_page_bytes())->table_offset;
    return *(client.readable_region().data() - behind + offset);
  }

  std::optional<pool_memory> owner_;
  static constexpr slot_id published_{7};
  static constexpr std::uint32_t length_ = 100;
  page_key key_;
  generation gen_;
};

TEST_P(pool_protection, a_client_that_writes_what_only_the_node_may_write_ends) {
  const auto plan = *plan_layout(size_bytes, huge_page_bytes());
  for (const auto offset :
       {std::uint64_t{0}, plan.index_offset - 1, plan.table_offset, plan.pages_offset - 1})
    EXPECT_EQ(signal_after([&](auto& client) { byte_at(client, offset) = std::byte{1}; }), SIGSEGV)
        << offset;
  EXPECT_EQ(signal_after([](auto& client) { client.epochs().close(); }), SIGSEGV);
  EXPECT_EQ(signal_after([](auto& client) { client.note().write("a note"); }), SIGSEGV);
  EXPECT_EQ(signal_after([](auto& client) { client.slots().give_up(published_); }), SIGSEGV);
  EXPECT_EQ(signal_after([](auto& client) { client.holds().limit(0); }), SIGSEGV);
  EXPECT_EQ(owner_->holds().granules_max(), owner_->granules());
  EXPECT_EQ(owner_->slots().check(published_, gen_, key_, length_), page_status::hit);
}

TEST_P(pool_protection, a_client_writes_all_that_clients_have_to_write) {
  const auto plan = *plan_layout(size_bytes, huge_page_bytes());
  const auto leased = owner_->slots().contents({0}).gen;
  const auto uses_all = [&](pool_memory& client) {
    for (const auto offset :
         {plan.index_offset, plan.table_offset - 1, plan.pages_offset, plan.object_bytes - 1})
      byte_at(client, offset) = std::byte{0};
    for (const auto slot : {slot_id{0}, last()}) {
      client.slots().bytes(slot, length_)[0] = std::byte{1};
      client.slots().fill(slot, key_, length_, 1);
      client.slots().count_use(slot);
      if (!client.index().insert(key_, slot))
        std::_Exit(2);
    }
    const auto now = std::chrono::steady_clock::now();
    if (client.holds().hold(published_, 1, {1}, now, now + std::chrono::seconds(9)) !=
        hold_outcome::held)
      std::_Exit(3);
  };
  EXPECT_EQ(signal_after(uses_all), 0);
  EXPECT_EQ(owner_->slots().check({0}, leased, key_, length_), page_status::hit);
  EXPECT_EQ(owner_->slots().take_uses({0}), 1u);
}

TEST_P(pool_protection, what_a_client_has_read_only_cannot_be_made_writable) {
  const auto plan = *plan_layout(size_bytes, huge_page_bytes());
  const auto opens = [&](pool_memory& client) {
    const auto open = [&client](std::uint64_t from, std::uint64_t to) {
      return ::mprotect(&byte_at(client, from), to - from, PROT_READ | PROT_WRITE) == 0 ||
             errno != EACCES;
    };
    if (open(0, plan.index_offset) || open(plan.table_offset, plan.pages_offset))
      std::_Exit(2);
  };
  EXPECT_EQ(signal_after(opens), 0);
}

TEST_P(pool_protection, a_client_with_a_session_has_no_descriptor_of_the_pool) {
  const auto own = descriptors_of(*owner_);
  ASSERT_EQ(own.size(), 1u) << "the node's";
  {
    auto client = pool_memory::attach(owner_->name(), owner_->owner());
    ASSERT_TRUE(client) << client.error().message;
    ASSERT_TRUE(client->lock_session(0));
    EXPECT_EQ(descriptors_of(*owner_), own);
    EXPECT_TRUE(owner_->session_is_held(0)) << "its mapping keeps the lock";
    EXPECT_FALSE(owner_->session_is_dead(0));
  }
  EXPECT_FALSE(owner_->session_is_held(0)) << "the lock ends with the mapping";
  const auto shortens = [&](pool_memory& client) {
    if (!client.lock_session(0))
      std::_Exit(2);
    for (const int file : descriptors_of(client))
      if (::ftruncate(file, 0) == 0)
        std::_Exit(3);
  };
  EXPECT_EQ(signal_after(shortens), 0);
  const auto whole = owner_->check_object();
  EXPECT_TRUE(whole) << whole.error().message;
}

INSTANTIATE_TEST_SUITE_P(of, pool_protection, testing::Values("", "/dev/hugepages"),
                         [](const auto& info) {
                           return std::string(*info.param == '\0' ? "shm" : "huge_pages");
                         });

} // namespace
} // namespace peercache::storage::pool_protection_test
