#pragma once

#include "actors/publication.hpp"
#include "directory/shard.hpp"
#include "discovery/membership.hpp"
#include "storage/page_pool.hpp"
#include "storage/slot_table.hpp"
#include "tests/scenario/known_cluster.hpp"
#include "tests/scenario/lookup.hpp"
#include "tests/scenario/script.hpp"

#include <cstddef>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace peercache::scenario {

class cluster;
struct host;
struct get_operation;

/// One incarnation of a node with its clients: the real classes, joined the way the actors join
/// them, with calls of the simulated cluster where actors send messages.
class process {
public:
  process(cluster& in, host& on);

  host& on() const noexcept { return host_; }
  const incarnation& inc() const noexcept { return inc_; }
  discovery::membership& machine() noexcept { return *machine_; }
  const discovery::membership& machine() const noexcept { return *machine_; }
  const discovery::view& view() const noexcept { return known_->view; }
  const discovery::hash_ring& ring() const noexcept { return *known_->ring; }
  const directory::shard& shard() const noexcept { return shard_; }
  const storage::page_pool& pool() const noexcept { return *pool_; }
  storage::slot_table& slots() noexcept { return slots_; }
  bool settled() const noexcept;
  bool joined() const noexcept { return view().find(inc_) != nullptr; }
  std::uint32_t pins() const;
  /// Some owner knew as many locations of the key as it may, when this process published one.
  bool was_refused(const page_key& key) const { return refused_.count(key) > 0; }

  // Events.
  void tick();
  void receive(const std::string& packet);
  void peer_lost(const incarnation& inc);
  void set_draining(bool draining);
  void leave();

  // The directory shard and the pool, for other processes.
  std::string serve_publish(const std::string& batch);
  std::string serve_withdraw(const std::string& batch);
  std::string serve_lookup(const std::string& batch);
  std::string serve_promote(const page_key& key);
  std::string serve_view() const;

  // Clients of this node.
  const known_cluster_ptr& clients_know() const noexcept { return clients_know_; }
  void tell_clients(const std::string& view);
  void operate();
  void put(const page_key& key, bool always);
  void remove(const page_key& key);
  /// `done` gets whether it was a hit; misses are legal.
  void get(const page_key& key, std::function<void(bool)> done);
  void exists(std::vector<page_key> keys, lookup::told done);

private:
  // Membership.
  void step(std::vector<discovery::action> actions, discovery::membership::phase before);
  void adopt(const discovery::view& next);
  void forget_foreign_keys();
  void clients_learn(const discovery::view& next);

  // The pool's side of the directory.
  directory::page_location location_of(const storage::resident_page& page) const;
  std::optional<directory::page_location> own_location(const page_key& key) const;
  void publish(const std::vector<page_key>& keys, directory::publish_mode mode,
               std::function<void(actors::publication&)> done);
  void settle_commit(const page_key& key, generation gen, const actors::publication& said);
  void publish_next_chunk();
  void publish_moved(const known_cluster& before);
  void publish_everything();
  void give_up(const std::vector<storage::evicted>& pages);
  void send_withdrawals();
  void keep_on_disk(const page_key& key);
  std::optional<std::uint64_t> put_of(const storage::resident_page& page) const;

  // Clients (process_client.cpp).
  using operation = std::shared_ptr<get_operation>;
  std::vector<page_key> some_keys();
  void look_up(const operation& op);
  void read(const operation& op, const directory::page_location& where);
  void read_own(const operation& op, const directory::page_location& where);
  void read_remote(const operation& op, const directory::page_location& where);
  void read_pinned(const operation& op, const directory::page_location& where);
  void fill_rest(const page_key& key, slot_id slot, std::uint32_t length, std::uint64_t put,
                 bool always);
  void promote(const operation& op, const directory::page_location& where);
  void stale(const operation& op, const directory::page_location& where);
  void look_again(const operation& op, const directory::page_location& where);
  void hit(const operation& op, const directory::page_location& where,
           const std::vector<std::byte>& bytes);
  void miss(const operation& op);

  cluster& cluster_;
  host& host_;
  const incarnation inc_;
  std::unique_ptr<discovery::membership> machine_;

  known_cluster_ptr known_ = std::make_shared<const known_cluster>(); ///< As the links have it.
  known_cluster_ptr clients_know_ = known_;                           ///< A little later.
  discovery::view_stamp left_at_;
  directory::shard shard_;
  std::optional<time_point> forget_at_;
  std::uint64_t foreign_ = 0; ///< Keys of look-ups that the shard neither knew nor owned.

  std::unique_ptr<slot_entry[]> entries_;
  std::unique_ptr<std::byte[]> bytes_;
  storage::slot_table slots_;
  std::unique_ptr<storage::page_pool> pool_;
  std::map<page_key, generation> disk_generations_; ///< Of pages that left memory for the disk.
  std::deque<page_key> unpublished_;
  bool publishing_ = false;
  std::size_t warmed_ = 0; ///< Puts since the start, up to a few.
  std::set<page_key> refused_;
  struct withdrawal {
    directory::withdraw_record record;
    std::uint32_t attempts = 0;
  };
  std::vector<withdrawal> withdrawals_;
};

} // namespace peercache::scenario
