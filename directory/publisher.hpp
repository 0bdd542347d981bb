#pragma once

#include "common/rate_limit.hpp"
#include "directory/disk_marks.hpp"
#include "directory/disk_records.hpp"
#include "directory/mirror_share.hpp"
#include "directory/owner_batches.hpp"
#include "directory/page_location.hpp"
#include "directory/publication.hpp"
#include "directory/record_repair.hpp"
#include "directory/unpublished_pages.hpp"
#include "directory/wire.hpp"
#include "discovery/hash_ring.hpp"
#include "discovery/view.hpp"
#include "link/protocol/disk_wire.hpp"
#include "link/protocol/pool_wire.hpp"
#include "storage/page_pool.hpp"

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

namespace peercache::directory {

/// What a pool's owner may set of its publisher.
struct publisher_options {
  node_id self;
  incarnation inc;
  std::uint32_t replicas = 2;
  /// Longest wait for one directory owner's answer; who puts pages waits for a quarter of it.
  std::chrono::milliseconds directory_timeout{1000};
  /// Records a second that are published because their keys have new owners; 0: no limit.
  std::uint64_t republish_rate = 0;
  std::uint64_t mirrored_bytes_max = 0; ///< Copies of other hosts' pages.
  bool has_disk = false;
  bool write_through = false;    ///< What was put goes to disk at once.
  record_repair::options repair; ///< Who is compared: filled in from the fields above.

  std::size_t withdrawals_max = 1u << 18;
  std::size_t disk_records_max = 1u << 18;
  std::size_t chunk_pages = unpublished_pages::chunk_pages; ///< Of one message to an owner.
  /// Of the disk, looked at at once: at most half of `disk_records_max`.
  std::uint32_t walk_pages = 1024;
  std::uint32_t repair_granules = 16'384; ///< Of the pool, compared at once.
};

struct publisher_totals {
  std::uint64_t republished = 0; ///< Records sent to new owners.
  std::uint64_t mirrored = 0;
  std::uint64_t mirrored_refused = 0;
  std::uint64_t withdrawals_dropped = 0;
};

/// What a node's pool says to the directory's shards about the pages that it holds: which it has
/// got, which have left memory, which are on disk. A record in the directory says `memory` while
/// its page is in the pool, `disk` when the page is on disk only.
///
/// Events in, orders out. Its driver tells it what happens (`put`, `left`, `stored` …), carries out
/// the orders of `take_orders` after each event until there are none, and tells what became of
/// every order that has a tag, once: `answered`, `walked` or `failed`.
///
/// Threads: none; the owner serializes. No actor, no I/O; time is an argument, which never goes
/// back. Ownership: uses the pool, which must outlive it, and puts and gives up pages there.
/// Bounds: those of the options; one chunk is on its way to each owner, one of disk records, and
/// one step of the comparison. Invariant: a tag that was given out is open until its answer.
class publisher {
public:
  using time_point = std::chrono::steady_clock::time_point;
  using tag = std::uint64_t;

  // -- Orders

  /// An owner is to record these (directory/wire.hpp): `answered` with its outcomes, or `failed`.
  struct tell {
    tag id = 0;
    node_id owner;
    std::string records;
  };
  /// An owner is to withdraw these: `answered` with any number, or `failed`.
  struct take_back {
    tag id = 0;
    node_id owner;
    std::string records;
  };
  /// An owner is to compare (directory/digest.hpp): `answered` with what differs, or `failed`.
  struct compare {
    tag id = 0;
    node_id owner;
    std::string comparison;
  };
  /// An owner is to list its records: `answered` with them, or `failed`.
  struct list {
    tag id = 0;
    node_id owner;
    std::string request;
  };
  /// The disk is to show so many pages after this place (0: from the start): `walked` or `failed`.
  struct walk_disk {
    tag id = 0;
    std::uint64_t after = 0;
    std::uint32_t pages = 0;
  };
  /// The disk may go on: the directory was told of what is gone.
  struct acknowledge {
    std::uint64_t ticket = 0;
  };
  /// A put is decided. One page_status byte a page; these pages are to be written to disk.
  struct settled {
    tag put = 0;
    std::string statuses;
    std::vector<storage::resident_page> keep;
  };
  /// The owners were told that everything is withdrawn, or their time is up.
  struct has_left {
    tag leaving = 0;
  };
  using order =
      std::variant<tell, take_back, compare, list, walk_disk, acknowledge, settled, has_left>;

  /// Who is a member and who owns what, in one view.
  struct cluster {
    std::shared_ptr<const discovery::view> view;
    std::shared_ptr<const discovery::hash_ring> ring; ///< Of that view.
    std::function<bool(node_id)> is_linked;           ///< Whether a member can be asked now.
  };

  publisher(const publisher_options& options, storage::page_pool& pool);
  publisher(const publisher&) = delete;
  publisher& operator=(const publisher&) = delete;

  /// What is to be done now, in this order.
  std::vector<order> take_orders() { return std::exchange(orders_, {}); }

  // -- Events: pages (publisher_pages.cpp)

