#include "directory/wire.hpp"
#include "discovery/view_codec.hpp"
#include "link/connector_actor.hpp"
#include "link/protocol/message_types.hpp"
#include "link/system_config.hpp"
#include "local_ring.hpp"
#include <optional>

namespace peercache::real {

namespace {

using namespace link;

/// A program that greets the nodes as a node does, so that it can publish false records in
/// directory shards.
class stale_record : public local_ring {
protected:
  void SetUp() override {
    local_ring::SetUp();
    caf::scoped_actor self{system_};
    auto connector = system_.spawn(run_connector, milliseconds(300), std::nullopt);
    auto failed = [&](const caf::error& why) { ADD_FAILURE() << system_.render(why); };
    for (std::size_t i = 0; i < 3; ++i) {
      gateway_actor gateway;
      self->request(connector, std::chrono::seconds(5), dial_atom_v, std::string{"127.0.0.1"},
                    node(i).ports().control_port, std::string(), from_here{})
          .receive([&](gateway_actor& found) { gateway = std::move(found); }, failed);
      self->request(gateway, std::chrono::seconds(5), hello_atom_v, wire_version, cluster(),
                    std::string{"test"})
          .receive([&](peer_welcome& welcome) { welcomes_.push_back(std::move(welcome)); }, failed);
    }
    self->send_exit(connector, caf::exit_reason::user_shutdown);
  }

  void TearDown() override {
    welcomes_.clear();
    system_.await_actors_before_shutdown(false);
    local_ring::TearDown();
  }

  /// Publishes in every shard a false record: that node `holder` has the page.
  void publish_lie(std::uint32_t id, std::size_t holder) {
    auto member = discovery::decode_member(welcomes_[holder].member);
    ASSERT_TRUE(member);
    directory::publish_record lie;
    lie.key = key_of(id);
    lie.location.node = member->id;
    lie.location.holder = member->inc;
    lie.location.gen = {std::uint64_t{1} << 40};
    lie.location.length_bytes = page_bytes;
    std::string batch;
    directory::append_publish(batch, lie);
    caf::scoped_actor self{system_};
    for (const auto& welcome : welcomes_)
      self->request(welcome.directory, std::chrono::seconds(5), publish_atom_v, batch)
          .receive([](const std::string& outcome) { EXPECT_EQ(outcome, std::string(1, '\0')); },
                   [](const caf::error&) { ADD_FAILURE() << "not published"; });
  }

private:
  system_config config_{1};
  caf::actor_system system_{config_};
  std::vector<peer_welcome> welcomes_;
};

} // namespace

TEST_F(stale_record, is_gone_after_its_first_reader_and_the_key_can_be_cached_again) {
  // The false record names node 1: at first the reader is at another host, then at node 1's.
  for (std::size_t reader_host : {0u, 1u}) {
    SCOPED_TRACE(reader_host);
    auto id = static_cast<std::uint32_t>(reader_host);
    auto reader = client_of(reader_host);
    publish_lie(id, 1);
    ASSERT_EQ(count_existing(*reader, id, 1), 1u);
    EXPECT_EQ(to_string(get(*reader, id).result.status), to_string(page_status::stale));
    EXPECT_TRUE(within(milliseconds(5000), [&] { return count_existing(*reader, id, 1) == 0; }));
    auto producer = client_of(2);
    put(*producer, id, 1);
    EXPECT_EQ(to_string(get(*reader, id).result.status), to_string(page_status::hit));
  }
}

TEST_F(stale_record, is_gone_after_a_remove_that_found_nothing) {
  auto client = client_of(0);
  publish_lie(7, 1);
  auto key = key_of(7);
  client::page_result removed;
  client->remove({&key, 1}, {&removed, 1});
  EXPECT_EQ(to_string(removed.status), to_string(page_status::not_found));
  EXPECT_TRUE(within(milliseconds(5000), [&] { return count_existing(*client, 7, 1) == 0; }));
}

} // namespace peercache::real
