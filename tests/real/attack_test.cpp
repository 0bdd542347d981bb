// Tests of hostile programs at the ports of three nodes, while a well-behaved client works. Each
// test makes one kind of attack; scripts/attack runs all of them.

#include "attack_ring.hpp"
#include "directory/wire.hpp"
#include "net/frame_channel.hpp"
#include "rdma/tcp/tcp_protocol.hpp"

#include <random>

namespace peercache::real::attack_test {

namespace {

TEST_F(attack, idle_connections_on_every_port_are_cut_off_and_cost_little) {
  constexpr std::size_t each = 1200;
  const auto before = rss_kib();
  for (const auto port : {control_port(), lookup_port(), data_port()}) {
    const auto idle = connect_many(port, each);
    expect_cut_off(idle);
  }
  EXPECT_LT(rss_kib(), before + 3 * each * 1024 / 64) << "16 KiB for each at most";
}

TEST_F(attack, greeted_connections_that_ask_nothing_cost_no_processor_time) {
  const auto view = current_view();
  const auto* host = view.find_name(node(0).launch().name);
  ASSERT_NE(host, nullptr);
  const auto greeting = net::frames::greeting(wire_version, cluster(), host->inc);
  const auto port = lookup_port();
  sockets idle;
  for (int i = 0; i < 1000; ++i) {
    idle.push_back(connect_to(port));
    say(idle.back(), greeting);
  }
  expect_unhurt(); // Ends the good client, so that only the connections cost processor time.
  // The least of three measurements counts, because the node's occasional work, such as scrubbing
  // slots, falls into some of them only.
  const auto least_of_three = [this] {
    double least = 1;
    for (int look = 0; look < 3; ++look) {
      const auto before = cpu_ticks();
      // The measurement lasts for this second.
      std::this_thread::sleep_for(std::chrono::seconds(1));
      least = std::min(least, static_cast<double>(cpu_ticks() - before) /
                                  static_cast<double>(::sysconf(_SC_CLK_TCK)));
    }
    return least;
  };
  const auto with = least_of_three();
  EXPECT_EQ(std::ranges::count_if(idle, is_closed), 0);
  idle.clear();
  EXPECT_LT(with, least_of_three() + 0.05);
}

TEST_F(attack, random_bytes_on_every_port) {
  std::mt19937_64 random(7);
  for (const auto port : all_ports())
    for (int i = 0; i < 150; ++i) {
      const auto one = connect_to(port);
      std::string noise(random() % 300, '\0');
      for (auto& c : noise)
        c = static_cast<char>(random());
      say(one, noise);
    }
}

TEST_F(attack, lengths_that_are_only_announced_cost_no_memory) {
  const auto before = rss_kib();
  sockets liars;
  for (int i = 0; i < 10; ++i) {
    liars.push_back(connect_to(control_port()));
    std::string header(caf::io::basp::header_size, '\0');
    header[0] = 1; // BASP's operation client_handshake.
    header.replace(4, 4, 4, '\xff');
    say(liars.back(), header);
    liars.push_back(connect_to(lookup_port()));
    say(liars.back(), std::string(36, '\xff'));
    liars.push_back(connect_to(data_port()));
    say(liars.back(), std::string(48, '\xff'));
    liars.push_back(connect_to(http_port()));
    say(liars.back(), "POST / HTTP/1.1\r\nContent-Length: 4000000000\r\n\r\n");
  }
  expect_cut_off(liars);
  EXPECT_LT(rss_kib(), before + liars.size() * 1024);
}

TEST_F(attack, slow_and_greedy_http_clients) {
  sockets dripping = connect_many(http_port(), 100);
  std::string ranges = "GET /metrics HTTP/1.1\r\nHost: x\r\nRange: bytes=0-";
  while (ranges.size() < 8000)
    ranges += ",0-";
  const auto before = rss_kib();
  for (int i = 0; i < 18; ++i) {
    dripping.push_back(connect_to(http_port()));
    say(dripping.back(), ranges + "\r\n\r\n");
  }
  for (int i = 0; i < 20; ++i) {
    for (const auto& each : dripping)
      say(each, "x");
    httplib::Client http{"127.0.0.1", http_port()};
    http.set_read_timeout(1);
    const auto answer = http.Get("/healthz");
    EXPECT_TRUE(answer && answer->status == 200);
  }
  EXPECT_LT(rss_kib(), before + 118 * 1024);
  expect_cut_off(dripping);
}

/// Returns the bytes with which a reader asks a page server for this page.
std::string request_for(const page_key& key, const directory::page_location& where,
                        const std::string& cluster) {
  rdma::hello hello;
  hello.cluster = rdma::cluster_digest(cluster);
  hello.inc = where.holder;
  const rdma::request_header header{rdma::request_magic, 1, 1};
  const rdma::request_record record{key, where.gen, where.slot, where.length_bytes, {}};
  std::string request;
  const auto add = [&](const auto& piece) {
    request.append(reinterpret_cast<const char*>(&piece), sizeof piece);
  };
  add(hello);
  add(header);
  add(record);
  return request;
}

TEST_F(attack, readers_that_take_their_pages_slowly) {
  // Together the slow readers ask for more bytes than the node may pin for answers, and receive
  // almost none.
  constexpr std::uint32_t large_id = 100'000;
  constexpr std::size_t readers = 20;
  std::vector<std::byte> bytes(16u << 20);
  client::const_part part{bytes.data(), static_cast<std::uint32_t>(bytes.size())};
  client::set_page page{key_of(large_id), {&part, 1}};
  client::page_result stored;
  owner_->set({&page, 1}, {&stored, 1});
  ASSERT_EQ(stored.status, page_status::stored);
  std::optional<directory::page_location> where;
  ASSERT_TRUE(within(milliseconds(5000), [&] {
    for (const auto& shard : shards_)
      if (auto known = location_of(shard, page.key))
        where = known;
    return where.has_value();
  }));
  const auto request = request_for(page.key, *where, cluster());
  sockets slow(readers);
  for (int round = 0; round < 30; ++round) {
    for (auto& each : slow) {
      char some[1000];
      if (!each || ::recv(each.get(), some, sizeof some, MSG_DONTWAIT) == 0) {
        each = connect_to(data_port());
        say(each, request);
      }
    }
    std::this_thread::sleep_for(milliseconds(100)); // A slow reader pauses between its small reads.
  }
}

TEST_F(attack, forged_views_ballots_and_joins) {
  using namespace discovery;
  const auto view = current_view();
  for (std::size_t i = 0; i < 3; ++i) {
    const auto victim = membership_of(i);
    auto last = view;
    last.term = std::uint64_t{1} << 62;
    forge(victim, view_packet{last});
    auto latest = view;
    latest.version = std::uint64_t{1} << 62;
    forge(victim, view_packet{latest});
    const auto& other = view.members[(i + 1) % 3];
    forge(victim, prepare_packet{control_endpoint(other),
                                 other.id,
                                 view.stamp(),
                                 {std::uint64_t{1} << 62, other.inc}});
    for (int ghost = 0; ghost < 50; ++ghost) {
      join_packet join;
      join.who = other;
      join.who.name = "ghost-" + std::to_string(ghost);
      join.who.id = node_id_of(join.who.name);
      join.who.control_port = 1;
      join.who.inc = ghost % 2 == 0 ? other.inc : incarnation::random();
      join.known = view.stamp();
      forge(victim, join);
    }
  }
  // After the attack the cluster must still decide: it expels a node that dies and takes it in
  // again.
  const auto members = [this] { return current_view().members.size(); };
  ASSERT_TRUE(within(milliseconds(5000), [&] { return members() == 3; })) << members();
  EXPECT_EQ(current_view().term, view.term);
}

TEST_F(attack, messages_that_only_the_node_itself_may_send) {
  const auto encoded = discovery::encode_view(current_view());
  for (std::size_t i = 0; i < 3; ++i) {
    const auto shard = caf::actor_cast<caf::actor>(shards_[i]);
    const auto membership = caf::actor_cast<caf::actor>(membership_of(i));
    const auto gateway = caf::actor_cast<caf::actor>(gateways_[i]);
    caf::anon_send(shard, leave_atom_v, encoded);
    caf::anon_send(shard, give_atom_v, true, std::uint32_t{1000});
    caf::anon_send(membership, leave_atom_v);
    caf::anon_send(membership, drain_atom_v, true);
    caf::anon_send(gateway, tell_atom_v);
    for (int n = 0; n < 2000; ++n) {
      caf::anon_send(shard, beat_atom_v);
      caf::anon_send(membership, beat_atom_v);
      caf::anon_send(gateway, beat_atom_v);
    }
  }
  EXPECT_EQ(count_existing(*owner_, 0, pages), pages);
  EXPECT_EQ(current_view().members.size(), 3u);
}

} // namespace

} // namespace peercache::real::attack_test
