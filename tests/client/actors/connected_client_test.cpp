// Tests of a client by its public methods only. It is connected over loopback to a node, which is a
// fake gateway with a real, small pool, and to the node's shard.

#include "client/async_calls.hpp"
#include "client/cache_client.hpp"
#include "common/limits.hpp"
#include "discovery/view_codec.hpp"
#include "link/system_config.hpp"
#include "storage/epoch_table.hpp"
#include "tests/client/actors/fake_node.hpp"
#include "tests/client/actors/lookup_server.hpp"
#include "tests/client/actors/played_node.hpp"

#include <caf/io/all.hpp>

#include <algorithm>
#include <array>
#include <bit>
#include <thread>
#include <vector>

namespace peercache::client {
namespace {

using namespace std::chrono_literals;
using status = page_status;

class connected_client_test : public testing::Test {
protected:
  void SetUp() override {
    node.gateway = system.spawn(run_fake_gateway, &node.says);
    directory = system.spawn(run_fake_shard, &unasked);
    auto published = system.middleman().publish(node.gateway, 0, "127.0.0.1");
    ASSERT_TRUE(published) << system.render(published.error());
    link::leave_actor_system();
    node.self.control_port = *published;
    node.self.lookup_port = shard.port();
    view.members = {node.self};
    view.masters = {node.self.name};
    node.says.welcome.member = discovery::encode_member(node.self);
    node.says.welcome.view = discovery::encode_view(view);
    node.says.hello.member = node.says.welcome.member;
    node.says.hello.directory = directory;
  }
  void TearDown() override {
    client.reset();
    {
      caf::scoped_actor self{system};
      self->send_exit(node.gateway, caf::exit_reason::user_shutdown);
      self->send_exit(directory, caf::exit_reason::user_shutdown);
      self->wait_for(node.gateway, directory);
    }
    node.says = {};
    node.gateway = nullptr;
    directory = nullptr;
    link::leave_actor_system();
  }

  result<std::unique_ptr<cache_client>> try_to_connect() const {
    client_options options;
    options.node_port = node.self.control_port;
    options.cluster = "test";
    options.timeout = 60s;
    return cache_client::connect(options);
  }
  void connect() {
    auto made = try_to_connect();
    ASSERT_TRUE(made) << made.error().message;
    client = std::move(*made);
  }
  status set() {
    page_result result;
    client->set(std::array{set_page{key, from}}, {&result, 1});
    return result.status;
  }
  status get() {
    page_result result;
    to.fill({});
    const std::array<page_part, 1> parts{page_part{to.data(), 4096}};
    client->get(std::array{get_page{key, parts}}, {&result, 1});
    return result.status;
  }
  status exists() {
    page_result result;
    client->exists(std::array{key}, {&result, 1});
    return result.status;
  }
  status remove() {
    page_result result;
    client->remove(std::array{key}, {&result, 1});
    return result.status;
  }

