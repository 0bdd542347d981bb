#include "survival_ring.hpp"

#include <algorithm>
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

namespace peercache::real::black_hole_test {

namespace {

/// A socket that listens and never answers: connections are made by the kernel until its queue is
/// full, and after that not even those.
class black_hole {
public:
  black_hole() : fd_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in at{};
    at.sin_family = AF_INET;
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof at;
    EXPECT_EQ(::bind(fd_, reinterpret_cast<sockaddr*>(&at), size), 0);
    EXPECT_EQ(::listen(fd_, 1), 0);
    EXPECT_EQ(::getsockname(fd_, reinterpret_cast<sockaddr*>(&at), &size), 0);
    address_ = "127.0.0.1:" + std::to_string(ntohs(at.sin_port));
  }
  ~black_hole() { ::close(fd_); }
  black_hole(const black_hole&) = delete;
  black_hole& operator=(const black_hole&) = delete;

  const std::string& address() const { return address_; }

private:
  int fd_;
  std::string address_;
};

class black_holes : public survival_ring {
protected:
  /// How long the slowest of many single calls took.
  template <class Call>
  static milliseconds slowest(std::uint32_t calls, Call call) {
    clock::duration most{};
    for (std::uint32_t i = 0; i < calls; ++i) {
      auto begin = clock::now();
      call(i);
      most = std::max(most, clock::now() - begin);
    }
    return std::chrono::ceil<milliseconds>(most);
  }
};

constexpr std::uint32_t pages = 64;

} // namespace

TEST_F(black_holes, a_seed_that_never_answers_delays_neither_the_start_nor_heartbeats) {
  black_hole hole;
  start_ring({.count = 2});
  if (HasFatalFailure())
    return;
  auto begin = clock::now();
  start_node({hole.address(), address(0)});
  ASSERT_FALSE(HasFatalFailure());
  EXPECT_LE(clock::now() - begin, milliseconds(2500));
  EXPECT_TRUE(within(milliseconds(3000), [&] { return one_view({0, 1, 2}); }));
  auto before = view_of(0);
  // Its beats to the masters go on between those to the hole: many expiries later it is still in.
  auto until = clock::now() + milliseconds(2500);
  EXPECT_FALSE(within(std::chrono::ceil<milliseconds>(until - clock::now()),
                      [&] { return !(view_of(0) == before); }));
  EXPECT_TRUE(exchange(2, 0, 0));
}

TEST_F(black_holes, a_peer_that_never_answers_delays_nothing_among_the_others) {
  // It stays in the view for all of the test: its kernel takes connections, and nobody answers.
  start_ring({.count = 4, .heartbeat = milliseconds(1000), .expiry = milliseconds(60'000)});
  if (HasFatalFailure())
    return;
  auto writer = client_of(0);
  auto reader = client_of(1);
  put(*writer, 0, pages);
  ASSERT_TRUE(all_readable(*reader, 0, pages));
  freeze(3);
  // A look-up asks the next replica when the first does not answer; what was learnt of the silent
  // one then spares the next calls.
  std::uint32_t found = 0;
  auto most = slowest(pages, [&](std::uint32_t id) {
    found += get(*reader, id, milliseconds(1000)).result.status == page_status::hit ? 1 : 0;
  });
  EXPECT_EQ(found, pages);
  EXPECT_LE(most, milliseconds(450)) << "a quarter of the deadline for one owner, not all of it";
  auto fresh = client_of(2); // Start-up: what it could not reach it does not wait for.
  ASSERT_NE(fresh, nullptr);
  EXPECT_EQ(count_existing(*fresh, 0, pages), pages);
  std::uint32_t stored = 0;
  most = slowest(pages, [&](std::uint32_t i) {
    stored += put_one(*writer, 1000 + i, 0) == page_status::stored ? 1 : 0;
  });
  EXPECT_EQ(stored, pages);
  EXPECT_LE(most, milliseconds(200)) << "publishing waits, set does not";
  most = slowest(1, [&](std::uint32_t) {
    std::ignore = put_one(*writer, 2000, 0);
    EXPECT_FALSE(writer->flush(clock::now() + milliseconds(500))) << "an owner has not answered";
  });
  EXPECT_LE(most, milliseconds(550)) << "flush ends at its deadline, whoever is silent";
  EXPECT_TRUE(within(milliseconds(3000), [&] {
    return count_existing(*reader, 1000, pages) == pages;
  })) << "the other owner of each key was told at once";
}

} // namespace peercache::real::black_hole_test
