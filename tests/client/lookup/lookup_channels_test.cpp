#include "client/lookup/lookup_channels.hpp"
#include "net/socket.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <fcntl.h>

namespace peercache::client {
namespace {

/// A member whose look-up port is a listening socket of this test.
struct listening {
  listening(const std::string& name, std::uint64_t inc)
      : socket(*net::listen_on("127.0.0.1", 0, 8)) {
    handles.self = {.name = name, .id = node_id_of(name), .inc = {inc, inc}, .host = "127.0.0.1"};
    handles.lookup_port = net::local_port(socket);
  }

  net::unique_fd socket;
  link::peer handles;
};

discovery::view view_of(std::uint64_t version, std::vector<const listening*> members) {
  discovery::view made{.term = 1, .version = version};
  for (const auto* member : members)
    made.members.push_back(member->handles.self);
  return made;
}

class lookup_channels_test : public testing::Test {
protected:
  /// Leases a connection to the member and gives it back. Returns the connection's descriptor.
  int used(const listening& member) {
    auto channel = channels.lease(member.handles);
    EXPECT_NE(channel, nullptr);
    const auto fd = channel->fd();
    channels.give_back(member.handles.self.inc, std::move(channel));
    return fd;
  }
  static bool is_open(int fd) { return ::fcntl(fd, F_GETFD) >= 0; }

  listening a{"a", 1};
  listening b{"b", 2};
  lookup_channels channels{"test"};
};

TEST_F(lookup_channels_test, connections_are_used_again) {
  channels.follow(view_of(1, {&a, &b}));
  const auto fd = used(a);
  EXPECT_TRUE(is_open(fd));
  EXPECT_EQ(used(a), fd);
  auto one = channels.lease(a.handles);
  auto other = channels.lease(a.handles);
  EXPECT_NE(one->fd(), other->fd());
}

TEST_F(lookup_channels_test, those_to_a_member_that_left_are_closed) {
  channels.follow(view_of(1, {&a, &b}));
  const auto to_a = used(a);
  const auto to_b = used(b);
  auto leased = channels.lease(b.handles);
  const auto late = leased->fd();
  EXPECT_EQ(late, to_b);
  channels.follow(view_of(2, {&a}));
  EXPECT_TRUE(is_open(to_a));
  channels.give_back(b.handles.self.inc, std::move(leased));
  EXPECT_FALSE(is_open(late)) << "it was under way when its peer left";
}

TEST_F(lookup_channels_test, no_more_are_kept_than_the_bound) {
  channels.follow(view_of(1, {&a}));
  std::vector<std::unique_ptr<net::frame_channel>> many;
  for (std::size_t i = 0; i < lookup_channels::idle_per_member_max + 4; ++i)
    many.push_back(channels.lease(a.handles));
  std::vector<int> fds;
  for (auto& channel : many) {
    fds.push_back(channel->fd());
    channels.give_back(a.handles.self.inc, std::move(channel));
  }
  EXPECT_EQ(std::count_if(fds.begin(), fds.end(), is_open),
            std::ptrdiff_t{lookup_channels::idle_per_member_max});
}

} // namespace
} // namespace peercache::client
