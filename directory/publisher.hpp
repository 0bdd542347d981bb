#pragma once

#include "common/rate_limit.hpp"
#include "directory/disk_marks.hpp"
#include "directory/disk_records.hpp"
#include "directory/mirror_share.hpp"
#include "directory/owner_batches.hpp"
#include "directory/page_location.hpp"
#include "directory/publication.hpp"
#include "directory/publisher_options.hpp"
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
#include <set>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

namespace peercache::directory {

/// Tells the directory's shards about the pages that a node's pool holds: which pages it has got,
/// which have left memory, which are on disk. A record in the directory says `memory` while its
/// page is in the pool, `disk` when the page is on disk only.
///
/// Events in, orders out. The driver reports what happens (`put`, `left`, `stored` …). After each
/// event it carries out the orders of `take_orders` until there are none. The driver answers every
/// order that has a tag once, by calling `answered`, `walked` or `failed`.
///
/// Threads: none; the owner serializes. No actor, no I/O; time is an argument and never goes back.
/// Ownership: uses the pool, which must outlive the publisher, and puts and gives up pages there.
/// Bounds: those of the options; one chunk is on its way to each owner, one of disk records, and
/// one step of the comparison. Invariant: a tag that was given out is open until its answer.
class publisher {
public:
  using time_point = std::chrono::steady_clock::time_point;
  using tag = std::uint64_t;

  // Orders that the driver carries out.

  /// A message to an owner, packed as directory/wire.hpp or directory/digest.hpp say.
  struct message {
    tag id = 0;
    node_id owner;
    std::string bytes;
  };
  /// The owner has to record these records. Answer: `answered` with its outcomes, or `failed`.
  struct tell : message {};
  /// The owner has to withdraw these records. Answer: `answered` with any number, or `failed`.
  struct take_back : message {};
  /// The owner has to compare digests. Answer: `answered` with the ranges that differ, or `failed`.
  struct compare : message {};
  /// The owner has to list its records of this node's pages. Answer: `answered` with the records,
  /// or `failed`.
  struct list : message {};
  /// The disk has to show `pages` pages after this place (0: from the start). Answer: `walked` or
  /// `failed`.
  struct walk_disk {
    tag id = 0;
    std::uint64_t after = 0;
    std::uint32_t pages = 0;
  };
  /// The disk has to be told that the directory has heard of the pages that the disk gave up.
  struct acknowledge {
    std::uint64_t ticket = 0;
  };
  /// A put is decided. `statuses` has one page_status byte per page; the pages of `keep` have to be
  /// written to disk.
  struct settled {
    tag put = 0;
    std::string statuses;
    std::vector<storage::resident_page> keep;
  };
  /// Ends a wait that `when_withdrawn` began.
  struct withdrawn {
    tag wait = 0;
  };
  /// Ends `leave`: the owners have heard that everything is withdrawn, or cannot be told.
  struct has_left {
    tag leaving = 0;
  };
  using order = std::variant<tell, take_back, compare, list, walk_disk, acknowledge, settled,
                             withdrawn, has_left>;

  /// The members, and the owners of each key, in one view.
  struct cluster {
    std::shared_ptr<const discovery::view> view;
    std::shared_ptr<const discovery::hash_ring> ring; ///< The hash ring of `view`.
    std::function<bool(node_id)> is_linked;           ///< Whether a member can be asked now.
  };

  publisher(const publisher_options& options, storage::page_pool& pool);
  publisher(const publisher&) = delete;
  publisher& operator=(const publisher&) = delete;

  /// Returns the orders to carry out now, in the vector's sequence, and forgets them.
  std::vector<order> take_orders() { return std::exchange(orders_, {}); }
  /// Calls `carry_out` with each order, until there are none.
  template <class CarryOut>
  void carry_out_orders(CarryOut&& carry_out) {
    for (auto orders = take_orders(); !orders.empty(); orders = take_orders())
      for (auto& each : orders)
        std::visit(carry_out, each);
  }

  // Events about pages (publisher_pages.cpp).