  link::system_config config{1};
  caf::actor_system system{config};
  played_node node{"fake"};
  lookup_server shard{node.self.inc};
  fake_shard unasked;
  link::directory_actor directory;
  discovery::view view{.term = 1, .version = 2};
  const std::string_view space = "llama";
  const page_key key = key_space{std::span{&space, 1}}.key_of("page");
  const std::array<std::byte, 4096> bytes{std::byte{1}, std::byte{2}};
  std::array<std::byte, 4096> to{};
  const std::array<const_part, 1> from{const_part{bytes.data(), 4096}};
  std::unique_ptr<cache_client> client;
};

TEST_F(connected_client_test, a_page_goes_in_and_comes_out) {
  connect();
  EXPECT_EQ(set(), status::stored);
  EXPECT_EQ(client->flush()->failed, 0u);
  EXPECT_EQ(get(), status::hit);
  EXPECT_EQ(to, bytes);
  EXPECT_EQ(exists(), status::hit);
  EXPECT_EQ(set(), status::duplicate);
  EXPECT_EQ(client->view(), view);
  EXPECT_TRUE(client->nodes_gone().empty());
}

TEST_F(connected_client_test, locate_says_all_places_that_the_directory_knows) {
  connect();
  const auto one = node.hold(key, bytes);
  auto other = one;
  other.where = directory::tier::disk;
  shard.record(key, {one, other});
  const auto found = client->locate(std::array{key, key_space{}.key_of("other")});
  ASSERT_TRUE(found) << found.error().message;
  ASSERT_EQ(found->size(), 2u);
  EXPECT_EQ((*found)[0], (std::vector{one, other}));
  EXPECT_TRUE((*found)[1].empty());
}

TEST_F(connected_client_test, a_locate_that_waits_ends_with_the_client_and_says_so) {
  connect();
  shard.behave(lookup_server::manner::silent);
  std::thread caller([this] {
    const auto found = client->locate(std::array{key});
    ASSERT_FALSE(found);
    EXPECT_EQ(found.error().code, errc::closed) << found.error().message;
  });
  while (shard.questions() == 0)
    std::this_thread::yield();
  client->close();
  caller.join();
}

TEST_F(connected_client_test, a_flush_that_waits_in_vain_says_that_pages_are_under_way) {
  node.says.statuses_of = nullptr;
  connect();
  EXPECT_EQ(set(), status::stored);
  const auto flushed = client->flush(std::chrono::steady_clock::now());
  ASSERT_FALSE(flushed);
  EXPECT_EQ(flushed.error().code, errc::timed_out);
  EXPECT_EQ(get(), status::hit) << "on this host it is found";
}

TEST_F(connected_client_test, a_page_of_before_a_clear_is_a_miss_and_can_be_set_anew) {
  connect();
  EXPECT_EQ(set(), status::stored);
  EXPECT_EQ(client->flush()->failed, 0u);
  auto epochs = node.memory.epochs();
  epochs.raise(space_named(space), 3);
  EXPECT_EQ(get(), status::not_found);
  EXPECT_EQ(exists(), status::not_found);
  EXPECT_EQ(set(), status::stored);
  EXPECT_EQ(client->flush()->failed, 0u);
  EXPECT_EQ(get(), status::hit);
  const auto told = link::record_at<link::filled_slot>(node.says.committed.back(), 0);
  EXPECT_EQ(epoch_of(told.key), 3u);
}

TEST_F(connected_client_test, shows_a_page_in_place_until_it_is_cleared) {
  connect();
  EXPECT_EQ(client->look_at(key).error().code, errc::not_found);
  EXPECT_EQ(set(), status::stored);
  const auto seen = client->look_at(key);
  ASSERT_TRUE(seen) << seen.error().message;
  EXPECT_TRUE(std::ranges::equal(seen->bytes(), bytes));
  EXPECT_TRUE(seen->intact());
  node.memory.epochs().raise(space_named(space), 3);
  EXPECT_FALSE(seen->intact());
  EXPECT_EQ(client->look_at(key).error().code, errc::not_found) << "the page of before the clear";
}

TEST_F(connected_client_test, a_view_outlives_its_client) {
  connect();
  EXPECT_EQ(set(), status::stored);
  auto seen = client->look_at(key);
  ASSERT_TRUE(seen);
  client.reset();
  const auto moved = *std::move(seen);
  EXPECT_TRUE(std::ranges::equal(moved.bytes(), bytes));
  EXPECT_TRUE(moved.intact());
}

/// A get ends the holds that look-ups of its client have made, but not the hold of a `page_view`.
TEST_F(connected_client_test, a_get_leaves_the_hold_of_a_view_alone) {
  connect();
  node.memory.holds().limit(16);
  const auto other_key = key_space{}.key_of("other");
  const auto page = node.hold(key, bytes), other = node.hold(other_key, bytes);
  for (const auto& each : {page, other})
    node.memory.holds().open(each.slot);
  page_result found;
  client->exists(std::array{other_key}, {&found, 1}, {}, {.duration = 10s});
  EXPECT_TRUE(found.held) << "now the client looks for holds to end";
  const auto is_held = [&] {
    return node.memory.holds().is_held(page.slot, std::chrono::steady_clock::now());
  };
  {
    const auto seen = client->look_at(key, 10s);
    ASSERT_TRUE(seen);
    EXPECT_TRUE(seen->held());
    EXPECT_EQ(get(), status::hit);
    EXPECT_TRUE(is_held());
  }
  EXPECT_FALSE(is_held()) << "the view has ended";
  EXPECT_EQ(node.memory.slots().take_uses(page.slot), 2u) << "the view and the get";
}

TEST_F(connected_client_test, a_page_behind_keys_of_unknown_epochs_is_held_in_its_own_place) {
  connect();
  node.memory.holds().limit(16);
  page_key plain; // A key of no space has no epoch, so that it is always known.
  plain.bytes[0] = 1;
  node.memory.holds().open(node.hold(plain, bytes).slot);
  std::vector<page_key> keys(limits::batch_pages_max, key);
  keys.push_back(plain);
  std::vector<page_result> results(keys.size());
  node.memory.epochs().raise(space_named(space), 3);
  auto& changes = std::bit_cast<storage::epoch_block*>(node.memory.epochs())->changes;
  changes.fetch_add(1); // A change that does not end.
  client->exists(keys, results, {}, {.duration = 10s});
  changes.fetch_add(1);
  EXPECT_EQ(results.front().status, status::unreachable);
  EXPECT_FALSE(results.front().held);
  EXPECT_EQ(results.back().status, status::hit);
  EXPECT_TRUE(results.back().held);
}

TEST_F(connected_client_test, whoever_has_its_outcome_may_begin_the_next_call) {
  connect();
  async_calls calls{*client, 1};
  node.hold(key, bytes);
  for (int i = 0; i < 200; ++i)
    ASSERT_EQ(calls.exists({key}).get().at(0).status, status::hit) << i;
}

TEST_F(connected_client_test, calls_have_futures) {
  connect();
  async_calls calls{*client};
  EXPECT_EQ(calls.set({set_page{key, from}}).get().at(0).status, status::stored);
  const std::array<page_part, 1> parts{page_part{to.data(), 4096}};
  auto got = calls.get({get_page{key, parts}});
  auto found = calls.exists({key});
  EXPECT_EQ(got.get().at(0).status, status::hit);
  EXPECT_TRUE(std::ranges::equal(to, bytes));
  EXPECT_EQ(found.get().at(0).status, status::hit);
}

TEST_F(connected_client_test, a_call_beyond_the_limit_is_refused_at_once) {
  connect();
  async_calls calls{*client, 0};
  const auto refused = calls.exists({key, key}).get();
  ASSERT_EQ(refused.size(), 2u);
  EXPECT_EQ(refused[1].status, status::refused);
}

TEST_F(connected_client_test, calls_end_before_the_object_that_began_them) {
  connect();
  std::future<async_calls::results> got;
  const std::array<page_part, 1> parts{page_part{to.data(), 4096}};
  EXPECT_EQ(set(), status::stored);
  {
    async_calls calls{*client};
    got = calls.get({get_page{key, parts}});
  }
  EXPECT_EQ(got.wait_for(0s), std::future_status::ready);
}

TEST_F(connected_client_test, a_node_of_another_cluster_is_not_waited_for) {
  node.says.refuses = "it belongs to cluster 'blue'";
  const auto made = try_to_connect();
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().code, errc::incompatible);
  EXPECT_NE(made.error().message.find("cluster 'blue'"), std::string::npos);
}

} // namespace
} // namespace peercache::client
