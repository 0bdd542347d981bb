#include "net/host_socket.hpp"
#include "net/socket_names.hpp"

#include <array>
#include <cstdlib>
#include <ctime>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <gmock/gmock.h>
#include <optional>
#include <string>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <utility>
#include <vector>

namespace peercache::net::host_socket_test {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

constexpr uid_t somebody = 65534;

/// A temporary folder for Unix sockets, which the environment names to nodes and clients of this
/// process.
class host_socket_test : public testing::Test {
protected:
  void SetUp() override {
    std::string name = "/tmp/peercache-sock-XXXXXX";
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    folder = name;
    ::setenv(host_socket_variable, sockets().c_str(), 1);
  }
  void TearDown() override {
    ::unsetenv(host_socket_variable);
    fs::remove_all(folder);
  }

  std::string sockets() const { return folder + "/sockets"; }
  result<host_socket> node_at(const std::string& bind, std::uint16_t port,
                              const std::string& advertised = {},
                              std::optional<gid_t> group = {}) const {
    return host_socket::listen(
        {sockets(), bind, advertised.empty() ? bind : advertised, port, group});
  }
  static unique_fd connected_to(const std::string& host, std::uint16_t port) {
    return host_sockets().connect(host, port);
  }
  static bool reaches(const std::string& host, std::uint16_t port) {
    return static_cast<bool>(connected_to(host, port));
  }
  static unsigned mode_of(const std::string& path) {
    struct stat found {};
    return ::stat(path.c_str(), &found) == 0 ? found.st_mode & 07777 : 0;
  }

  /// Returns a socket that has this name and does not listen.
  unique_fd bound_at(const std::string& name) const {
    const auto at = unix_address(sockets() + '/' + name);
    auto made = new_unix_socket();
    EXPECT_EQ(::bind(made.get(), reinterpret_cast<const sockaddr*>(&*at), sizeof *at), 0);
    return made;
  }
  /// Makes a name of the folder as old as one that was made `seconds` ago.
  void make_old(const std::string& name, std::int64_t seconds = 20) const {
    timespec now{};
    ASSERT_EQ(::clock_gettime(CLOCK_REALTIME, &now), 0);
    now.tv_sec -= seconds;
    const std::array<timespec, 2> both{now, now};
    ASSERT_EQ(::utimensat(AT_FDCWD, (sockets() + '/' + name).c_str(), both.data(), 0), 0);
  }

  /// Returns the names in the folder of the sockets.
  std::vector<std::string> files() const {
    std::vector<std::string> names;
    for (const auto& each : fs::directory_iterator(sockets()))
      names.push_back(each.path().filename());
    return names;
  }

