#include "storage/disk/folder_claim.hpp"

#include "tests/storage/device/device_folder.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <sys/wait.h>
#include <thread>

namespace peercache::storage {
namespace {

using testing::HasSubstr;

const folder_owner us{"cluster", "node-1"};

std::string text_of(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

void expect_refused(const std::string& folder, const folder_owner& owner, errc code,
                    const std::vector<std::string>& words) {
  const auto claim = folder_claim::take(folder, owner);
  ASSERT_FALSE(claim);
  EXPECT_EQ(claim.error().code, code) << claim.error().message;
  for (const auto& word : words)
    EXPECT_THAT(claim.error().message, HasSubstr(word));
  if (code == errc::invalid_argument)
    return; // Invalid names and paths are for `take` only; `look` does not check them.
  const auto looked = folder_claim::look(folder, owner);
  ASSERT_FALSE(looked);
  EXPECT_EQ(looked.error().code, code);
  EXPECT_EQ(looked.error().message, claim.error().message);
}

/// A child process that has claimed the folder until it is killed.
class holder {
public:
  explicit holder(const std::string& folder) {
    int ready[2];
    EXPECT_EQ(::pipe(ready), 0);
    pid_ = ::fork();
    if (pid_ == 0) {
      const auto claim = folder_claim::take(folder, us);
      const char answer = claim ? 'y' : 'n';
      if (::write(ready[1], &answer, 1) == 1)
        ::pause();
      ::_exit(0);
    }
    char answer = 0;
    EXPECT_EQ(::read(ready[0], &answer, 1), 1);
    EXPECT_EQ(answer, 'y');
    ::close(ready[0]);
    ::close(ready[1]);
  }
  ~holder() { kill_hard(); }

  void kill_hard() {
    if (pid_ > 0) {
      ::kill(pid_, SIGKILL);
      ::waitpid(pid_, nullptr, 0);
    }
    pid_ = -1;
  }
  pid_t pid() const { return pid_; }

private:
  pid_t pid_ = -1;
};

TEST(folder_claim, a_look_makes_nothing_and_leaves_the_folder_free) {
  const device_folder place;
  const auto folder = place.path("tier");
  EXPECT_TRUE(folder_claim::look(folder, us));
  EXPECT_FALSE(std::filesystem::exists(folder));
  std::filesystem::create_directory(folder);
  EXPECT_TRUE(folder_claim::look(folder, us));
  EXPECT_TRUE(std::filesystem::is_empty(folder));
  { EXPECT_TRUE(folder_claim::take(folder, us)); }
  const auto before = text_of(folder + "/disk.lock");
  EXPECT_TRUE(folder_claim::look(folder, us));
  EXPECT_EQ(text_of(folder + "/disk.lock"), before);
  EXPECT_TRUE(folder_claim::take(folder, us)) << "the look holds no lock afterwards";
}

TEST(folder_claim, a_claim_is_not_refused_because_somebody_looks) {
  const device_folder place;
  ASSERT_TRUE(folder_claim::take(place.path(), us));
  std::atomic<bool> ended = false;
  std::thread looker([&] {
    while (!ended)
      (void)folder_claim::look(place.path(), us);
  });
  for (int i = 0; i < 500; ++i) {
    const auto claim = folder_claim::take(place.path(), us);
    EXPECT_TRUE(claim) << i;
  }
  ended = true;
  looker.join();
}

TEST(folder_claim, a_look_does_not_take_a_lock_that_it_cannot_read_for_a_free_one) {
  const device_folder place;
  ASSERT_TRUE(folder_claim::take(place.path(), us));
  std::filesystem::remove(place.path("disk.lock"));
  EXPECT_TRUE(folder_claim::look(place.path(), us));
  std::filesystem::create_symlink("elsewhere", place.path("disk.lock"));
  EXPECT_FALSE(folder_claim::look(place.path(), us));
}

TEST(folder_claim, whose_folder_it_is_can_be_asked_while_it_is_held) {
  const device_folder place;
  EXPECT_FALSE(folder_claim::is_owned_by(place.path(), us));
  const auto claim = folder_claim::take(place.path(), us);
  EXPECT_TRUE(folder_claim::is_owned_by(place.path(), us));
  EXPECT_FALSE(folder_claim::is_owned_by(place.path(), {"other", us.node}));
  EXPECT_FALSE(folder_claim::is_owned_by(place.path(), {us.cluster, "node-2"}));
}

TEST(folder_claim, a_new_folder_is_made_and_belongs_to_its_first_node_for_good) {
  const device_folder place;
  const auto folder = place.path("deep/er/folder");
  for (int i = 0; i < 3; ++i) {
    const auto claim = folder_claim::take(folder, us);
    ASSERT_TRUE(claim) << to_string(claim.error());
    EXPECT_EQ(text_of(folder + "/disk.owner"), "peercache disk 1\ncluster=cluster\nnode=node-1\n");
  }
  using std::filesystem::perms;
  EXPECT_EQ(std::filesystem::status(folder).permissions() & (perms::group_all | perms::others_all),
            perms::none);
}

TEST(folder_claim, the_same_process_cannot_claim_a_folder_twice) {
  const device_folder place;
  {
    const auto claim = folder_claim::take(place.path(), us);
    ASSERT_TRUE(claim);
    expect_refused(place.path(), us, errc::refused,
                   {place.path(), "node-1", std::to_string(::getpid()), "disk.path"});
  }
  EXPECT_TRUE(folder_claim::take(place.path(), us));
}

TEST(folder_claim, a_second_process_hears_who_holds_the_folder_until_that_one_is_killed) {
  const device_folder place;
  holder other(place.path());
  expect_refused(place.path(), us, errc::refused,
                 {"node-1", "process " + std::to_string(other.pid()), "disk.path"});
  expect_refused(place.path(), {"cluster", "node-2"}, errc::refused, {"node-1"});
  other.kill_hard();
  EXPECT_TRUE(folder_claim::take(place.path(), us));
}

TEST(folder_claim, another_nodes_or_clusters_folder_is_refused_and_left_as_it_is) {
  const device_folder place;
  ASSERT_TRUE(folder_claim::take(place.path(), us));
  const auto before = text_of(place.path("disk.owner"));
  expect_refused(place.path(), {"cluster", "node-2"}, errc::incompatible,
                 {"node-1", "node-2", "disk.path"});
  expect_refused(place.path(), {"other", "node-1"}, errc::incompatible, {"cluster", "other"});
  EXPECT_EQ(text_of(place.path("disk.owner")), before);
  EXPECT_TRUE(folder_claim::take(place.path(), us)) << "who is refused holds no lock";
}

TEST(folder_claim, an_owner_file_that_is_damaged_or_of_another_version_is_refused) {
  const device_folder place;
  ASSERT_TRUE(folder_claim::take(place.path(), us));
  const auto good = text_of(place.path("disk.owner"));
  for (const auto& text :
       {std::string(), good.substr(0, good.size() - 1), good + "more\n", "x" + good,
        std::string("peercache disk 2\ncluster=cluster\nnode=node-1\n"),
        std::string("peercache disk 1x\ncluster=cluster\nnode=node-1\n"),
        good + std::string(10000, 'x')}) {
    std::ofstream(place.path("disk.owner")) << text;
    expect_refused(place.path(), us, errc::incompatible, {"disk.owner", "disk.path"});
  }
  std::ofstream(place.path("disk.owner")) << good;
  EXPECT_TRUE(folder_claim::take(place.path(), us));
}

TEST(folder_claim, an_owner_file_that_was_not_finished_is_written_again) {
  const device_folder place;
  std::ofstream(place.path("disk.owner.new")) << "peercache dis";
  ASSERT_TRUE(folder_claim::take(place.path(), us));
  EXPECT_FALSE(std::filesystem::exists(place.path("disk.owner.new")));
  expect_refused(place.path(), {"cluster", "node-2"}, errc::incompatible, {"node-1"});
}

TEST(folder_claim, where_no_folder_can_be_the_reason_is_said) {
  const device_folder place;
  std::ofstream(place.path("file")) << "no folder";
  expect_refused(place.path("file"), us, errc::invalid_argument, {place.path("file")});
  expect_refused(place.path("file/below"), us, errc::invalid_argument, {"file/below"});
  expect_refused(place.path("a"), {"two\nlines", "n"}, errc::invalid_argument, {"line break"});
}

TEST(folder_claim, a_link_in_the_place_of_the_folder_is_not_followed_and_one_above_it_is) {
  const device_folder folder;
  const std::string elsewhere = folder.path() + "/elsewhere";
  std::filesystem::create_directory(elsewhere);
  std::filesystem::create_directory_symlink(elsewhere, folder.path() + "/node-1");
  expect_refused(folder.path() + "/node-1", us, errc::incompatible, {"is a link", "disk.path"});
  EXPECT_TRUE(std::filesystem::is_empty(elsewhere));
  std::filesystem::create_directory_symlink(elsewhere, folder.path() + "/disk");
  EXPECT_TRUE(folder_claim::take(folder.path() + "/disk/node-1", us));
}

TEST(folder_claim, a_link_in_the_place_of_its_files_is_not_followed) {
  const device_folder place;
  std::ofstream(place.path("precious")) << "precious";
  for (const auto* name : {"disk.lock", "disk.owner.new"}) {
    const auto folder = place.path(std::string("with.") + name);
    std::filesystem::create_directories(folder);
    std::filesystem::create_symlink(place.path("precious"), folder + "/" + name);
    EXPECT_FALSE(folder_claim::take(folder, us)) << name;
    EXPECT_EQ(text_of(place.path("precious")), "precious");
  }
}

} // namespace
} // namespace peercache::storage
