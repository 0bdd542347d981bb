// Tests of what the methods of a client return while there is no node, and after the client was
// closed.

#include "client/cache_client.hpp"

#include "net/socket.hpp"

#include <gtest/gtest.h>

#include <array>
#include <vector>

namespace peercache::client {
namespace {

using namespace std::chrono_literals;
using status = page_status;

class cache_client_test : public testing::Test {
protected:
  void SetUp() override {
    client_options options;
    options.node_port = net::local_port(nobody);
    options.wait_for_node = false;
    auto made = cache_client::connect(options);
    ASSERT_TRUE(made) << made.error().message;
    client = std::move(*made);
  }

  std::vector<page_result> set(std::size_t results_count) {
    std::vector<page_result> results(results_count);
    client->set(std::vector<set_page>(2, {key, from}), results);
    return results;
  }
  std::vector<page_result> get(std::size_t results_count) {
    std::vector<page_result> results(results_count);
    client->get(std::vector<get_page>(2, {key, to}), results);
    return results;
  }
  std::vector<page_result> exists(std::size_t results_count) {
    std::vector<page_result> results(results_count);
    client->exists(std::vector<page_key>(2, key), results);
    return results;
  }
  std::vector<page_result> remove(std::size_t results_count,
                                  remove_scope scope = remove_scope::holders) {
    std::vector<page_result> results(results_count);
    client->remove(std::vector<page_key>(2, key), results, {}, scope);
    return results;
  }
  static void expect_all(const std::vector<page_result>& results, page_status wanted) {
    for (const auto& result : results) {
      EXPECT_EQ(result.status, wanted) << to_string(result.status);
      EXPECT_EQ(result.origin, page_origin::none);
    }
  }
  std::uint64_t counted(const std::uint64_t (&pages)[page_status_count], page_status of) const {
    return pages[static_cast<std::size_t>(of)];
  }

  net::unique_fd nobody = *net::hold_port("127.0.0.1", 0);
  const page_key key = key_space{}.key_of("page");
  std::array<std::byte, 4096> bytes{};
  const std::array<const_part, 1> from{const_part{bytes.data(), 4096}};
  const std::array<page_part, 1> to{page_part{bytes.data(), 4096}};
  std::unique_ptr<cache_client> client;
};

TEST_F(cache_client_test, without_a_node_every_page_is_out_of_reach) {
  expect_all(set(2), status::unreachable);
  expect_all(get(2), status::unreachable);
  expect_all(exists(2), status::unreachable);
  expect_all(remove(2), status::unreachable);
  expect_all(remove(2, remove_scope::every_node), status::unreachable);
}

TEST_F(cache_client_test, without_a_node_nothing_is_certain_and_nothing_under_way) {
  EXPECT_FALSE(client->clear("llama"));
  EXPECT_EQ(client->flush()->failed, 0u);
  EXPECT_EQ(client->locate(std::array{key}).error().code, errc::unreachable);
  EXPECT_EQ(client->locate({})->size(), 0u);
  EXPECT_EQ(client->locate_each(std::array{key})->at(0).status, status::unreachable);
  EXPECT_TRUE(client->nodes_gone().empty());
  EXPECT_EQ(client->view(), discovery::view{});
  client->prefetch(std::array{key});
}

TEST_F(cache_client_test, a_caller_with_another_number_of_results_gets_no_page) {
  for (const std::size_t results : {1u, 3u}) {
    expect_all(set(results), status::bad_size);
    expect_all(get(results), status::bad_size);
    expect_all(exists(results), status::bad_size);
    expect_all(remove(results), status::bad_size);
  }
  const auto now = client->stats();
  EXPECT_EQ(counted(now.get_pages, status::bad_size), 0u) << "no call was made";
}

TEST_F(cache_client_test, each_page_is_counted_by_what_became_of_it) {
  set(2);
  get(2);
  exists(2);
  exists(2);
  const auto now = client->stats();
  EXPECT_EQ(counted(now.set_pages, status::unreachable), 2u);
  EXPECT_EQ(counted(now.get_pages, status::unreachable), 2u);
  EXPECT_EQ(counted(now.exists_pages, status::unreachable), 4u);
  EXPECT_EQ(now.set_bytes, 0u);
  EXPECT_EQ(now.directory_messages, 0u);
}

TEST_F(cache_client_test, after_its_end_every_call_says_so) {
  client->close();
  client->close();
  expect_all(set(2), status::closed);
  expect_all(get(2), status::closed);
  expect_all(exists(2), status::closed);
  expect_all(remove(2), status::closed);
  EXPECT_EQ(client->flush().error().code, errc::closed);
  EXPECT_EQ(client->locate(std::array{key}).error().code, errc::closed);
  EXPECT_EQ(client->register_buffer(bytes).error().code, errc::closed);
  EXPECT_NE(client->clear("llama").why_not.find("closed"), std::string::npos);
  client->prefetch(std::array{key});
  client->unregister_buffer(bytes.data());
  EXPECT_EQ(counted(client->stats().get_pages, status::closed), 0u) << "no call was made";
}

TEST_F(cache_client_test, over_tcp_every_buffer_is_as_good_as_another) {
  EXPECT_TRUE(client->register_buffer(bytes));
  EXPECT_TRUE(client->register_buffer(bytes)) << "nothing is registered";
  client->unregister_buffer(bytes.data());
  EXPECT_EQ(client->data_plane().substr(0, 3), "tcp") << client->data_plane();
}

TEST_F(cache_client_test, who_waits_for_a_node_is_told_that_none_is_there) {
  client_options options;
  options.node_port = net::local_port(nobody);
  options.timeout = 50ms;
  const auto made = cache_client::connect(options);
  ASSERT_FALSE(made);
  EXPECT_NE(made.error().message.find("no peercache-node answers at 127.0.0.1"), std::string::npos)
      << made.error().message;
}

TEST_F(cache_client_test, a_data_plane_without_a_device_is_refused_where_it_is_demanded) {
  client_options options;
  options.wait_for_node = false;
  options.rails.mode = rdma::plane_mode::verbs;
  options.rails.devices = {"no_such_device"};
  const auto made = cache_client::connect(options);
  ASSERT_FALSE(made);
  EXPECT_FALSE(made.error().message.empty());
}

} // namespace
} // namespace peercache::client
