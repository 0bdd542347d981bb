// Tests of what disk_io does in cases that only real file systems and kernels can show.

#include "storage/disk/io/posix_disk_io.hpp"
#include "storage/disk/io/uring_disk_io.hpp"
#include "tests/storage/device/device_folder.hpp"
#include "tests/storage/disk/io/disk_io_rig.hpp"

#include <gmock/gmock.h>

#include <cerrno>
#include <csignal>
#include <fstream>
#include <functional>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

namespace peercache::storage {
namespace {

using testing::HasSubstr;
using kind = disk_request::kind;
constexpr std::uint32_t block = disk_block_bytes;

/// A posix_disk_io and, where the kernel has io_uring, a uring_disk_io over the same folder.
std::vector<std::unique_ptr<disk_io>> versions(const std::string& folder) {
  std::vector<std::unique_ptr<disk_io>> made;
  made.push_back(std::make_unique<posix_disk_io>(*open_folder(folder), 8));
  auto opened = open_folder(folder);
  if (auto ring = uring_disk_io::make(*opened, 8))
    made.push_back(std::move(*ring));
  return made;
}

/// Runs `what` in a child process. Returns what `what` returned: a text without line breaks.
std::string said_by_child(const std::function<std::string()>& what) {
  int pipe_ends[2];
  EXPECT_EQ(::pipe(pipe_ends), 0);
  const auto child = ::fork();
  if (child == 0) {
    const auto text = what();
    const auto written = ::write(pipe_ends[1], text.data(), text.size());
    ::_exit(written == static_cast<ssize_t>(text.size()) ? 0 : 1);
  }
  ::close(pipe_ends[1]);
  std::string text(4096, '\0');
  const auto bytes = ::read(pipe_ends[0], text.data(), text.size());
  ::close(pipe_ends[0]);
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  text.resize(bytes < 0 ? 0 : static_cast<std::size_t>(bytes));
  return text;
}

/// Makes io_uring_setup fail with this errno for the rest of this process, as a container's seccomp
/// filter does.
bool forbid_io_uring(int error_number) {
  sock_filter rules[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0), // Loads the number of the system call.
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_io_uring_setup, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | static_cast<unsigned>(error_number)),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
  sock_fprog program{static_cast<unsigned short>(std::size(rules)), rules};
  return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

/// Writes a block through `open_disk` and reads it back. Returns a text such as "posix: works (<why
/// io_uring is not used>)", or an error.
std::string opened_and_tried(const std::string& folder) {
  auto opened = open_disk(folder, 8);
  if (!opened)
    return to_string(opened.error());
  auto& io = *opened->io;
  disk_io_driver driver(io);
  const block_memory memory(2 * block);
  memory.fill(0, block, 1);
  const auto file = io.create("tried", block);
  const bool works = file && driver.write(*file, 0, memory.part(0, block)) == 0 &&
                     driver.sync(*file) == 0 && io.sync_folder("") &&
                     driver.read(*file, 0, memory.part(block, block)) == 0 &&
                     same(memory.part(0, block), memory.part(block, block));
  if (file)
    io.close(*file);
  const bool gone = static_cast<bool>(io.remove("tried"));
  return std::string(io.name()) + (works && gone ? ": works (" : ": broken (") +
         opened->why_fallback + ")";
}

TEST(open_disk, takes_io_uring_or_says_why_not) {
  const device_folder folder;
  EXPECT_THAT(opened_and_tried(folder.path("a/b/c")),
              testing::AnyOf("io_uring: works ()",
                             testing::MatchesRegex("posix: works \\(.*io_uring.*\\)")));
}

TEST(open_disk, takes_blocking_calls_where_io_uring_is_forbidden_or_missing) {
  const device_folder folder;
  const auto tried = [&](int error_number) {
    return said_by_child([&] {
      return forbid_io_uring(error_number) ? opened_and_tried(folder.path()) : "no seccomp";
    });
  };
  EXPECT_THAT(tried(EPERM), HasSubstr("posix: works (io_uring is forbidden"));
  EXPECT_EQ(tried(ENOSYS), "posix: works (this kernel has no io_uring)");
  EXPECT_THAT(tried(ENOMEM), HasSubstr("LimitMEMLOCK"));
  EXPECT_THAT(tried(EMFILE), HasSubstr("posix: works (io_uring_setup failed"));
}

TEST(open_disk, says_why_a_folder_cannot_be_or_takes_no_files) {
  const device_folder folder;
  std::ofstream(folder.path("file")) << "no folder";
  EXPECT_EQ(open_disk(folder.path("file"), 8).error().code, errc::invalid_argument);
  EXPECT_EQ(open_disk(folder.path("file/below"), 8).error().code, errc::invalid_argument);
  const auto nowhere = open_disk("/proc/peercache", 8);
  ASSERT_FALSE(nowhere);
  EXPECT_THAT(nowhere.error().message, HasSubstr("/proc/peercache"));
  const auto no_files = open_disk("/proc", 8);
  ASSERT_FALSE(no_files);
  EXPECT_THAT(no_files.error().message, HasSubstr("/proc"));
}

TEST(open_disk, leaves_nothing_behind_in_the_folder) {
  const device_folder folder;
  const auto opened = open_disk(folder.path(), 8);
  ASSERT_TRUE(opened);
  EXPECT_TRUE(opened->io->list("")->empty());
}

TEST(device_disk_io, links_are_neither_followed_nor_listed) {
  const device_folder folder;
  const device_folder outside;
  std::ofstream(outside.path("precious")) << "precious";
  std::filesystem::create_symlink(outside.path("precious"), folder.path("to_file"));
  std::filesystem::create_symlink(outside.path(), folder.path("to_folder"));
  for (const auto& io : versions(folder.path())) {
    std::byte one{};
    EXPECT_FALSE(io->open("to_file"));
    EXPECT_FALSE(io->create("to_file", block));
    EXPECT_FALSE(io->read_now("to_file", 0, {&one, 1}));
    EXPECT_FALSE(io->open("to_folder/precious"));
    EXPECT_FALSE(io->read_now("to_folder/precious", 0, {&one, 1}));
    EXPECT_FALSE(io->create("to_folder/new", block));
    EXPECT_FALSE(io->remove("to_folder/precious"));
    EXPECT_FALSE(io->list("to_folder"));
    EXPECT_FALSE(io->make_folder("to_folder"));
    EXPECT_TRUE(io->list("")->empty());
  }
  EXPECT_TRUE(std::filesystem::exists(outside.path("precious")));
  EXPECT_FALSE(std::filesystem::exists(outside.path("new")));
}

TEST(device_disk_io, a_pipe_in_a_files_place_is_refused_and_blocks_nobody) {
  const device_folder folder;
  ASSERT_EQ(::mkfifo(folder.path("pipe").c_str(), 0600), 0);
  for (const auto& io : versions(folder.path())) {
    EXPECT_FALSE(io->open("pipe"));
    std::byte one{};
    const auto read = io->read_now("pipe", 0, {&one, 1});
    EXPECT_TRUE(!read || *read == 0);
  }
}

TEST(device_disk_io, files_are_their_owners_only_and_have_their_room_at_once) {
  const device_folder folder;
  for (const auto& io : versions(folder.path())) {
    const std::string name(io->name());
    ASSERT_TRUE(io->create(name, 256 * block));
    struct stat about {};
    ASSERT_EQ(::stat(folder.path(name).c_str(), &about), 0);
    EXPECT_EQ(about.st_mode & 0777u, 0600u);
    EXPECT_EQ(about.st_size, 256 * block);
    EXPECT_GE(about.st_blocks * 512, 256 * block) << "the room is real";
  }
}

/// The kernel writes only a part of a write that crosses the limit of a file's length, without an
/// error; only a write of the rest returns the error.
TEST(device_disk_io, the_rest_of_a_short_write_is_asked_for) {
  const device_folder folder;
  for (const auto& io : versions(folder.path())) {
    const auto file = *io->create(std::string(io->name()), 0);
    const block_memory memory(16 * block);
    memory.fill(1);
    rlimit before{};
    ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
    const auto old_action = ::signal(SIGXFSZ, SIG_IGN);
    const rlimit low{8 * block, before.rlim_max};
    ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &low), 0);
    const int answer = disk_io_driver(*io).write(file, 0, memory.all());
    ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
    ::signal(SIGXFSZ, old_action);
    EXPECT_EQ(answer, EFBIG) << io->name();
    EXPECT_EQ(*io->bytes_of(file), 8 * block) << io->name();
  }
}