  /// Takes filled slots into the pool and publishes them. Returns the tag of the `settled` order,
  /// which comes when each page is recorded by one of its owners or all of its owners have
  /// answered: a frozen owner does not hold up what another owner knows. After a quarter of
  /// `directory_timeout` the order comes in any case. A page that no owner, by its answer to the
  /// put, has recorded or knows elsewhere is then `unreachable`: it is in the pool, this host can
  /// find it, and its owners are still being told.
  ///
  /// The page is dropped again when every owner has answered, at least one of them `duplicate`
  /// (with `skip`: another member has the page in memory; otherwise: as many members as may have
  /// it), and no owner has recorded it: nobody would find this copy. Otherwise the page stays; an
  /// owner that did not answer is told again at the first `tick` at which it can be, whatever the
  /// others do, and all are where one said `duplicate`. So no page is lost to a tie, whichever
  /// producer an owner hears first, and whichever views the producers have:
  ///   - `duplicate` names copies that the owner had recorded before, of holders that it can reach;
  ///   - a producer does not drop its copy while some owner has recorded it or may have;
  ///   - so each copy that makes others drop theirs stays, until its producer evicts it or dies.
  /// The price of a tie is a second copy.
  tag put(std::vector<storage::fill> fills, link::commit_mode mode, time_point now);
  /// Takes pages that came from disk into the pool, and tells all owners before other news.
  void restore(std::span<const storage::fill> fills, time_point now);
  /// Publishes pages that the pool has kept from the previous process: each owner is told of them,
  /// at most `republish_rate` a second. While the node is in no view nothing is sent; the next view
  /// tells everybody.
  void adopted(std::span<const storage::resident_page> pages, time_point now);
  /// The pool has given up these pages: they are on disk only, or gone. @pre since the pages left,
  /// nothing was put or restored into their slots
  void left(std::span<const storage::evicted> pages);
  /// Gives up pages for room that is needed soon (`page_pool::evict_ahead`). `look` is called with
  /// each victim and may keep its bytes; mirrors are not shown to `look`, because their producers
  /// write them to their own disks.
  /// Returns the victims.
  std::vector<storage::evicted> evict_ahead(const storage::page_pool::last_look& look,
                                            std::uint64_t wanted_bytes = 0);
  /// Returns the keys of pages that gave way to pages of another length since the last call.
  std::vector<page_key> take_replaced() { return std::exchange(replaced_, {}); }
  /// Gives up the pages of these keys (packed), whether they are on disk or not, and zeroes their
  /// bytes. Returns one page_status byte per key.
  std::string remove(const std::string& keys);
  /// The disk has removed its pages of these keys. @param had one page_status byte per key, `hit`
  /// where the disk had the page. @pre the disk's earlier reports were passed on by `stored` and
  /// `gone`
  void removed_on_disk(const std::string& keys, const std::string& had);
  /// Orders all withdrawals that wait to be sent, one message per owner.
  void send_withdrawals();
  /// Returns the tag of the `withdrawn` order, which comes when the withdrawals under way have
  /// their answers: look-ups no longer find the withdrawn pages. After a quarter of
  /// `directory_timeout` the order comes in any case, because an owner may be frozen.
  tag when_withdrawn(time_point now);

  // Events about the disk (publisher_disk.cpp).

  /// Call when the disk has written these pages (packed stored_page).
  void stored(const std::string& pages);
  /// Call when the disk has given up the pages of these keys (packed) to make room. With a ticket
  /// (not 0), `acknowledge` is ordered once the directory was told.
  void gone(std::uint64_t ticket, const std::string& keys);
  /// Call when the disk has been scanned: publishes all of its pages.
  void publish_disk() { walk_from({}); }
  /// Walks the disk to mark the pages of the pool that are on disk too; no owner is told anything.
  void learn_marks();
  /// Keys for which `is_gone` is true are no longer on disk: their records are not published.
  void drop_disk_records(const std::function<bool(const page_key&)>& is_gone);

  // Events about the cluster (publisher.cpp).

  /// Call with each new view, and when a connection to a member was made. Publishes the pages that
  /// have new owners, and all pages after a view that this node missed.
  void follow(cluster next, time_point now);
  /// Call when this node was out of the view and the shards forgot its pages: publishes all of them
  /// again.
  void publish_again(time_point now);
  /// Withdraws all records of this node, for good. Returns the tag of the `has_left` order.
  tag leave();
  /// Call regularly. Settles each `put`, and each wait of `when_withdrawn`, that has waited too
  /// long, orders withdrawals to be sent, and orders pages to be published that owners have not
  /// acknowledged, those on disk included.
  void tick(time_point now);
  /// Carries the comparison with the directory on by one step, if time and budget allow. Returns
  /// true when the next step waits for no answer.
  bool compare_on(time_point now);

  void answered(tag id, const std::string& said, time_point now);
  void answered(tag id, std::uint64_t number, time_point now);
  /// Answers `walk_disk`. @param pages the disk's pages (packed stored_page) @param last the place
  /// of the last one; 0: no pages follow
  void walked(tag id, const std::string& pages, std::uint64_t last);
  void failed(tag id, time_point now);

  // Questions about the publisher's state.

  /// Returns the location that the directory is told for a page.
  page_location location_of(const storage::resident_page& page) const;
  bool joined() const noexcept;
  /// Whether the directory should know the pages of this node.
  bool publishes() const noexcept { return joined() && !leaving_; }
  /// Whether no message waits to be sent, and only comparisons wait for answers.
  bool idle() const noexcept;
  /// Whether a pass of the comparison is under way: `compare_on` has more to do soon.
  bool comparing() const noexcept { return repair_.at_work(); }
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
    bool decided = false; ///< The `settled` order was given.
  };
  struct chunk {
    std::vector<unpublished_pages::page> sent;
    publication said;
  };
  /// Counts the owners that have still to hear of some withdrawals. At 0 the waiting party is told:
  /// the disk, by its ticket, or the caller of `leave`, by its tag.
  struct farewell {
    std::size_t waiting = 0;
    std::uint64_t ticket = 0;
    tag leaving = 0;
  };

