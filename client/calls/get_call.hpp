#pragma once

#include "client/calls/client_impl.hpp"
#include "client/calls/mirror_call.hpp"
#include "client/calls/read_plan.hpp"
#include "client/calls/read_waves.hpp"
#include "client/members/promote_call.hpp"
#include "rdma/data_plane.hpp"
#include "rdma/striped_read.hpp"

#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace peercache::client {

/// One `get`, from its first look into the location cache to its last byte; carries out its plan
/// (client/calls/read_plan.hpp). Threads: one object per call.
class get_call {
public:
  get_call(client_impl& client, std::span<const get_page> pages, std::span<page_result> results,
           deadline until, call_start start);
  /// Nothing writes to the caller's memory after the call, even when an exception ends it.
  ~get_call();
  void run();
  const longest_wait& wait() const noexcept { return wait_; }

private:
  /// Pages of one peer, with the indices of their results.
  struct peer_read {
    rdma::read_batch batch;
    std::vector<std::uint32_t> indices;
    std::uint64_t bytes = 0;
    std::optional<rdma::striped_read> over; ///< Reads the pages over all lanes.
    bool begun = false;                     ///< Whether `over` has been started.
  };

  bool is_late() const noexcept;
  /// Gives the plan the newest view that this process has.
  void follow();
  /// Takes the pages that lie in this host's pool; no message is sent.
  void find_on_own_host();
  /// Asks the directory for the pages without a place. While owners are asked, pages that have one
  /// are read.
  void look_up();
  /// Takes the directory's answers about these keys, as far as they are final.
  void take_answers(std::span<const std::uint32_t> told);
  /// Begins to read what was found by now, and copies some pages of this host. Returns when it
  /// wants to be called again though no owner has answered.
  deadline read_meanwhile(std::span<const std::uint32_t> told);
  /// Asks nodes to bring into memory the pages that are on a disk only, as far as such pages are
  /// known by now.
  void ask_for_cold();
  /// Reads the pages that were located; those on a disk, and those that `holders` were asked for,
  /// as soon as a node says that it has them in memory.
  void read(std::optional<promote_call>& holders);
  /// Reads pages as their nodes answer. @param told takes the answer about each page
  void read_when_told(promote_call& asked,
                      void (read_plan::*told)(const promote_plan::place&, bool late),
                      mirror_call& mirrors);
  void read_from_memory(mirror_call& mirrors);
  /// Sorts the pages that have a place by who has them: those of this host's pool are to be copied.
  void take_round();
  /// Hands the pages of one holder to the data plane.
  void begin(peer_read& read, void (rdma::striped_read::*start)());
  /// Hands all pages to the data plane that it does not have yet.
  void begin_reads();
  /// Copies pages of this host's pool, some hundred KiB. Returns whether there are more.
  bool copy_some();
  /// Waits for all reads of other hosts. @param waits_since when this thread had nothing else to do
  void finish_reads(mirror_call& mirrors, std::chrono::steady_clock::time_point waits_since);
  /// Waits for the next places of pages that peers bring into their memory; empty: there are no
  /// more.
  std::vector<promote_plan::place> take_next(promote_call& from);
  /// Copies one page of this host's pool to the caller's memory and tells the plan the outcome.
  /// Gives the page up when the deadline has passed, or passes while a large page is copied.
  void read_own_host(const read_plan::page& page);
  page_status copy_out(const read_plan::page& page, bool verify);
  void add_to_batch(const read_plan::page& page);
  /// Returns the read of this holder's pages that has not begun yet.
  peer_read& read_of(const directory::page_location& at);
  /// Waits until the read has ended.
  void end_read(peer_read& read);
  void take_batch(const peer_read& read, mirror_call& mirrors);

  client_impl& client_;
  std::span<const get_page> pages_;
  const deadline until_;
  read_plan plan_;
  call_start start_; ///< The state that this look began with.
  const std::chrono::steady_clock::time_point begun_;
  const bool may_hold_; ///< Whether this client may hold pages, whose holds a hit ends.
  own_pool_ptr own_;
  link::topology_ptr cluster_;
  std::deque<promote_call> cold_; ///< Requests of this look to bring pages from a disk into memory.
  std::vector<lookup_answer> answers_;     ///< The directory's answers in this look.
  read_waves waves_;                       ///< Waves of reads in this look.
  std::vector<read_plan::page> own_pages_; ///< Pages of this host's pool to be copied.
  std::size_t own_done_ = 0;               ///< Number of the first of these that are done with.
  std::vector<std::unique_ptr<peer_read>> batches_;
  longest_wait wait_;
};

} // namespace peercache::client
