#pragma once

#include "client/calls/read_plan.hpp"
#include "client/lookup/location_cache.hpp"
#include "client/lookup/lookup_plan.hpp"
#include "client/notes/stale_records.hpp"
#include "client/pool/host_pages.hpp"
#include "client/read/peer_health.hpp"
#include "directory/member_shard.hpp"
#include "directory/publisher.hpp"
#include "discovery/followed_view.hpp"
#include "discovery/membership.hpp"
#include "link/protocol/pool_wire.hpp"
#include "storage/host_index.hpp"
#include "storage/page_pool.hpp"
#include "storage/slot_table.hpp"
#include "tests/scenario/disk.hpp"
#include "tests/scenario/known_cluster.hpp"
#include "tests/scenario/script.hpp"
#include "tests/support/history.hpp"

#include <chrono>
#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace peercache::scenario {

class cluster;
struct host;

/// Longest wait for the answer of a directory owner.
constexpr auto directory_timeout = std::chrono::milliseconds(1000);

/// A page that a client of the simulated cluster asks for.
struct wanted_page {
  page_key key;
  std::uint32_t length_bytes = 0;
};
using pages_got = std::function<void(std::span<const client::page_result>)>;
using keys_looked_up = std::function<void(std::span<const client::lookup_answer>)>;
/// Takes the places of keys that an owner has answered for, while other owners are still asked, and
/// all answers; an answer is final unless it is `pending`.
using keys_told =
    std::function<void(std::span<const std::uint32_t>, std::span<const client::lookup_answer>)>;

/// What the clients of one node have learnt.
struct client_memory {
  client::location_cache locations{64};
  client::stale_records stale;
  client::peer_health health;
};

/// One incarnation of a node, with the node's clients. It connects the product's own classes as the
/// actors of a real node do; where actors send messages, it calls the simulated cluster.
class process {
public:
  process(cluster& in, host& on);

  host& on() const noexcept { return host_; }
  const incarnation& inc() const noexcept { return inc_; }
  discovery::membership& machine() noexcept { return *machine_; }
  const discovery::membership& machine() const noexcept { return *machine_; }
  const discovery::view& view() const noexcept { return known_->view; }
  const discovery::hash_ring& ring() const noexcept { return *known_->ring; }
  const directory::shard& shard() const noexcept { return shard_.records(); }
  const storage::page_pool& pool() const noexcept { return *pool_; }
  storage::slot_table& slots() noexcept { return here_.slots; }
  /// Whether this process has nothing to tell the directory: no message waits to be sent, and only
  /// comparisons wait for answers.
  bool settled() const noexcept { return publisher_->idle(); }
  /// Returns the page that this process has of the key, as the directory should record it; nothing
  /// when the process has none.
  std::optional<directory::held_page> held(const page_key& key) const;
  /// Whether the page is in memory as a mirror, on which other nodes must not rely.
  bool mirrors(const page_key& key) const;
  std::uint64_t repair_passes() const noexcept { return publisher_->repaired().passes; }
  /// How many times owners have to be told of pages again.
  std::size_t unpublished() const noexcept { return publisher_->unpublished(); }
  /// Whether this process is leaving or draining, so that the view is about to change.
  bool departs() const noexcept { return leaving_ || shard_.gives(); }
  bool joined() const noexcept { return view().find(inc_) != nullptr; }
  bool has_left() const noexcept { return machine_->state() == discovery::membership::phase::left; }
  std::uint32_t pins() const;

  // Methods by which the cluster passes events to the process.
  void tick();
  void receive(const std::string& packet);
  void peer_lost(const incarnation& inc);
  void set_drained(bool drained);
  void leave();

  // Methods that serve requests of other processes to this node's directory shard and pool.
  /// @param known the view of the sender; zero: it does not say
  std::string serve_publish(const std::string& batch, const directory::view_number& known);
  std::uint64_t serve_withdraw(const std::string& batch);
  std::string serve_lookup(const std::string& batch);
  std::string serve_promote(const page_key& key);
  std::string serve_reserve(const std::string& lengths);
  void serve_commit(const std::string& filled, link::commit_mode mode);
  void serve_abandon(const std::string& slots);
  std::string serve_remove(const std::string& keys);
  std::string serve_view() const;
  std::uint64_t serve_compare(const std::string& comparison) const;
  std::string serve_list(const std::string& request) const;

  // Methods that make calls as clients of this node.
  const known_cluster_ptr& clients_know() const noexcept { return clients_know_; }
  void tell_clients(const std::string& view);
  void operate();
  void put(const page_key& key, bool always);
  void remove(const page_key& key);
  /// Gets these pages as a client of the node; `done` gets each page's outcome; misses are legal.
  void get(const std::vector<wanted_page>& pages, pages_got done);
  void get(const wanted_page& page, std::function<void(page_status)> done);
  void exists(std::vector<page_key> keys, keys_looked_up done);
  /// Asks the directory for these keys, on behalf of a get, exists or remove. `done` is called
  /// once, unless the process has ended before. @param told may be empty
  void look_up(std::vector<page_key> keys, time_point until, keys_looked_up done,
               keys_told told = {});