  // The kinds of questions to owners and to the disk. A question is kept under its order's tag
  // until the answer comes.
  struct of_put {
    tag put;
    node_id owner;
    indices pages;
  };
  struct of_chunk {
    node_id queue;
    node_id owner;
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
  struct of_repair {}; ///< An owner's answer that the comparison with the directory waits for.
  /// A walk over the disk that the comparison with the directory waits for.
  struct of_repair_walk {};
  struct of_nothing {}; ///< An order whose answer changes nothing.
  using question = std::variant<of_put, of_chunk, of_disk_records, of_withdrawals, of_farewell,
                                of_disk_walk, of_repair, of_repair_walk, of_nothing>;

  /// An owner's or the disk's answer to an order, as bytes or as a number; neither: the order
  /// failed.
  struct reply {
    const std::string* bytes = nullptr;
    const std::uint64_t* number = nullptr;
    bool came() const noexcept { return bytes != nullptr || number != nullptr; }
  };

  // Functions for questions and their answers (publisher.cpp).

  /// Remembers an order's question, and returns the tag that the answer will name.
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
  /// Orders one `tell` per batch; `about` makes the question of a batch from its owner and indices.
  void tell_owners(std::vector<owner_batch> batches, publication& said,
                   const std::function<question(node_id, indices)>& about);

  // Functions for puts (publisher_pages.cpp).
  void take_in(put_job& job);
  void take_in_mirrors(put_job& job);
  std::vector<owner_batch> batches_of(const put_job& job) const;
  void keep_to_itself(put_job& job);
  void look_at(tag put);
  void decide(tag put, put_job& job);
  void finish(put_job& job);
  void decide_late_puts(time_point now);
  void drop(const page_key& key, generation gen);

  // Functions for withdrawals (publisher.cpp).
  void withdraw(const pending_withdrawal& pending);
  void withdraw_for(farewell who, std::span<const withdraw_record> records);
  void end_farewell(const farewell& who);
  void end_withdrawal_waits(time_point now);

  // Functions for unpublished pages (publisher.cpp).
  void publish_unpublished(time_point now);
  void publish_queue(node_id queue, time_point now);
  void tell_new_owners(const discovery::hash_ring& before, const storage::resident_page& page);
  void tell_new_owners(const discovery::hash_ring& before);

  // Functions for records and walks of the disk (publisher_disk.cpp).
  void add_disk_record(const page_key& key, std::uint64_t checksum, std::uint32_t length_bytes);
  void add_disk_record(const page_key& key, generation gen, std::uint64_t checksum,
                       std::uint32_t length_bytes);
  void publish_disk_records();
  void walk_from(discovery::hash_ring before);
  void walk_on();
  void take_piece(const std::string& pages);
  void note_copy(const storage::resident_page& held, const link::stored_page& on_disk);

  // Functions for the comparison (publisher_repair.cpp).
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
  /// Whether `leave` was called; never reset, so that withdrawn pages are not published again.
  bool leaving_ = false;
  publisher_totals totals_;

  std::vector<order> orders_;
  std::unordered_map<tag, question> open_;
  tag last_tag_ = 0;

  std::map<tag, put_job> puts_; ///< Puts in the order of their calls.
  std::vector<page_key> replaced_;
  mirror_share mirrors_;
  std::vector<pending_withdrawal> withdrawals_;
  std::map<tag, farewell> farewells_;
  std::set<tag> withdrawals_open_;             ///< Tags of `of_withdrawals` without an answer.
  std::map<tag, time_point> withdrawal_waits_; ///< When each `when_withdrawn` was called.
  unpublished_pages unpublished_;
  std::map<node_id, chunk> chunks_; ///< Chunks of unpublished pages on their way, by queue.
  rate_limit republishing_;         ///< Limits the records sent to new owners.

  disk_marks marks_;
  disk_records disk_records_;
  publication disk_said_{0}; ///< Answers about the chunk of `disk_records_` that is on its way.
  /// A walk over all pages of the disk, to publish them to owners that the ring `before` did not
  /// give them.
  struct disk_walk {
    bool active = false;
    /// Whether the walk over the disk's pages pauses because `disk_records_` is full; each `tick`
    /// tries to go on.
    bool waits = false;
    std::uint64_t number = 0; ///< Tells this walk from an earlier one, whose answers are ignored.
    discovery::hash_ring before;
    std::uint64_t after = 0; ///< Place of the last page that was shown; 0: none yet.
  };
  disk_walk walking_;
  record_repair repair_;
  /// Place of the last page that the disk has shown to the comparison with the directory.
  std::uint64_t repair_after_ = 0;
};

} // namespace peercache::directory