  /// Takes filled slots into the pool and publishes them. `settled` with the tag that this returns
  /// comes when each page is recorded by one of its owners, or all of them have answered: one that
  /// is frozen holds up nothing that another one knows. After a quarter of the time that owners
  /// have it comes in any case, and a page that no owner has or knows elsewhere is `unreachable`:
  /// in the pool, for this host to find, and still on its way to its owners.
  ///
  /// A page is dropped again when every owner has answered, at least one of them `duplicate` (with
  /// `skip` another member has it in memory, else as many as may), and none has recorded it: nobody
  /// would find it. Otherwise it stays, and owners that said `duplicate` are told of it like those
  /// that were not heard. So no page is lost to a tie, whoever hears whom first and whichever views
  /// the producers have:
  ///   - `duplicate` names copies that the owner had recorded before, of holders that it can reach;
  ///   - a producer whose copy is recorded anywhere, or may be (no answer came), does not drop it;
  ///   - so each copy that makes others drop theirs stays, until its producer evicts it or dies.
  /// The price of a tie is a second copy.
  tag put(std::vector<storage::fill> fills, link::commit_mode mode, time_point now);
  /// Takes pages that came from disk into the pool, and tells all owners, first of all.
  void restore(std::span<const storage::fill> fills, time_point now);
  /// These pages are in the pool since the process before: each owner is told of them, within the
  /// budget. Before the node is in a view nobody is; the view tells everybody.
  void adopted(std::span<const storage::resident_page> pages, time_point now);
  /// The pool has given up these pages: they are on disk only, or gone.
  /// @pre nothing was put or restored into their slots since
  void left(std::span<const storage::evicted> pages);
  /// Gives up the pages of these keys (packed), whether on disk or not, and zeroes their bytes. One
  /// page_status byte a key.
  std::string remove(const std::string& keys);
  /// What the disk had of these keys is removed from it: a page_status byte a key, `hit` for those
  /// that it had. @param up_to the pool's newest generation when the disk was asked
  void removed_on_disk(const std::string& keys, const std::string& had, generation up_to);
  /// Sends all withdrawals that wait, one message an owner.
  void send_withdrawals();

  // -- Events: the disk (publisher_disk.cpp)

  /// These pages (stored_page) are on disk from here on.
  void stored(const std::string& pages);
  /// The disk has given up the pages of these keys (packed) for others. `acknowledge` comes when
  /// the directory was told, if there is a ticket.
  void gone(std::uint64_t ticket, const std::string& keys);
  /// The disk has been scanned: all that it has is to be published.
  void publish_disk() { walk_from({}); }
  /// Marks what is in the pool and on disk too; no owner is told anything.
  void learn_marks();
  /// Keys of which this is true are not on disk any more: their records are not to be published.
  void drop_disk_records(const std::function<bool(const page_key&)>& is_gone);

  // -- Events: the cluster (publisher.cpp)

  /// A new view, or a new connection: what has new owners is to be published; after a view that was
  /// missed, everything.
  void follow(cluster next, time_point now);
  /// This node was out of the view, and everybody forgot its pages: all owners are to be told.
  void publish_again(time_point now);
  /// Withdraws everything, for good; `has_left` comes with the tag that this returns.
  tag leave();
  /// Regularly: decides what was put long ago, and tries again what some owner has not heard of.
  void tick(time_point now);
  /// The comparison with the directory goes on by one step, if time and budget allow. True when the
  /// next step waits for no answer.
  bool compare_on(time_point now);

  void answered(tag id, const std::string& said, time_point now);
  void answered(tag id, std::uint64_t number, time_point now);
  /// @param last the place of the last of these pages (stored_page); 0: there are no more
  void walked(tag id, const std::string& pages, std::uint64_t last);
  void failed(tag id, time_point now);

  // -- What it knows

  /// A page's record, as it is published.
  page_location location_of(const storage::resident_page& page) const;
  bool joined() const noexcept;
  /// Whether the directory is to know what is here.
  bool publishes() const noexcept { return joined() && !leaving_; }
  /// Nothing waits to be told, and nothing is on its way but comparisons.
  bool idle() const noexcept;
  const disk_marks& marks() const noexcept { return marks_; }
  const mirror_share& mirrors() const noexcept { return mirrors_; }
  std::size_t unpublished() const noexcept { return unpublished_.size(); }
  const publisher_totals& totals() const noexcept { return totals_; }
  const repair_totals& repaired() const noexcept { return repair_.totals(); }

  static constexpr std::uint32_t withdraw_attempts_max = 4;

private:
  using indices = std::vector<std::uint32_t>;

  /// A withdrawal that some directory owner has not heard of yet.
  struct pending_withdrawal {
    withdraw_record record;
    std::uint32_t attempts = 0;
  };
  struct put_job {
    std::vector<storage::fill> fills;
    std::vector<storage::commit_outcome> outcomes;
    link::commit_mode mode = link::commit_mode::store;
    time_point since;
    publication said;
    bool decided = false; ///< Its `settled` was ordered.
  };
  struct chunk {
    std::vector<unpublished_pages::page> sent;
    publication said;
  };
  /// Who waits until so many owners have heard of withdrawals, or will not: the disk, with a
  /// ticket, or whoever made this node leave.
  struct farewell {
    std::size_t waiting = 0;
    std::uint64_t ticket = 0;
    tag leaving = 0;
  };

