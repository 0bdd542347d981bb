#include "net/host_socket.hpp"
#include "tests/support/qemu_user.hpp"

#include <gmock/gmock.h>
#include <grp.h>
#include <string>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

namespace peercache::net::host_users_test {
namespace {

using testing::HasSubstr;

constexpr uid_t somebody = 65534;
constexpr gid_t a_group = 54321;

/// Returns why a node that runs as this process's user refuses a process of the user `user` in
/// these groups; empty if it does not.
std::string judged(const host_users& users, uid_t user, const std::vector<gid_t>& groups) {
  const std::string name = "/tmp/peercache-judge-" + std::to_string(::getpid());
  const unique_fd listening(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un at{};
  at.sun_family = AF_UNIX;
  name.copy(at.sun_path, sizeof at.sun_path - 1);
  ::unlink(name.c_str());
  EXPECT_EQ(::bind(listening.get(), reinterpret_cast<sockaddr*>(&at), sizeof at), 0);
  EXPECT_EQ(::chmod(name.c_str(), 0666), 0);
  EXPECT_EQ(::listen(listening.get(), 1), 0);
  const auto child = ::fork();
  if (child == 0) {
    const int fd = ::socket(AF_UNIX, SOCK_STREAM, 0);
    const bool other = user != ::geteuid();
    if ((other && (::setgroups(groups.size(), groups.data()) != 0 || ::setgid(user) != 0 ||
                   ::setuid(user) != 0)) ||
        ::connect(fd, reinterpret_cast<sockaddr*>(&at), sizeof at) != 0)
      ::_exit(1);
    char end;
    ::_exit(::read(fd, &end, 1) == 0 ? 0 : 2);
  }
  unique_fd accepted(::accept4(listening.get(), nullptr, nullptr, SOCK_CLOEXEC));
  const auto verdict = users.judge(accepted.get());
  accepted.reset();
  int status = -1;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  ::unlink(name.c_str());
  return verdict ? "" : verdict.error().message;
}

TEST(host_users, the_nodes_own_user_is_served) {
  EXPECT_EQ(judged(host_users({}), ::geteuid(), {}), "");
}

TEST(host_users, another_user_is_served_only_as_a_member_of_the_group) {
  if (::geteuid() != 0)
    GTEST_SKIP() << "only root can become another user";
  EXPECT_THAT(judged(host_users({}), somebody, {a_group}), HasSubstr("of the user 65534"));
  EXPECT_THAT(judged(host_users(a_group), somebody, {a_group + 1}), HasSubstr("group 54321"));
  EXPECT_EQ(judged(host_users(a_group), somebody, {a_group}), "");
  std::vector<gid_t> many;
  for (gid_t i = 0; i < 300; ++i)
    many.push_back(a_group + 1 + i);
  EXPECT_NE(judged(host_users(a_group), somebody, many), "");
  if (under_qemu_user())
    GTEST_SKIP() << "qemu-user tells of a peer's groups no more than one (SO_PEERGROUPS)";
  many.push_back(a_group);
  EXPECT_EQ(judged(host_users(a_group), somebody, many), "") << "the last of many groups";
}

} // namespace
} // namespace peercache::net::host_users_test
