#include "storage/pool_memory.hpp"

#include "common/test_guards.hpp"
#include "storage/shared_object.hpp"
#include "tests/storage/pool_options.hpp"
#include "tests/support/qemu_user.hpp"

#include <gtest/gtest.h>

#include <array>
#include <csignal>
#include <fcntl.h>
#include <filesystem>
#include <optional>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

namespace peercache::storage::pool_memory_test {
namespace {

bool exists(const std::string& name) {
  return std::filesystem::exists("/dev/shm" + name);
}

/// A forked process that runs `body`, reports that it has done so, and then waits to be killed.
class child_process {
public:
  template <class Body>
  explicit child_process(Body body) {
    int ready[2];
    EXPECT_EQ(::pipe(ready), 0);
    process_ = ::fork();
    if (process_ == 0) {
      char answer = body() ? 'y' : 'n';
      [[maybe_unused]] auto written = ::write(ready[1], &answer, 1);
      for (;;)
        ::pause();
    }
    ::close(ready[1]);
    char answer = 'n';
    EXPECT_EQ(::read(ready[0], &answer, 1), 1);
    ::close(ready[0]);
    succeeded_ = answer == 'y';
  }
  ~child_process() { kill_and_wait(); }

  bool succeeded() const { return succeeded_; }

  void stop() {
    ::kill(process_, SIGSTOP);
    int status = 0;
    ASSERT_EQ(::waitpid(process_, &status, WUNTRACED), process_);
    ASSERT_TRUE(WIFSTOPPED(status));
  }

