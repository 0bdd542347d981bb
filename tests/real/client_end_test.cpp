// The end of a client's calls, and the end of a client in a forked child.

#include "local_ring.hpp"

#include <array>
#include <atomic>
#include <csignal>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

namespace peercache::real::client_end_test {
namespace {

class client_end : public local_ring {
protected:
  static constexpr milliseconds far{30'000};
  /// How long the end of a call, or of a client, may take.
  static constexpr milliseconds at_once{1000};

  /// Forks a child that runs `body`. Returns the child's status; -1 when it has not ended in time.
  template <class Body>
  static int status_of_child(Body body) {
    const auto child = ::fork();
    if (child == 0)
      ::_exit(body());
    int status = -1;
    if (!within(milliseconds(5000), [&] { return ::waitpid(child, &status, WNOHANG) == child; })) {
      ::kill(child, SIGKILL);
      ::waitpid(child, &status, 0);
      return -1;
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }

  static page_status status_of(client::cache_client& client, std::uint32_t id) {
    std::vector<client::page_result> results(1);
    const std::vector<page_key> keys{key_of(id)};
    client.exists(keys, results);
    return results[0].status;
  }
};

/// Calls everything of the client. Returns 0 when all is closed, else the number of the call that
/// is not.
int open_call_in_child(client::cache_client& client, const page_key& key) {
  std::vector<std::byte> bytes(4096);
  const client::const_part from{bytes.data(), 4096};
  const page_part into{bytes.data(), 4096};
  const client::set_page stored{key, {&from, 1}};
  const client::get_page read{key, {&into, 1}};
  const auto is_closed = [](auto call) {
    client::page_result result;
    call(std::span(&result, 1));
    return result.status == page_status::closed;
  };
  if (!is_closed([&](auto result) { client.set({&stored, 1}, result); }))
    return 1;
  if (!is_closed([&](auto result) { client.get({&read, 1}, result); }))
    return 2;
  if (!is_closed([&](auto result) { client.exists({&key, 1}, result); }))
    return 3;
  if (!is_closed([&](auto result) { client.remove({&key, 1}, result); }))
    return 4;
  if (client.flush() || client.locate({&key, 1}) || client.register_buffer(bytes))
    return 5;
  client.prefetch({&key, 1});
  client.unregister_buffer(bytes.data());
  client.close();
  return client.view().members.empty() && client.nodes_gone().empty() ? 0 : 6;
}

} // namespace

TEST_F(client_end, beside_a_healthy_node_leaves_no_thread_behind) {
  for (int round = 0; round < 3; ++round) {
    auto client = client_of(0);
    put(*client, static_cast<std::uint32_t>(round), 1);
    client.reset();
    EXPECT_EQ(client::ending_systems(), 0) << "its end was left to a thread";
  }
}

TEST_F(client_end, in_a_forked_child_it_is_closed_and_the_parent_s_is_not) {
  auto client = client_of(0);
  put(*client, 0, 8);
  std::atomic<bool> enough{false};
  std::thread busy([&] { // This thread holds the client's locks at some of the forks.
    while (!enough)
      count_existing(*client, 0, 8);
  });
  for (int round = 0; round < 20; ++round)
    EXPECT_EQ(status_of_child([&] {
                const auto open = open_call_in_child(*client, key_of(0));
                client.reset();
                return open;
              }),
              0);
  enough = true;
  busy.join();
  EXPECT_EQ(count_existing(*client, 0, 8), 8u);
  put(*client, 8, 8);
  EXPECT_EQ(count_existing(*client, 8, 8), 8u);
}

TEST_F(client_end, a_forked_child_may_have_a_client_of_its_own) {
  auto client = client_of(0);
  put(*client, 0, 4);
  EXPECT_EQ(status_of_child([&] {
              auto own = client_of(0);
              return own != nullptr && status_of(*own, 0) == page_status::hit ? 0 : 1;
            }),
            0);
  EXPECT_EQ(status_of(*client, 0), page_status::hit);
}

TEST_F(client_end, closing_ends_the_calls_that_wait_for_a_frozen_node) {
  auto client = client_of(0);
  put(*client, 0, 8);
  for (std::size_t index = 0; index < 3; ++index)
    freeze(index);
  ASSERT_EQ(put_one(*client, 2000, 0), page_status::stored)
      << "flush is to have something to wait for";
  const auto until = clock::now() + far;
  std::atomic<int> running{0};
  std::vector<std::thread> callers;
  std::array<page_status, 3> ended{};
  const auto call = [&](std::size_t index, auto body) {
    callers.emplace_back([&, index, body] {
      std::vector<client::page_result> results(1);
      ++running;
      // Repeated until `close` cuts a call short: a call that needs no frozen node ends by itself.
      do
        body(std::span(results));
      while (results[0].status != page_status::closed && clock::now() < until);
      ended[index] = results[0].status;
    });
  };
  const std::vector<page_key> keys{key_of(1000)};
  call(0, [&](auto results) { client->exists(keys, results, until); });
  call(1, [&](auto results) {
    client->remove(keys, results, until, client::remove_scope::every_node);
  });
  call(2, [&](auto results) {
    results[0].status = client->flush(until) ? page_status::stored : page_status::closed;
  });
  ASSERT_TRUE(within(milliseconds(5000), [&] { return running == 3; }));
  const auto begin = clock::now();
  client->close();
  for (auto& caller : callers)
    caller.join();
  EXPECT_TRUE(took_at_most(at_once, begin));
  EXPECT_EQ(ended, (std::array{page_status::closed, page_status::closed, page_status::closed}));
  const auto end = clock::now();
  client.reset();
  EXPECT_TRUE(took_at_most(at_once, end)) << "its end waits for no frozen node";
}

} // namespace peercache::real::client_end_test
