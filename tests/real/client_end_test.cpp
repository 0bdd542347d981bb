// Tests of how a client's calls end when it closes, and of a client in a forked child.

#include "client/admin_client.hpp"
#include "local_ring.hpp"

#include <atomic>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <functional>
#include <future>
#include <set>
#include <string>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

namespace peercache::real::client_end_test {
namespace {

class client_end : public local_ring {
protected:
  static constexpr milliseconds far{30'000};
  /// Longest time that the end of a call, or of a client, may take.
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

const key_space space_of_test{};

bool says_closed(const client::clear_result& outcome) {
  return outcome.why_not.find("the client is closed") != std::string::npos;
}

/// Makes each call of a client that a fork has copied. Returns 0 when every call says `closed`,
/// else the number of a call that does not.
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
  if (const auto cleared = client.clear("any"); cleared.certain || !says_closed(cleared))
    return 7;
  client.prefetch({&key, 1});
  client.unregister_buffer(bytes.data());
  client.close();
  return client.view().members.empty() && client.nodes_gone().empty() ? 0 : 6;
}

/// Returns the status of a call as a whole; any fault other than `closed` counts as `refused`.
template <class Outcome>
page_status status_told(const Outcome& outcome) {
  if (outcome)
    return page_status::stored;
  return outcome.error().code == errc::closed ? page_status::closed : page_status::refused;
}

/// Returns calls of most kinds that take a deadline, for pages that nobody has. A call with one
/// page result returns the page's status, any other call the status of the call.
std::vector<std::function<page_status()>> calls_of_each_kind(client::cache_client& client,
                                                             clock::time_point until) {
  struct one_page {
    page_key key;
    std::vector<std::byte> bytes = std::vector<std::byte>(4096);
    client::const_part from{bytes.data(), 4096};
    page_part into{bytes.data(), 4096};
    client::page_result result;
  };
  const auto of_a_page = [&](std::uint32_t id, auto call) {
    auto page = std::make_shared<one_page>();
    page->key = space_of_test.key_of(std::to_string(id));
    return [page, call]() mutable {
      call(*page, std::span(&page->result, 1));
      return page->result.status;
    };
  };
  const auto keys = [](const one_page& page) { return std::span(&page.key, 1); };
  auto* const by = &client;
  return {
      of_a_page(1, [=](auto& page, auto result) { by->exists(keys(page), result, until); }),
      of_a_page(2, [=](auto& page, auto result) { by->remove(keys(page), result, until); }),
      of_a_page(3,
                [=](auto& page, auto result) {
                  by->remove(keys(page), result, until, client::remove_scope::every_node);
                }),
      of_a_page(4,
                [=](auto& page, auto result) {
                  const client::get_page wanted{page.key, {&page.into, 1}};
                  by->get({&wanted, 1}, result, until);
                }),
      // Each set has a new page: when the client's leased slots are used up, a set waits for a
      // node.
      of_a_page(5,
                [=, id = 1000](auto& page, auto result) mutable {
                  const auto key = space_of_test.key_of(std::to_string(id++));
                  const client::set_page stored{key, {&page.from, 1}};
                  by->set({&stored, 1}, result, until);
                }),
      [=] { return status_told(by->flush(until)); },
      [=, key = space_of_test.key_of("6")] {
        return status_told(by->locate({&key, 1}, until));
      },
      [=] {
        const auto cleared = by->clear("any", until);
        return says_closed(cleared) ? page_status::closed : page_status::refused;
      },
  };
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

TEST_F(client_end, is_not_held_up_by_prefetches_and_neither_are_sets) {
  auto client = client_of(0);
  put(*client, 0, 8);
  std::vector<page_key> keys(128);
  for (std::uint32_t i = 0; i < keys.size(); ++i)
    keys[i] = key_of(1000 + i);
  std::vector<std::thread> callers;
  for (int caller = 0; caller < 4; ++caller)
    callers.emplace_back([&] {
      for (int call = 0; call < 20'000; ++call)
        client->prefetch(keys);
    });
  for (auto& caller : callers)
    caller.join();
  EXPECT_EQ(put_one(*client, 8, 0), page_status::stored);
  const auto begin = clock::now();
  client->close();
  client.reset();
  EXPECT_TRUE(took_at_most(at_once, begin));
  EXPECT_EQ(client::ending_systems(), 0) << "its end was left to a thread";
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

TEST_F(client_end, of_an_admin_client_does_not_wait_for_a_frozen_node) {
  auto admin = client::admin_client::connect(node(0).launch().host, node(0).ports().control_port,
                                             cluster(), far);
  ASSERT_TRUE(admin) << admin.error().message;
  ASSERT_TRUE((*admin)->status());
  freeze(0);
  auto ended = std::async(std::launch::async, [&admin] { admin->reset(); });
  EXPECT_EQ(ended.wait_for(2 * at_once), std::future_status::ready);
  node(0).process().signal(SIGCONT);
  ended.get();
  EXPECT_TRUE(within(far, [] { return client::ending_systems() == 0; }));
}

/// Lets clients that connect from now on ask the node, instead of reading its shard's memory.
void hide_shard(const cli::node_process& node) {
  std::ifstream maps("/proc/" + std::to_string(node.ports().pid) + "/maps");
  std::set<std::string> objects;
  for (std::string line; std::getline(maps, line);)
    if (line.ends_with(".shard"))
      objects.insert(line.substr(line.find('/')));
  ASSERT_EQ(objects.size(), 1u);
  ASSERT_TRUE(std::filesystem::remove(*objects.begin()));
}

TEST_F(client_end, closing_ends_the_calls_that_wait_for_a_frozen_node) {
  ASSERT_NO_FATAL_FAILURE(hide_shard(node(0)));
  auto client = client_of(0);
  put(*client, 0, 8);
  for (std::size_t index = 0; index < 3; ++index)
    freeze(index);
  ASSERT_EQ(put_one(*client, 2000, 0), page_status::stored)
      << "flush is to have something to wait for";
  const auto until = clock::now() + far;
  const auto calls = calls_of_each_kind(*client, until);
  std::atomic<std::size_t> running{0};
  std::atomic<bool> closing{false};
  std::vector<std::thread> callers;
  std::vector<page_status> ended(calls.size());
  for (std::size_t kind = 0; kind < calls.size(); ++kind)
    callers.emplace_back([&, kind] {
      ++running;
      // The call is repeated until `close` cuts it short: a call that needs no frozen node ends by
      // itself. The fault that a call returns after the close is the one that counts.
      bool was_closing = false;
      do {
        ended[kind] = calls[kind]();
        was_closing = closing;
      } while (is_success(ended[kind]) || !was_closing);
    });
  ASSERT_TRUE(within(milliseconds(5000), [&] { return running == calls.size(); }));
  const auto begin = clock::now();
  closing = true;
  client->close();
  for (auto& caller : callers)
    caller.join();
  EXPECT_TRUE(took_at_most(at_once, begin));
  for (std::size_t kind = 0; kind < calls.size(); ++kind)
    EXPECT_EQ(to_string(ended[kind]), to_string(page_status::closed)) << kind;
  const auto end = clock::now();
  client.reset();
  EXPECT_TRUE(took_at_most(at_once, end)) << "its end waits for no frozen node";
  // Wakes all nodes, because a frozen node would not end.
  for (std::size_t index = 0; index < 3; ++index)
    node(index).process().signal(SIGCONT);
}

} // namespace peercache::real::client_end_test