TEST(device_disk_io, what_one_version_wrote_the_other_reads) {
  const device_folder folder;
  const auto made = versions(folder.path());
  const block_memory written(64 * block);
  const block_memory read(64 * block);
  for (std::size_t i = 0; i < made.size(); ++i) {
    const auto name = "f" + std::to_string(i);
    written.fill(static_cast<unsigned>(i));
    auto& other = *made[(i + 1) % made.size()];
    ASSERT_EQ(disk_io_driver(*made[i]).write(*made[i]->create(name, 64 * block), 0, written.all()),
              0);
    EXPECT_EQ(disk_io_driver(other).read(*other.open(name), 0, read.all()), 0);
    EXPECT_TRUE(same(written.all(), read.all()));
    EXPECT_EQ(*other.read_now(name, 0, read.all()), read.size());
    EXPECT_TRUE(same(written.all(), read.all()));
  }
}

TEST(device_disk_io, more_files_than_the_rings_table_has_places_are_kept_apart) {
  rlimit files{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &files), 0);
  constexpr std::uint32_t count = 1100;
  const rlimit more{std::max<rlim_t>(files.rlim_cur, count + 100), files.rlim_max};
  if (::setrlimit(RLIMIT_NOFILE, &more) != 0)
    GTEST_SKIP() << "this process may not have " << count << " files open";
  const device_folder folder;
  for (const auto& io : versions(folder.path())) {
    ASSERT_TRUE(io->make_folder(std::string(io->name())));
    disk_io_driver driver(*io);
    const block_memory memory(block);
    std::vector<disk_file> open;
    for (std::uint32_t i = 0; i < count; ++i)
      open.push_back(*io->create(std::string(io->name()) + "/" + std::to_string(i), 0));
    const std::uint32_t some[] = {0, 1, 1022, 1023, 1024, 1025, count - 1};
    for (const auto i : some) {
      std::memcpy(memory.data(), &i, sizeof(i));
      ASSERT_EQ(driver.write(open[i], 0, memory.all()), 0);
    }
    for (const auto i : some) {
      ASSERT_EQ(driver.read(open[i], 0, memory.all()), 0);
      EXPECT_EQ(std::memcmp(memory.data(), &i, sizeof(i)), 0) << i;
    }
  }
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &files), 0);
}