  // What an open tag is the question of.
  struct of_put {
    tag put;
    indices pages;
  };
  struct of_chunk {
    node_id queue;
    indices pages;
  };
  struct of_disk_records {
    indices pages;
  };
  struct of_withdrawals {
    std::shared_ptr<const std::vector<pending_withdrawal>> sent;
    indices which;
  };
  struct of_farewell {
    tag farewell;
  };
  struct of_disk_walk {
    std::uint64_t number;
  };
  struct of_repair {};      ///< The comparison waits for it.
  struct of_repair_walk {}; ///< The same, for a walk over the disk.
  struct of_nothing {};     ///< Whatever comes, nothing follows.
  using question = std::variant<of_put, of_chunk, of_disk_records, of_withdrawals, of_farewell,
                                of_disk_walk, of_repair, of_repair_walk, of_nothing>;

  /// An answer; neither: there was none.
  struct reply {
    const std::string* bytes = nullptr;
    const std::uint64_t* number = nullptr;
    bool came() const noexcept { return bytes != nullptr || number != nullptr; }
  };

  // Questions and answers.
  /// The tag of an order that asks this.
  tag open(question about);
  question close(tag id);
  void settle(tag id, const reply& said, time_point now);
  void hear(of_put& about, const reply& said, time_point now);
  void hear(of_chunk& about, const reply& said, time_point now);
  void hear(of_disk_records& about, const reply& said, time_point now);
  void hear(of_withdrawals& about, const reply& said, time_point now);
  void hear(of_farewell& about, const reply& said, time_point now);
  void hear(of_disk_walk& about, const reply& said, time_point now);
  void hear(of_repair& about, const reply& said, time_point now);
  void hear(of_repair_walk& about, const reply& said, time_point now);
  void hear(of_nothing& about, const reply& said, time_point now);
  owner_batches new_batches() const { return {*cluster_.ring, options_.replicas}; }
  /// Tells the owners; `about` makes the question of a batch from its indices.
  void tell_owners(std::vector<owner_batch> batches, publication& said,
                   const std::function<question(indices)>& about);

  // Puts.
  void take_in(put_job& job);
  void take_in_mirrors(put_job& job);
  std::vector<owner_batch> batches_of(const put_job& job) const;
  void look_at(tag put);
  void decide(tag put, put_job& job);
  void finish(put_job& job);
  void decide_late_puts(time_point now);
  void drop(const page_key& key, generation gen);

  // Withdrawals.
  void withdraw(const pending_withdrawal& pending);
  void withdraw_for(farewell who, std::span<const withdraw_record> records);
  void end_farewell(const farewell& who);

  // What is unpublished.
  void publish_unpublished(time_point now);
  void publish_queue(node_id queue, time_point now);
  void tell_new_owners(const discovery::hash_ring& before, const storage::resident_page& page);
  void tell_new_owners(const discovery::hash_ring& before);

  // The disk.
  void add_disk_record(const page_key& key, generation gen, std::uint64_t checksum,
                       std::uint32_t length_bytes);
  void publish_disk_records();
  void walk_from(discovery::hash_ring before);
  void walk_on();
  void take_piece(const std::string& pages);

  // The comparison (publisher_repair.cpp).
  void carry_out(const record_repair::nothing&) {}
  void carry_out(const record_repair::walk_pages& order);
  void carry_out(const record_repair::compare_with& order);
  void carry_out(const record_repair::list_of& order);
  void carry_out(const record_repair::repair_owner& order);
  void compare_pool_pages(std::uint64_t place);
  void compare_disk_pages(const std::string& pages, std::uint64_t last);

  publisher_options options_;
  storage::page_pool& pool_;
  cluster cluster_;
  bool leaving_ = false; ///< For good: what was withdrawn is not published again.
  publisher_totals totals_;

  std::vector<order> orders_;
  std::unordered_map<tag, question> open_;
  tag last_tag_ = 0;

  std::map<tag, put_job> puts_; ///< In the order in which they came.
  mirror_share mirrors_;
  std::vector<pending_withdrawal> withdrawals_;
  std::map<tag, farewell> farewells_;
  unpublished_pages unpublished_;
  std::map<node_id, chunk> chunks_; ///< On their way, by their queues.
  rate_limit republishing_;         ///< Records.

  disk_marks marks_;
  disk_records disk_records_;
  publication disk_said_{0}; ///< Of the chunk of `disk_records_` that is on its way.
  /// All pages of the disk, on their way to those owners that `before` did not have.
  struct disk_walk {
    bool active = false;
    bool waits = false;       ///< For `disk_records_` to have room.
    std::uint64_t number = 0; ///< A newer one takes its place.
    discovery::hash_ring before;
    std::uint64_t after = 0; ///< The place of the last one.
  };
  disk_walk walking_;
  record_repair repair_;
  std::uint64_t repair_after_ = 0; ///< Of the comparison's walk over the disk: the last place.
};

} // namespace peercache::directory