  void kill_and_wait() {
    if (process_ <= 0)
      return;
    ::kill(process_, SIGKILL);
    ::waitpid(process_, nullptr, 0);
    process_ = -1;
  }

private:
  pid_t process_ = -1;
  bool succeeded_ = false;
};

TEST(pool_memory, a_client_maps_the_same_bytes) {
  auto owner = pool_memory::create(options_for("map"));
  ASSERT_TRUE(owner) << owner.error().message;
  auto client = pool_memory::attach(owner->name(), owner->owner());
  ASSERT_TRUE(client) << client.error().message;
  EXPECT_EQ(client->granules(), 2048u);
  client->slots().bytes({2047}, 4096).back() = std::byte{42};
  EXPECT_EQ(owner->slots().bytes({2047}, 4096).back(), std::byte{42});
  client->slots().count_use({7});
  EXPECT_EQ(owner->slots().take_uses({7}), 1u);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(client->slots().bytes({1}, 1).data()) % 4096, 0u);
}

TEST(pool_memory, only_its_user_may_open_it) {
  auto mask = ::umask(0);
  auto owner = pool_memory::create(options_for("mode"));
  ::umask(mask);
  ASSERT_TRUE(owner);
  struct stat status {};
  ASSERT_EQ(::stat(("/dev/shm" + owner->name()).c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0600u);
}

TEST(pool_memory, the_name_goes_with_the_owner_and_the_bytes_stay_with_the_client) {
  std::optional<pool_memory> client;
  {
    auto owner = pool_memory::create(options_for("gone"));
    ASSERT_TRUE(owner);
    owner->slots().bytes({5}, 1)[0] = std::byte{9};
    auto attached = pool_memory::attach(owner->name(), owner->owner());
    ASSERT_TRUE(attached);
    client.emplace(std::move(*attached));
  }
  EXPECT_FALSE(exists(client->name()));
  EXPECT_EQ(client->slots().bytes({5}, 1)[0], std::byte{9});
  EXPECT_EQ(pool_memory::attach(client->name(), client->owner()).error().code, errc::not_found);
}

TEST(pool_memory, another_incarnation_is_refused_and_without_the_guard_it_is_not) {
  auto owner = pool_memory::create(options_for("incarnation"));
  ASSERT_TRUE(owner);
  auto other = incarnation::random();
  EXPECT_EQ(pool_memory::attach(owner->name(), other).error().code, errc::not_found);
  guard_switched_off off(guard::incarnation);
  EXPECT_TRUE(pool_memory::attach(owner->name(), other));
}

TEST(pool_memory, a_foreign_object_is_incompatible) {
  auto name = "/" + options_for("foreign").name_prefix;
  auto file = shared_object::create_locked(name);
  ASSERT_TRUE(file);
  EXPECT_EQ(pool_memory::attach(name, {}).error().code, errc::incompatible);
  ASSERT_EQ(::ftruncate(*file, 1 << 20), 0);
  EXPECT_EQ(pool_memory::attach(name, {}).error().code, errc::incompatible);
  ::close(*file);
  shared_object::unlink(name);
}

TEST(pool_memory, a_header_whose_sizes_lie_is_incompatible) {
  auto owner = pool_memory::create(options_for("sizes"));
  ASSERT_TRUE(owner);
  ASSERT_EQ(::truncate(("/dev/shm" + owner->name()).c_str(), 1 << 20), 0);
  EXPECT_EQ(pool_memory::attach(owner->name(), owner->owner()).error().code, errc::incompatible);
}

TEST(pool_memory, leftovers_of_a_killed_owner_are_cleaned_and_living_pools_are_not) {
  auto options = options_for("leftover");
  auto crashed = options;
  crashed.owner = incarnation::random();
  std::optional<pool_memory> made;
  child_process node([&] {
    auto pool = pool_memory::create(crashed);
    if (pool)
      made.emplace(std::move(*pool));
    return made.has_value();
  });
  ASSERT_TRUE(node.succeeded());
  auto name = [&](const incarnation& owner) {
    return "/" + options.name_prefix + "-node_1_a-" + to_string(owner);
  };
  ASSERT_TRUE(exists(name(crashed.owner)));
  EXPECT_EQ(pool_memory::remove_leftovers(options), 0u);
  node.stop();
  EXPECT_EQ(pool_memory::remove_leftovers(options), 0u);
  node.kill_and_wait();
  EXPECT_TRUE(exists(name(crashed.owner)));
  auto next = pool_memory::create(options);
  ASSERT_TRUE(next);
  EXPECT_FALSE(exists(name(crashed.owner)));
  EXPECT_TRUE(exists(name(options.owner)));
}

std::uint64_t memory_of(int file) {
  struct stat status {};
  EXPECT_EQ(::fstat(file, &status), 0);
  return static_cast<std::uint64_t>(status.st_blocks) * 512;
}

TEST(pool_memory, the_memory_of_a_dead_owner_is_free_at_once_also_while_others_map_it) {
  auto options = options_for("punched");
  auto crashed = options;
  crashed.owner = incarnation::random();
  std::optional<pool_memory> made;
  child_process node([&] {
    auto pool = pool_memory::create(crashed);
    if (!pool)
      return false;
    made.emplace(std::move(*pool));
    auto slots = made->slots();
    slots.begin_fill({3});
    slots.bytes({3}, 4096)[17] = std::byte{9};
    return slots.publish({3}, key_space{}.key_of("page"), 4096, 0) == generation{2};
  });
  ASSERT_TRUE(node.succeeded());
  auto name = "/" + options.name_prefix + "-node_1_a-" + to_string(crashed.owner);
  auto engine = pool_memory::attach(name, crashed.owner);
  ASSERT_TRUE(engine) << engine.error().message;
  auto watched = shared_object::open(name, O_RDONLY);
  ASSERT_GE(watched, 0);
  node.kill_and_wait();
  if (!under_qemu_user()) {
    // qemu-user does not prefault memory (MADV_POPULATE_WRITE).
    EXPECT_GE(memory_of(watched), options.size_bytes);
  }
  EXPECT_EQ(engine->slots().check({3}, {2}, key_space{}.key_of("page"), 4096), page_status::hit);
  EXPECT_EQ(pool_memory::remove_leftovers(options), 1u);
  EXPECT_EQ(memory_of(watched), 0u);
  EXPECT_EQ(engine->slots().check({3}, {2}, key_space{}.key_of("page"), 4096), page_status::stale);
  EXPECT_EQ(engine->slots().contents({3}).gen, generation{});
  ::close(watched);
}

TEST(pool_memory, files_of_others_that_have_such_names_stay_as_they_are) {
  auto options = options_for("others");
  auto text = "/" + options.name_prefix + "-notes.txt";
  auto large = "/" + options.name_prefix + "-node_1_a-" + to_string(incarnation::random());
  for (const auto& name : {text, large}) {
    auto file = shared_object::open(name, O_RDWR | O_CREAT);
    ASSERT_GE(file, 0);
    ASSERT_EQ(::pwrite(file, "not ours", 8, 0), 8);
    ASSERT_EQ(::ftruncate(file, name == large ? 1 << 20 : 8), 0);
    ::close(file);
  }
  auto folder = "/dev/shm/" + options.name_prefix + "-folder";
  ASSERT_TRUE(std::filesystem::create_directory(folder));
  EXPECT_EQ(pool_memory::remove_leftovers(options), 0u);
  auto next = pool_memory::create(options);
  ASSERT_TRUE(next) << next.error().message;
  EXPECT_TRUE(std::filesystem::exists(folder));
  std::filesystem::remove(folder);
  for (const auto& name : {text, large}) {
    std::array<char, 8> content{};
    auto file = shared_object::open(name, O_RDONLY);
    ASSERT_GE(file, 0) << name;
    EXPECT_EQ(::pread(file, content.data(), content.size(), 0), 8);
    EXPECT_EQ(std::string(content.data(), content.size()), "not ours");
    ::close(file);
    shared_object::unlink(name);
  }
}

TEST(pool_memory, what_a_crash_before_the_end_of_the_touching_leaves_is_cleaned) {
  auto options = options_for("unfinished");
  auto crashed = options;
  crashed.owner = incarnation::random();
  // The pool is so large that it is unmapped in more than one step.
  crashed.size_bytes = 200u << 20;
  pid_t node = ::fork();
  if (node == 0) {
    crashed.on_progress = [](std::uint64_t, std::uint64_t) { ::_exit(0); };
    [[maybe_unused]] auto pool = pool_memory::create(crashed);
    ::_exit(1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(node, &status, 0), node);
  ASSERT_EQ(status, 0);
  auto name = "/" + options.name_prefix + "-node_1_a-" + to_string(crashed.owner);
  ASSERT_TRUE(exists(name));
  EXPECT_EQ(pool_memory::attach(name, crashed.owner).error().code, errc::incompatible);
  EXPECT_EQ(pool_memory::remove_leftovers(options), 1u);
  EXPECT_FALSE(exists(name));
}

TEST(pool_memory, a_stopped_client_is_alive_and_a_killed_one_is_dead) {
  auto owner = pool_memory::create(options_for("session"));
  ASSERT_TRUE(owner);
  EXPECT_TRUE(owner->session_is_dead(3));
  std::optional<pool_memory> client;
  child_process engine([&] {
    auto attached = pool_memory::attach(owner->name(), owner->owner());
    if (!attached || !attached->lock_session(3))
      return false;
    client.emplace(std::move(*attached));
    return true;
  });
  ASSERT_TRUE(engine.succeeded());
  EXPECT_FALSE(owner->session_is_dead(3));
  EXPECT_TRUE(owner->session_is_dead(4));
  engine.stop();
  EXPECT_FALSE(owner->session_is_dead(3));
  engine.kill_and_wait();
  EXPECT_TRUE(owner->session_is_dead(3));
}

TEST(pool_memory, a_session_is_held_by_who_has_the_pool_mapped_whatever_the_guard) {
  auto owner = pool_memory::create(options_for("held"));
  ASSERT_TRUE(owner);
  guard_switched_off off(guard::session_lock);
  EXPECT_FALSE(owner->session_is_held(3));
  {
    auto client = pool_memory::attach(owner->name(), owner->owner());
    ASSERT_TRUE(client);
    EXPECT_FALSE(owner->session_is_held(3)) << "nor by who has only mapped it";
    ASSERT_TRUE(client->lock_session(3));
    EXPECT_TRUE(owner->session_is_held(3));
    EXPECT_FALSE(owner->session_is_held(4));
  }
  EXPECT_FALSE(owner->session_is_held(3));
}

/// Whoever listens at a node's port can name a pool, and the pool's user gets to read all pages
/// that are put there. So a pool of another user must not be attached.
TEST(pool_memory, of_another_user_or_open_to_others_is_not_attached) {
  auto owner = pool_memory::create(options_for("squatter"));
  ASSERT_TRUE(owner);
  const auto path = "/dev/shm" + owner->name();
  for (const auto mode : {0666, 0602, 0640}) {
    ASSERT_EQ(::chmod(path.c_str(), static_cast<mode_t>(mode)), 0);
    EXPECT_EQ(pool_memory::attach(owner->name(), owner->owner()).error().code, errc::refused);
  }
  ASSERT_EQ(::chmod(path.c_str(), 0600), 0);
  EXPECT_TRUE(pool_memory::attach(owner->name(), owner->owner()));
  if (::geteuid() != 0)
    return; // Only root can give a file to another user.
  ASSERT_EQ(::chown(path.c_str(), 65534, 65534), 0);
  EXPECT_EQ(pool_memory::attach(owner->name(), owner->owner()).error().code, errc::refused);
}

TEST(pool_memory, one_session_index_has_one_holder_also_within_a_process) {
  auto owner = pool_memory::create(options_for("holder"));
  ASSERT_TRUE(owner);
  auto second = pool_memory::attach(owner->name(), owner->owner());
  ASSERT_TRUE(second);
  {
    auto first = pool_memory::attach(owner->name(), owner->owner());
    ASSERT_TRUE(first);
    ASSERT_TRUE(first->lock_session(0));
    EXPECT_EQ(second->lock_session(0).error().code, errc::refused);
    EXPECT_TRUE(second->lock_session(1));
    EXPECT_FALSE(owner->session_is_dead(0));
  }
  EXPECT_TRUE(owner->session_is_dead(0));
  EXPECT_EQ(second->lock_session(0).error().code, errc::refused) << "session 1 is its own";
  auto third = pool_memory::attach(owner->name(), owner->owner());
  ASSERT_TRUE(third);
  EXPECT_TRUE(third->lock_session(0));
}

TEST(pool_memory, without_the_session_lock_guard_a_living_client_looks_dead) {
  auto owner = pool_memory::create(options_for("guard"));
  ASSERT_TRUE(owner);
  auto client = pool_memory::attach(owner->name(), owner->owner());
  ASSERT_TRUE(client);
  ASSERT_TRUE(client->lock_session(0));
  EXPECT_FALSE(owner->session_is_dead(0));
  guard_switched_off off(guard::session_lock);
  EXPECT_TRUE(owner->session_is_dead(0));
}

TEST(pool_memory, more_than_there_is_and_no_huge_pages_are_errors_that_say_what_to_do) {
  auto options = options_for("errors");
  options.size_bytes = std::uint64_t{1} << 43;
  auto too_large = pool_memory::create(options);
  ASSERT_FALSE(too_large);
  EXPECT_EQ(too_large.error().code, errc::out_of_memory);
  EXPECT_NE(too_large.error().message.find("pool.size"), std::string::npos);
  options.size_bytes = 8u << 20;
  options.huge_page_directory = std::filesystem::temp_directory_path();
  options.huge_page_bytes = 2u << 20;
  auto not_huge = pool_memory::create(options);
  ASSERT_FALSE(not_huge);
  EXPECT_EQ(not_huge.error().code, errc::invalid_argument);
  EXPECT_NE(not_huge.error().message.find("hugetlbfs"), std::string::npos);
  options.huge_page_directory.clear();
  options.huge_page_bytes = 0;
  options.size_bytes = 100;
  EXPECT_EQ(pool_memory::create(options).error().code, errc::invalid_argument);
}

} // namespace
} // namespace peercache::storage::pool_memory_test
