#include "client/admin_client.hpp"

#include "discovery/view_codec.hpp"
#include "link/system_config.hpp"
#include "tests/client/actors/fake_node.hpp"

#include <caf/io/all.hpp>

namespace peercache::client {
namespace {

using namespace std::chrono_literals;

/// An `admin_client` and a node for it: a fake gateway that is published on loopback.
class admin_client_test : public testing::Test {
protected:
  void SetUp() override {
    node.report.member = node.welcome.member;
    auto published = system.middleman().publish(gateway, 0, "127.0.0.1");
    ASSERT_TRUE(published) << system.render(published.error());
    port = *published;
    link::leave_actor_system();
  }
  void TearDown() override {
    admin.reset();
    {
      caf::scoped_actor self{system};
      self->send_exit(gateway, caf::exit_reason::user_shutdown);
      self->wait_for(gateway);
    }
    gateway = nullptr;
    link::leave_actor_system();
  }
  /// Connects, and tries again after a time-out, because on a busy machine a dial may take longer
  /// than its limit of a second.
  result<std::unique_ptr<admin_client>> try_to_connect(const std::string& cluster,
                                                       std::chrono::milliseconds timeout) const {
    for (;;) {
      auto made = admin_client::connect("127.0.0.1", port, cluster, timeout);
      link::leave_actor_system();
      if (made || made.error().code != errc::timed_out)
        return made;
    }
  }
  void connect(std::chrono::milliseconds timeout = 60s) {
    auto made = try_to_connect("test", timeout);
    ASSERT_TRUE(made) << made.error().message;
    admin = std::move(*made);
  }

  storage::pool_memory memory = make_small_pool();
  fake_node node = fake_node_of(memory);
  link::system_config config{1};
  caf::actor_system system{config};
  link::gateway_actor gateway = system.spawn(run_fake_gateway, &node);
  std::uint16_t port = 0;
  std::unique_ptr<admin_client> admin;
};

TEST_F(admin_client_test, a_status_is_what_the_node_reports) {
  using metrics::metric;
  metrics::latency_histogram took;
  took.record_ns(1000);
  auto& says = node.report;
  says.unready_reason = "none";
  says.data_plane = "tcp: no RDMA device";
  says.version = "1.2.3";
  says.samples.set(metric::ready, true);
  says.samples.set(metric::pool_pages, 7);
  says.samples.set(metric::hits_total, {"disk"}, 8);
  says.samples.set(metric::op_seconds, {"get"}, took.snapshot());
  says.directory.records_of["other"] = 9;
  says.disk.why_off = "disk.path is not set";
  connect();
  const auto status = admin->status();
  ASSERT_TRUE(status) << status.error().message;
  EXPECT_EQ(status->self.name, "fake");
  EXPECT_EQ(status->self.inc, memory.owner());
  EXPECT_EQ(status->unready_reason, "none");
  EXPECT_EQ(status->data_plane, "tcp: no RDMA device");
  EXPECT_EQ(status->version, "1.2.3");
  EXPECT_TRUE(status->is(metric::ready));
  EXPECT_FALSE(status->is(metric::is_leader));
  EXPECT_EQ(status->count(metric::pool_pages), 7u);
  EXPECT_EQ(status->samples.count(metric::hits_total, {"disk"}), 8u);
  EXPECT_EQ(status->samples.latency(metric::op_seconds, {"get"}).count, 1u);
  EXPECT_EQ(status->directory.records_of.at("other"), 9u);
  EXPECT_EQ(status->disk.why_off, "disk.path is not set");
}

TEST_F(admin_client_test, a_report_of_nobody_is_an_error) {
  node.report.member = "garbage";
  connect();
  EXPECT_FALSE(admin->status());
}

TEST_F(admin_client_test, the_view_is_the_nodes_or_none_while_it_has_none) {
  connect();
  EXPECT_EQ(*admin->view(), discovery::view{});
  discovery::view view{.term = 1, .version = 2};
  view.members.push_back(member_of(memory, "fake"));
  view.masters = {"fake"};
  node.view = [&] { return discovery::encode_view(view); };
  EXPECT_EQ(*admin->view(), view);
  node.view = [] { return std::string{"garbage"}; };
  EXPECT_FALSE(admin->view());
}

TEST_F(admin_client_test, what_a_disk_is_to_do_begins_where_there_is_one) {
  connect();
  EXPECT_EQ(admin->verify_disk().error().code, errc::not_found);
  EXPECT_EQ(admin->evict_disk(5).error().code, errc::not_found);
  node.has_disk = true;
  EXPECT_TRUE(admin->verify_disk());
  EXPECT_TRUE(admin->evict_disk(7));
  EXPECT_EQ(node.evicted_bytes, 12u);
}

TEST_F(admin_client_test, a_node_is_drained_for_a_while_or_for_good) {
  connect();
  EXPECT_EQ(admin->set_drained(true, 1ms)->given, 7u) << "records that went to their new owners";
  EXPECT_EQ(admin->set_drained(false, 1ms)->given, 0u);
  EXPECT_TRUE(admin->drain());
}

TEST_F(admin_client_test, a_clear_names_the_space_and_who_is_gone_for_good) {
  node.clear_answer.unaware = {"node7"};
  node.clear_answer.why_not = "node7 has not confirmed it";
  connect();
  const auto report = admin->clear("llama", {"node3", "node9"}, 1s);
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_FALSE(report->certain);
  EXPECT_EQ(report->unaware, std::vector<std::string>{"node7"});
  EXPECT_EQ(report->why_not, "node7 has not confirmed it");
  EXPECT_EQ(node.cleared, std::vector{space_named("llama").value});
  EXPECT_EQ(node.gone, "node3\nnode9\n");
}

TEST_F(admin_client_test, a_node_that_goes_is_an_error_of_every_question) {
  connect(200ms);
  caf::anon_send_exit(gateway, caf::exit_reason::kill);
  const auto status = admin->status();
  ASSERT_FALSE(status);
  EXPECT_TRUE(status.error().message.starts_with("the node does not say: "))
      << status.error().message;
  EXPECT_FALSE(admin->view());
  EXPECT_FALSE(admin->verify_disk());
  EXPECT_FALSE(admin->drain());
  EXPECT_FALSE(admin->set_drained(true, 1ms));
  EXPECT_FALSE(admin->clear("", {}, 1ms));
}

TEST_F(admin_client_test, a_node_of_another_cluster_says_so_itself) {
  node.refuses = "it belongs to cluster 'test', not to 'other'";
  const auto made = try_to_connect("other", 60s);
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().code, errc::incompatible);
  EXPECT_NE(made.error().message.find(node.refuses), std::string::npos) << made.error().message;
}

TEST_F(admin_client_test, a_name_that_cannot_be_resolved_is_out_of_reach) {
  const std::string name(300, 'a'); // Longer than any host name may be, so no DNS server is asked.
  const auto made = admin_client::connect(name, port, "test", 60s);
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().code, errc::unreachable);
  EXPECT_NE(made.error().message.find(name), std::string::npos) << made.error().message;
}

} // namespace
} // namespace peercache::client
