#pragma once

#include "tests/verbs/whole_path.hpp"

#include <csignal>
#include <sys/wait.h>
#include <unistd.h>

namespace peercache::rdma {

/// A node in a process of its own, which can be killed. Make it before this process has threads or
/// open devices: the fork copies the process, and the child serves the pool as it is then.
class forked_node {
public:
  forked_node(const node_pool& pool, const incarnation& inc) {
    int down[2];
    int up[2];
    EXPECT_EQ(::pipe(down), 0);
    EXPECT_EQ(::pipe(up), 0);
    child_ = ::fork();
    if (child_ == 0) {
      ::close(down[1]);
      be_child(pool, inc, down[0], up[1]);
    }
    ::close(down[0]);
    ::close(up[1]);
    orders_ = net::unique_fd(down[1]);
    answers_ = net::unique_fd(up[0]);
  }
  ~forked_node() { kill(); }
  forked_node(const forked_node&) = delete;
  forked_node& operator=(const forked_node&) = delete;

  /// Makes the child process serve at this port (0: a port that the kernel chooses). Returns the
  /// port; 0 when the child failed.
  std::uint16_t serve_at(std::uint16_t port) {
    EXPECT_EQ(::write(orders_.get(), &port, sizeof port), sizeof port);
    return ::read(answers_.get(), &port, sizeof port) == sizeof port ? port : 0;
  }

  void kill() {
    if (child_ <= 0)
      return;
    ::kill(child_, SIGKILL);
    ::waitpid(std::exchange(child_, 0), nullptr, 0);
  }

private:
  [[noreturn]] static void be_child(const node_pool& pool, const incarnation& inc, int orders,
                                    int answers) {
    std::uint16_t port = 0;
    if (::read(orders, &port, sizeof port) != sizeof port)
      ::_exit(1);
    try {
      serving_node node(pool.memory.served(), inc, {"rxe1"}, port);
      port = node.endpoint().port;
      if (::write(answers, &port, sizeof port) == sizeof port)
        while (::read(orders, &port, sizeof port) > 0) {
        }
    } catch (const std::exception& failed) {
      std::cout << "the forked node: " << failed.what() << std::endl;
    }
    ::_exit(1);
  }

  pid_t child_ = 0;
  net::unique_fd orders_;
  net::unique_fd answers_;
};

} // namespace peercache::rdma