/// Tests that fill a file system of one MiB; skipped where this process may not mount one.
class full_device : public testing::Test {
protected:
  void SetUp() override {
    if (::mount("peercache", folder.path().c_str(), "tmpfs", 0, "size=1m") != 0)
      GTEST_SKIP() << "mounting needs root";
    mounted = true;
  }
  void TearDown() override {
    if (mounted)
      ::umount2(folder.path().c_str(), MNT_DETACH);
  }

  device_folder folder;
  bool mounted = false;
};

TEST_F(full_device, refuses_files_that_it_has_no_room_for_and_stays_usable) {
  for (const auto& io : versions(folder.path())) {
    const auto made = io->create("big", 2u << 20);
    ASSERT_FALSE(made);
    EXPECT_EQ(made.error().code, errc::out_of_space) << made.error().message;
    EXPECT_TRUE(io->list("")->empty()) << "what could not be had whole is gone";
    const auto file = io->create("small", 512u << 10);
    ASSERT_TRUE(file);
    EXPECT_LE(io->space()->free_bytes, 512u << 10);
    const block_memory memory(1u << 20);
    EXPECT_EQ(disk_io_driver(*io).write(*file, 512u << 10, memory.all()), ENOSPC) << io->name();
    EXPECT_EQ(disk_io_driver(*io).write(*file, 0, memory.part(0, 512u << 10)), 0);
    io->close(*file);
    ASSERT_TRUE(io->remove("small"));
  }
}

TEST_F(full_device, can_be_opened_when_it_is_full) {
  const auto first = open_disk(folder.path(), 8);
  ASSERT_TRUE(first);
  ASSERT_TRUE(first->io->create("all", first->io->space()->free_bytes));
  const auto second = open_disk(folder.path(), 8);
  ASSERT_TRUE(second) << to_string(second.error());
  EXPECT_EQ(second->io->list("")->size(), 1u);
}

TEST(uring_disk_io, memory_beyond_the_limit_of_locked_memory_is_used_unregistered) {
  const device_folder folder;
  auto opened = open_folder(folder.path());
  if (!uring_disk_io::make(*opened, 8))
    GTEST_SKIP() << "no io_uring";
  const auto said = said_by_child([&]() -> std::string {
    const rlimit none{0, 0};
    // The child becomes the user nobody, because root may lock any amount of memory.
    if (::chown(folder.path().c_str(), 65534, 65534) != 0 ||
        ::setrlimit(RLIMIT_MEMLOCK, &none) != 0 || (::getuid() == 0 && ::setuid(65534) != 0))
      return "cannot become nobody";
    auto own = open_folder(folder.path());
    if (!own)
      return to_string(own.error());
    auto ring = uring_disk_io::make(*own, 8);
    if (!ring)
      return to_string(ring.error());
    auto& io = **ring;
    const block_memory memory(64 * block);
    const auto registered = io.register_memory(memory.all());
    const auto file = io.create("a", 64 * block);
    if (!file || disk_io_driver(io).write(*file, 0, memory.all()) != 0)
      return "broken";
    return registered ? "registered" : to_string(registered.error());
  });
  if (said == "cannot become nobody" || said.find("ermission") != std::string::npos)
    GTEST_SKIP() << said;
  EXPECT_THAT(said, HasSubstr("LimitMEMLOCK"));
}

} // namespace
} // namespace peercache::storage
