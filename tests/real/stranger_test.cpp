// Attacks by a program that speaks the protocol and is no client of ours.

#include "directory/wire.hpp"
#include "discovery/view_codec.hpp"
#include "link/protocol/message_types.hpp"
#include "link/protocol/pool_wire.hpp"
#include "link/system_config.hpp"
#include "local_ring.hpp"
#include "storage/pool_memory.hpp"

#include <array>
#include <caf/all.hpp>
#include <caf/io/all.hpp>

namespace peercache::real::stranger_test {

namespace {

using namespace link;

session_listener::behavior_type deaf(session_listener::pointer) {
  return {[](view_atom, const std::string&) {}, [](beat_atom) {}};
}

/// A CAF program that connects to the nodes' gateways, as any program may.
class foreign_program : public local_ring {
protected:
  void SetUp() override {
    local_ring::SetUp();
    if (HasFatalFailure())
      return;
    for (std::size_t i = 0; i < 3; ++i) {
      const auto found =
          system_.middleman().remote_actor("127.0.0.1", node(i).ports().control_port);
      ASSERT_TRUE(found);
      gateways_.push_back(caf::actor_cast<gateway_actor>(*found));
      const auto welcome = ask<peer_welcome>(gateways_.back(), hello_atom_v, wire_version,
                                             cluster(), std::string{"me"});
      ASSERT_TRUE(welcome);
      shards_.push_back(welcome->directory);
    }
    events_ = system_.spawn(deaf);
  }
  void TearDown() override {
    caf::anon_send_exit(events_, caf::exit_reason::user_shutdown);
    events_ = nullptr;
    gateways_.clear();
    shards_.clear();
    system_.await_actors_before_shutdown(false);
    local_ring::TearDown();
  }

  template <class Answer, class Handle, class... Args>
  std::optional<Answer> ask(const Handle& whom, Args... args) {
    std::optional<Answer> answer;
    self_->request(whom, std::chrono::seconds(5), std::move(args)...)
        .receive([&](Answer& value) { answer = std::move(value); }, [](const caf::error&) {});
    return answer;
  }

  std::optional<directory::page_location> location_of(const directory_actor& shard,
                                                      const page_key& key) {
    std::string request;
    directory::append_lookup(request, key);
    const auto answer = ask<std::string>(shard, lookup_atom_v, request);
    std::array<directory::page_location, limits::locations_per_key_max> found;
    std::size_t count = 0;
    if (!answer || !directory::answer_reader{*answer}.next(found, count) || count == 0)
      return std::nullopt;
    return found[0];
  }

  /// Commits a page at node 1. Returns one status byte a page; nothing when the node refuses the
  /// commit.
  std::optional<std::string> commit(std::uint64_t session, const filled_slot& page,
                                    const std::string& next_lengths) {
    std::string filled;
    append_record(filled, page);
    std::optional<std::string> statuses;
    self_
        ->request(gateways_.front(), std::chrono::seconds(5), commit_atom_v, session, filled,
                  std::uint8_t{0}, next_lengths)
        .receive([&](std::string& said, const std::string&) { statuses = said; },
                 [](const caf::error&) {});
    return statuses;
  }

  system_config config_{1};
  caf::actor_system system_{config_};
  caf::scoped_actor self_{system_};
  std::vector<gateway_actor> gateways_;
  std::vector<directory_actor> shards_;
  session_listener events_;
};

} // namespace

/// Slots hold the bytes of earlier pages: a program that could commit a slot which it has not
/// filled would read them.
TEST_F(foreign_program, that_has_not_mapped_the_pool_gets_no_slot_and_commits_none) {
  put(*client_of(0), 0, 20);
  const auto& gateway = gateways_.front();
  const auto session = ask<session_welcome>(gateway, session_atom_v, std::string{"me"}, events_);
  ASSERT_TRUE(session);
  std::string lengths;
  append_record(lengths, std::uint32_t{page_bytes});
  EXPECT_FALSE(ask<std::string>(gateway, reserve_atom_v, session->session, lengths));
  const filled_slot page{.key = key_of(1000), .slot = {0}, .length_bytes = page_bytes};
  EXPECT_FALSE(commit(session->session, page, lengths));
  EXPECT_NE(get(*client_of(0), 1000).result.status, page_status::hit);
}

TEST_F(foreign_program, that_has_mapped_the_pool_publishes_nothing_that_it_has_not_filled) {
  const auto& gateway = gateways_.front();
  const auto session = ask<session_welcome>(gateway, session_atom_v, std::string{"me"}, events_);
  ASSERT_TRUE(session);
  const auto owner = discovery::decode_member(session->member);
  ASSERT_TRUE(owner);
  auto pool = storage::pool_memory::attach(session->pool_name, owner->inc);
  ASSERT_TRUE(pool) << pool.error().message;
  ASSERT_TRUE(pool->lock_session(session->lock_index));
  std::string lengths;
  append_record(lengths, std::uint32_t{page_bytes});
  for (const bool fills : {false, true}) {
    const auto slots = ask<std::string>(gateway, reserve_atom_v, session->session, lengths);
    ASSERT_TRUE(slots);
    const filled_slot page{.key = key_of(fills ? 1001 : 1000),
                           .slot = record_at<slot_id>(*slots, 0),
                           .length_bytes = page_bytes};
    if (fills) {
      bench::fill_page(1001, 0, pool->slots().bytes(page.slot, page_bytes));
      pool->slots().fill(page.slot, page.key, page.length_bytes, 0);
    }
    const auto statuses = commit(session->session, page, {});
    ASSERT_TRUE(statuses);
    EXPECT_EQ(static_cast<page_status>(statuses->at(0)),
              fills ? page_status::stored : page_status::refused);
    const auto read = get(*client_of(0), fills ? 1001 : 1000);
    EXPECT_EQ(read.result.status, fills ? page_status::hit : page_status::not_found);
  }
}

/// A record that the program made itself, without a checksum, must not spare readers the
/// comparison.
TEST_F(foreign_program, whose_record_has_no_checksum_makes_no_hit_where_checksums_are_compared) {
  const auto key = key_of(1);
  put(*client_of(0), 1, 1);
  std::optional<directory::page_location> location;
  for (const auto& shard : shards_)
    if (auto known = location_of(shard, key))
      location = known;
  ASSERT_TRUE(location);
  EXPECT_NE(location->checksum, 0u);
  std::string withdrawal, publication;
  directory::append_withdraw(withdrawal, {key, location->holder, location->gen});
  location->checksum = 0;
  directory::append_publish(publication, {key, *location, directory::publish_mode::always});
  for (const auto& shard : shards_) {
    EXPECT_TRUE(ask<std::uint64_t>(shard, withdraw_atom_v, withdrawal));
    EXPECT_TRUE(ask<std::string>(shard, publish_atom_v, publication));
    EXPECT_EQ(location_of(shard, key).value_or(directory::page_location{}).gen, location->gen);
  }
  EXPECT_EQ(get(*client_of(1), 1).result.status, page_status::corrupt);
  const auto own = get(*client_of(0), 1);
  EXPECT_EQ(own.result.status, page_status::hit) << "its host asks nobody";
  EXPECT_EQ(own.check.wrong_bytes, 0u);
}

} // namespace peercache::real::stranger_test