  std::string folder;
};

TEST_F(host_socket_test, a_client_looks_where_the_environment_said_when_it_was_made) {
  const auto node = node_at("127.0.0.1", 4242);
  ASSERT_TRUE(node) << to_string(node.error());
  const host_sockets made_before;
  ::unsetenv(host_socket_variable);
  EXPECT_TRUE(made_before.connect("127.0.0.1", 4242));
  EXPECT_FALSE(reaches("127.0.0.1", 4242)) << "one that is made now looks elsewhere";
}

TEST_F(host_socket_test, a_node_is_found_by_its_address_and_port) {
  const auto node = node_at("127.0.0.2", 7001);
  ASSERT_TRUE(node) << node.error().message;
  EXPECT_TRUE(reaches("127.0.0.2", 7001));
  EXPECT_FALSE(reaches("127.0.0.2", 7002));
  EXPECT_FALSE(reaches("127.0.0.3", 7001));
}

TEST_F(host_socket_test, a_node_on_all_addresses_is_found_by_each_of_this_host) {
  const auto node = node_at("0.0.0.0", 7001, "192.0.2.7");
  ASSERT_TRUE(node) << node.error().message;
  EXPECT_TRUE(reaches("127.0.0.1", 7001));
  EXPECT_TRUE(reaches("::1", 7001));
  EXPECT_TRUE(reaches("192.0.2.7", 7001)) << "by what it advertises, from another network";
  EXPECT_FALSE(reaches("192.0.2.8", 7001)) << "another host";
}

TEST_F(host_socket_test, another_hosts_address_is_looked_for_only_in_a_folder_that_was_named) {
  ::setenv("XDG_RUNTIME_DIR", folder.c_str(), 1);
  const auto usual = folder + "/peercache";
  const auto here = host_socket::listen({usual, "127.0.0.1", "127.0.0.1", 7001, {}});
  const auto there = host_socket::listen({usual, "192.0.2.7", "192.0.2.7", 7001, {}});
  ASSERT_TRUE(here && there);
  ::unsetenv(host_socket_variable);
  EXPECT_TRUE(reaches("127.0.0.1", 7001));
  EXPECT_FALSE(reaches("192.0.2.7", 7001));
  ::setenv(host_socket_variable, usual.c_str(), 1);
  EXPECT_TRUE(reaches("192.0.2.7", 7001));
  ::unsetenv("XDG_RUNTIME_DIR");
}

TEST_F(host_socket_test, socket_and_folder_are_open_to_the_nodes_user_alone) {
  const auto mask = ::umask(0);
  const auto node = node_at("127.0.0.1", 7001);
  ::umask(mask);
  ASSERT_TRUE(node) << node.error().message;
  EXPECT_EQ(mode_of(sockets()), 0700u);
  EXPECT_EQ(mode_of(node->path()), 0600u);
}

TEST_F(host_socket_test, a_group_that_is_named_gets_in_and_nobody_else) {
  const auto node = node_at("127.0.0.1", 7001, {}, ::getegid());
  ASSERT_TRUE(node) << node.error().message;
  EXPECT_EQ(mode_of(sockets()), 0750u);
  EXPECT_EQ(mode_of(node->path()), 0660u);
}

TEST_F(host_socket_test, what_a_dead_node_has_left_is_taken_over) {
  auto dead = node_at("127.0.0.1", 7001);
  ASSERT_TRUE(dead);
  dead->take(); // Closes the socket and leaves its name, as when a node is killed.
  EXPECT_FALSE(reaches("127.0.0.1", 7001));
  const auto next = node_at("127.0.0.1", 7001);
  ASSERT_TRUE(next) << next.error().message;
  EXPECT_TRUE(reaches("127.0.0.1", 7001));
  dead = error{errc::closed, ""};
  EXPECT_TRUE(reaches("127.0.0.1", 7001)) << "the end of the first has removed the second's name";
}

TEST_F(host_socket_test, what_dead_nodes_have_left_goes_when_another_node_starts_and_nothing_else) {
  auto dead = node_at("127.0.0.1", 7001), advertised = node_at("0.0.0.0", 7002, "192.0.2.7");
  const auto living = node_at("0.0.0.0", 7003, "192.0.2.8");
  ASSERT_TRUE(dead && advertised && living);
  dead->take();
  advertised->take();
  const auto unfinished = bound_at(".7004.0badcafe");
  make_old(".7004.0badcafe");
  const std::vector<std::string> others{"notes-7001.sock", "other.sock", ".7005", "node-7.lock"};
  for (const auto& each : others)
    std::ofstream(sockets() + '/' + each) << "not a socket";
  fs::create_symlink("nowhere", sockets() + "/engine.sock");
  const auto next = node_at("127.0.0.1", 7009);
  ASSERT_TRUE(next) << next.error().message;
  auto expected = others;
  for (const auto* each :
       {"any-7003.sock", "192.0.2.8-7003.sock", "127.0.0.1-7009.sock", "engine.sock"})
    expected.emplace_back(each);
  EXPECT_THAT(files(), testing::UnorderedElementsAreArray(expected));
  EXPECT_TRUE(reaches("192.0.2.8", 7003));
}

/// A node that waited in vain for the right to the folder's names makes its socket without it,
/// while another node, which was stopped, removes leftovers.
TEST_F(host_socket_test, a_name_between_bind_and_listen_is_not_removed_as_a_dead_nodes) {
  ASSERT_EQ(::mkdir(sockets().c_str(), 0700), 0);
  const socket_names of_another(sockets());
  const auto starting = bound_at(".7004.0badcafe");
  EXPECT_EQ(of_another.remove_leftovers(), 0u);
  ASSERT_EQ(::listen(starting.get(), 1), 0);
  const auto path = sockets() + "/any-7004.sock";
  EXPECT_EQ(::rename((sockets() + "/.7004.0badcafe").c_str(), path.c_str()), 0);
  EXPECT_TRUE(reaches("127.0.0.1", 7004));
}

TEST_F(host_socket_test, a_first_name_of_a_dead_node_is_removed_once_it_is_old) {
  ASSERT_EQ(::mkdir(sockets().c_str(), 0700), 0);
  const socket_names names(sockets());
  const auto dead = bound_at(".7004.0badcafe");
  make_old(".7004.0badcafe");
  EXPECT_EQ(names.remove_leftovers(), 1u);
  const auto in_future = bound_at(".7004.0badcaff");
  make_old(".7004.0badcaff", -20);
  EXPECT_EQ(names.remove_leftovers(), 1u) << "the clock was set back since";
  EXPECT_TRUE(fs::is_empty(sockets()));
}

TEST_F(host_socket_test, names_are_removed_by_one_node_at_a_time_and_nobody_waits_for_ever) {
  auto dead = node_at("127.0.0.1", 7001);
  ASSERT_TRUE(dead);
  dead->take();
  const socket_names held(sockets());
  EXPECT_EQ(socket_names(sockets()).remove_leftovers(), 0u) << "without the right to it";
  const auto node = node_at("127.0.0.1", 7009);
  EXPECT_TRUE(node) << "whoever may list the folder could keep it from starting";
  EXPECT_EQ(held.remove_leftovers(), 1u);
}

TEST_F(host_socket_test, what_a_living_node_has_stays_its_own) {
  const auto node = node_at("127.0.0.1", 7001);
  ASSERT_TRUE(node);
  const auto second = node_at("127.0.0.1", 7001);
  ASSERT_FALSE(second);
  EXPECT_THAT(second.error().message, HasSubstr("another node serves there"));
  EXPECT_THAT(second.error().message, HasSubstr("net.socket_folder"));
  EXPECT_TRUE(reaches("127.0.0.1", 7001));
  EXPECT_EQ(files(), std::vector<std::string>{"127.0.0.1-7001.sock"}) << "the second left nothing";
}

TEST_F(host_socket_test, a_name_is_that_of_a_living_node_while_nobody_is_accepted_there) {
  // Connecting fails also for a living node that is stopped or overloaded: its backlog is full.
  // Such a node must not be taken for a dead one, whose name a new node may take.
  ASSERT_EQ(::mkdir(sockets().c_str(), 0700), 0);
  const auto path = sockets() + "/127.0.0.1-7001.sock";
  const unique_fd stopped(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un at{};
  at.sun_family = AF_UNIX;
  path.copy(at.sun_path, sizeof at.sun_path - 1);
  ASSERT_EQ(::bind(stopped.get(), reinterpret_cast<sockaddr*>(&at), sizeof at), 0);
  ASSERT_EQ(::listen(stopped.get(), 0), 0);
  std::vector<unique_fd> waiting;
  while (auto next = connected_to("127.0.0.1", 7001))
    waiting.push_back(std::move(next));
  ASSERT_FALSE(waiting.empty());
  const auto second = node_at("127.0.0.1", 7001);
  ASSERT_FALSE(second);
  EXPECT_THAT(second.error().message, HasSubstr("another node serves there"));
}

TEST_F(host_socket_test, a_name_is_that_of_a_living_node_where_this_user_may_not_connect) {
  if (::geteuid() != 0)
    GTEST_SKIP() << "only root can become another user";
  const auto node = node_at("127.0.0.1", 7001); // The socket has mode 0600 and belongs to root.
  ASSERT_TRUE(node);
  ASSERT_EQ(::chmod(folder.c_str(), 0755), 0);
  ASSERT_EQ(::chown(sockets().c_str(), somebody, somebody), 0);
  const auto child = ::fork();
  if (child == 0) {
    if (::setgid(somebody) != 0 || ::setuid(somebody) != 0)
      ::_exit(10);
    const auto second = node_at("127.0.0.1", 7001);
    ::_exit(second ? 1
                   : second.error().message.find("another node serves there") == std::string::npos);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

TEST_F(host_socket_test, nodes_of_one_port_that_start_at_once_do_not_meet) {
  // A socket is made under a temporary name, which says no address. A killed process may leave such
  // names.
  constexpr int nodes = 8, rounds = 40;
  std::array<std::string, nodes> faults;
  std::vector<std::thread> all;
  all.reserve(nodes);
  for (int i = 0; i < nodes; ++i)
    all.emplace_back([&, i] {
      for (int round = 0; round < rounds && faults[i].empty(); ++round)
        if (const auto made = node_at("127.0.0." + std::to_string(i + 1), 7001); !made)
          faults[i] = made.error().message;
    });
  for (auto& each : all)
    each.join();
  EXPECT_THAT(faults, testing::Each(""));
  EXPECT_TRUE(fs::is_empty(sockets()));
}

TEST_F(host_socket_test, the_exact_name_is_taken_before_that_of_a_node_on_all_addresses) {
  auto any =
      // A node in another network namespace that shares the folder.
      node_at("0.0.0.0", 7001, "192.0.2.7");
  auto exact = node_at("127.0.0.1", 7001);
  ASSERT_TRUE(any && exact);
  const auto at_any = any->take();
  auto at_exact = exact->take();
  const auto arrived = [](const unique_fd& at) {
    return static_cast<bool>(
        unique_fd(::accept4(at.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC)));
  };
  // Each node has looked whether somebody listens at the names in the folder.
  while (arrived(at_any) || arrived(at_exact)) {
  }
  ASSERT_TRUE(reaches("127.0.0.1", 7001));
  EXPECT_TRUE(arrived(at_exact));
  EXPECT_FALSE(arrived(at_any));
  EXPECT_TRUE(reaches("127.0.0.2", 7001));
  EXPECT_TRUE(arrived(at_any)) << "an address without a node of its own";
  // Closes the socket and leaves its name, as when a node is killed.
  at_exact.reset();
  EXPECT_FALSE(reaches("127.0.0.1", 7001)) << "the dead node's address is not another node's";
  EXPECT_FALSE(arrived(at_any));
}

TEST_F(host_socket_test, nothing_is_left_of_a_node_that_ends) {
  { ASSERT_TRUE(node_at("0.0.0.0", 7001, "192.0.2.7")); }
  EXPECT_TRUE(fs::is_empty(sockets()));
}

TEST_F(host_socket_test, a_folder_that_others_may_write_to_is_neither_used_nor_believed) {
  const auto node = node_at("127.0.0.1", 7001);
  ASSERT_TRUE(node);
  for (const mode_t mode : {0777, 0770, 0720, 0702}) {
    ASSERT_EQ(::chmod(sockets().c_str(), mode), 0);
    EXPECT_FALSE(reaches("127.0.0.1", 7001)) << std::oct << mode;
    const auto second = node_at("127.0.0.1", 7002);
    ASSERT_FALSE(second) << std::oct << mode;
    EXPECT_THAT(second.error().message, HasSubstr("other users may write to it"));
  }
  ASSERT_EQ(::chmod(sockets().c_str(), 0755), 0);
  EXPECT_TRUE(reaches("127.0.0.1", 7001));
}

TEST_F(host_socket_test, another_users_folder_is_not_used_even_if_it_was_named) {
  if (::geteuid() != 0)
    GTEST_SKIP() << "only root can give a folder to another user";
  ASSERT_EQ(::mkdir(sockets().c_str(), 0700), 0);
  ASSERT_EQ(::chown(sockets().c_str(), somebody, somebody), 0);
  const auto node = node_at("127.0.0.1", 7001);
  ASSERT_FALSE(node);
  EXPECT_THAT(node.error().message, HasSubstr("other users may write to it"));
}

TEST_F(host_socket_test, a_link_in_the_place_of_the_folder_is_not_followed) {
  fs::create_directory(folder + "/elsewhere");
  fs::create_directory_symlink(folder + "/elsewhere", sockets());
  const auto node = node_at("127.0.0.1", 7001);
  ASSERT_FALSE(node);
  EXPECT_THAT(node.error().message, HasSubstr("it is not a folder"));
}

TEST_F(host_socket_test, another_users_folder_in_tmp_is_not_believed) {
  if (::geteuid() != 0)
    GTEST_SKIP() << "only root can give a folder to another user";
  ::setenv("XDG_RUNTIME_DIR", folder.c_str(), 1);
  ::unsetenv(host_socket_variable);
  const auto usual = folder + "/peercache";
  const auto node = host_socket::listen({usual, "127.0.0.1", "127.0.0.1", 7001, {}});
  ASSERT_TRUE(node);
  EXPECT_TRUE(reaches("127.0.0.1", 7001));
  ASSERT_EQ(::chown(usual.c_str(), somebody, somebody), 0);
  EXPECT_FALSE(reaches("127.0.0.1", 7001));
  ::unsetenv("XDG_RUNTIME_DIR");
}

} // namespace
} // namespace peercache::net::host_socket_test