  // Methods by which running calls of clients reach what the clients and the host share.
  client_memory& remembered() noexcept { return remembered_; }
  client::readers_cluster readers_know() const;
  /// The pool of this host as clients and node see it in shared memory.
  client::host_pages& here() noexcept { return here_; }
  /// Finds a page of this host's pool, as long as the node has not left.
  std::optional<directory::page_location> find_here(const page_key& key,
                                                    std::uint32_t length_bytes = 0) const {
    return has_left() ? std::nullopt : here_.find(key, length_bytes);
  }
  /// Tells the owners to withdraw false records that readers found; the messages may be lost.
  void tell_stale_records();

  // Methods that write entries into the history (tests/support/history.hpp), if the run has one.
  void record_hold(const page_key& key, std::span<const std::byte> bytes) const;
  tests::history::call_number record_ask(time_point until, std::string_view kind) const;
  void record_return(tests::history::call_number call) const;

private:
  // Methods that pass events to membership and follow its views.
  using membership_event =
      std::function<std::vector<discovery::action>(discovery::membership&, time_point local_now)>;
  void step(const membership_event& event);
  void adopt(const discovery::view& next);
  void sweep_later();
  void sweep_on();
  void clients_learn(const discovery::view& next);
  void clients_follow(const discovery::view& next);
  void clients_go_back();
  void shard_learns(const known_cluster_ptr& next);

  // Methods that drain the node and leave the cluster (process_hand_over.cpp).
  directory::member_shard::options shard_options() const;
  using afterwards = directory::member_shard::afterwards;
  void hand_over_shard(afterwards then, const std::function<void()>& done);
  void give_on();
  incarnation incarnation_of(node_id id) const;

  // Methods that tell the directory of the pool's pages (process_pool.cpp).
  directory::publisher_options publisher_options() const;
  void tick_pool();
  void follow_view();
  void compare_on();
  void compare_soon();
  void carry_out_orders();
  void carry_out(directory::publisher::tell& order);
  void carry_out(directory::publisher::take_back& order);
  void carry_out(directory::publisher::compare& order);
  void carry_out(directory::publisher::list& order);
  void carry_out(directory::publisher::settled& order);
  // The simulated `serve_remove` answers without waiting for this order.
  void carry_out(directory::publisher::withdrawn&) {}
  void carry_out(directory::publisher::has_left& order);
  template <class Order, class Serve, class... More>
  void ask_owner(Order& what, Serve serve, More... more);
  void record_drops();

  // Methods that use the host's disk (process_disk.cpp).
  void carry_out(directory::publisher::walk_disk& order);
  void carry_out(directory::publisher::acknowledge& order);
  void keep_on_disk(const storage::resident_page& page);
  void remove_from_disk(const std::string& keys);
  void write_to_disk(const disk::page& page);
  std::uint64_t put_of(const storage::resident_page& page) const;

  // Methods that draw the clients' random calls (process_workload.cpp).
  std::vector<page_key> some_keys();
  std::uint32_t length_for(const page_key& key);

  cluster& cluster_;
  host& host_;
  const incarnation inc_;
  std::unique_ptr<discovery::membership> machine_;

  known_cluster_ptr known_ = std::make_shared<const known_cluster>(); ///< State after the last view
                                                                      ///< that membership adopted.
  /// The view, with its rings, that the node's clients have: they learn each view a little after
  /// the node.
  known_cluster_ptr clients_know_ = known_;
  discovery::followed_view followed_;
  client_memory remembered_;
  /// When the latest view that is on its way to the clients reaches them.
  discovery::time_point clients_learn_at_{};
  /// When the latest view that is on its way to the shard reaches it.
  discovery::time_point shard_learns_at_{};
  /// The node's shard; learns each view a little after membership, in order.
  directory::member_shard shard_;
  bool drained_ = false;
  bool leaving_ = false;
  std::uint64_t foreign_ = 0; ///< Keys of look-ups that the shard neither knew nor owned.

  std::unique_ptr<slot_entry[]> entries_;
  std::unique_ptr<storage::client_entry[]> client_entries_;
  std::unique_ptr<std::byte[]> bytes_;
  std::unique_ptr<storage::host_index::bucket[]> buckets_;
  client::host_pages here_;
  std::unique_ptr<storage::page_pool> pool_;
  std::unique_ptr<directory::publisher> publisher_;
  /// Whether an event is planned that continues the comparison of pages with the directory.
  bool compares_soon_ = false;
  std::uint64_t tickets_ = 0; ///< Tickets that this process's disk has given out.
  /// Tickets of evictions from disk that the directory has not acknowledged: until then, the disk
  /// cannot use their room.
  std::set<std::uint64_t> tickets_open_;
  /// Keys of removals that the disk has not done yet: readers no longer get these pages.
  std::multiset<page_key> leaving_disk_;
  std::set<page_key> recorded_; ///< Keys of pages in memory according to the history; unused
                                ///< without a history.
  /// Number of the first puts after the start that are made, up to `warm_up_puts`.
  std::size_t warmed_ = 0;
};

} // namespace peercache::scenario
