#pragma once

#include "client/page_view.hpp"
#include "client/values/call_results.hpp"
#include "client/values/client_options.hpp"
#include "client/values/client_stats.hpp"
#include "client/values/gpu_news.hpp"
#include "client/values/pages.hpp"
#include "common/limits.hpp"
#include "common/overlap.hpp"
#include "common/page_key.hpp"
#include "common/page_status.hpp"
#include "common/result.hpp"
#include "directory/page_location.hpp"
#include "discovery/view.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace peercache::client {

class call_log;
class client_impl;

/// The cache as an engine sees it: pages in, pages out, in batches.
///
/// Threads: every method may be called from any number of threads at once.
/// Errors: nothing throws or aborts; each page gets a status, and a page that cannot be had is a
/// miss with its reason. No call returns later than its deadline (default: now + options.timeout)
/// plus 50 ms. Ownership: parts are borrowed for the duration of the call; nothing touches them
/// after the return. Forks: in a child that was forked later the client is closed: pages are
/// `closed`, whole calls `errc::closed`, and the destructor frees nothing: it waits for no thread,
/// sends nothing, and takes nothing from the parent. A child may connect a client of its own.
class cache_client {
public:
  /// Connects to the node of this host and maps its pool. Returns when all members are connected
  /// too, or were tried once: an unreachable member costs at most 300 ms. Errors: `unreachable` or
  /// `timed_out` when the node does not answer within `options.timeout`; `refused`, `incompatible`;
  /// `invalid_argument` for certificates that cannot be used; those of the devices, when the data
  /// plane has to be verbs.
  static result<std::unique_ptr<cache_client>> connect(const client_options& options);
  ~cache_client();
  cache_client(const cache_client&) = delete;
  cache_client& operator=(const cache_client&) = delete;

  /// Ends the running calls at once: pages that they have not decided are `closed`, and so is every
  /// later call. Returns before the calls do; the destructor may be called when they have returned.
  /// Idempotent.
  void close();

  /// Makes `memory` known to the data plane, so that READs go straight into it; over TCP it does
  /// nothing. READs into other memory go through a registered buffer and are copied. Ranges must
  /// not overlap. The memory stays the caller's, and stays in place until `unregister_buffer` or
  /// the client's end. Errors: `closed`, and those of the devices.
  result<void> register_buffer(std::span<std::byte> memory);
  /// Undoes `register_buffer` of the memory that begins at `begin`. @pre no get into that memory is
  /// running
  void unregister_buffer(const std::byte* begin);

  /// How pages of other hosts are fetched, and why: "verbs: mlx5_0/1", "tcp: no RDMA device".
  const std::string& data_plane() const noexcept;

  /// Copies the pages into this host's pool. On return the parts may be reused; the pages of one
  /// call are taken as one prefix chain, in order. `stored` means: the page is in its final place,
  /// where every client of this host finds it at once, and on its way to the directory; some
  /// hundred microseconds later other hosts find it. The directory may find only then that the
  /// cluster has the page already; see `flush`. On each host the newest page of a key counts: a
  /// page of another length gives way to it, and readers elsewhere take the page of the length that
  /// they ask for. If `results` has another size than `pages`, every result is `bad_size`.
  void set(std::span<const set_page> pages, std::span<page_result> results,
           std::optional<deadline> until = {});

  /// Waits until everything set so far is published (known to an owner in the directory), or has
  /// failed. Returns the numbers of failed pages and of duplicates since the last flush. Errors:
  /// `timed_out`, `closed`.
  result<flush_result> flush(std::optional<deadline> until = {});

  /// Reads the pages, from wherever they are. Parts that cannot be written to make pages of other
  /// hosts `bad_size`; pages of this host's pool then end the process, as any such write does.
  void get(std::span<const get_page> pages, std::span<page_result> results,
           std::optional<deadline> until = {});

  /// Shows a page of this host's memory where it lies, without a copy, and keeps it from eviction
  /// for `hold` (at most 10 s) or until the view ends, if `pool.hold_share` has room. The checksum
  /// is compared as `verify_own_host` says. Sends no message and waits for nobody. Errors:
  /// `not_found` when the page is not in this host's memory: `get` may bring it; `io_failed` when
  /// its bytes have another checksum; `closed`.
  result<page_view> look_at(const page_key& key,
                            std::chrono::milliseconds hold = std::chrono::seconds{2});

  /// Says which pages could be read. Pages in this host's pool are found there, whatever the
  /// directory knows. Feeds the location cache. With `hold` it keeps the pages that it finds in
  /// memory where they are (`page_result::held`). A page is found and not held when the share
  /// `pool.hold_share` of its pool is taken, when it lies on a disk (it is brought into memory
  /// then), or when its holder does not answer within 50 ms.
  void exists(std::span<const page_key> keys, std::span<page_result> results,
              std::optional<deadline> until = {}, const exists_hold& hold = {});

  /// Does an `exists` of pages that are a chain, of which only those before the first one that is
  /// not found are of use. Returns how many pages were asked about, from the first one on: all that
  /// are found without a gap, and the next one at least. Later pages stay `pending`. In a cluster
  /// of few nodes all pages are asked about at once; in a large one
  /// (client/calls/chain_windows.hpp) a few first, so that a short prefix costs few messages. Pages
  /// beyond the gap are not held. An owner that does not answer by the deadline ends the chain: its
  /// page is `timed_out`.
  std::size_t exists_chain(std::span<const page_key> keys, std::span<page_result> results,
                           std::optional<deadline> until = {}, const exists_hold& hold = {});

  /// Withdraws the pages. `hit`: a node that was asked had the page, and none of them still has it;
  /// `not_found`: none of them had it; else the reason why a node could not be asked, which may
  /// still have it. Returns when the owners of the records have withdrawn them, too, or 250 ms
  /// after a holder has given the page up. A page on a node's disk may be found again after a
  /// restart of that node; so may a page that is being read from disk into memory at that moment.
  void remove(std::span<const page_key> keys, std::span<page_result> results,
              std::optional<deadline> until = {}, remove_scope scope = remove_scope::holders);

  /// Withdraws every page of all key spaces whose first field is `space` ("" means spaces without
  /// fields), on every node and disk, whoever set it. Whatever the result, the clear takes effect
  /// at once and for good on each node that has heard of it: first for this host's clients, then on
  /// each other node as it hears, and on unreachable nodes before they serve anybody again. The
  /// page of a set that runs at the same time may be withdrawn or not. The clear is not certain
  /// when some node did not confirm it, or a former member may still live, unreachable.
  clear_result clear(std::string_view space, std::optional<deadline> until = {});

  /// Names of the nodes that were once in this client's view and are not now.
  std::vector<std::string> nodes_gone() const;

  /// Starts bringing pages closer; best effort, returns at once. Keys beyond 32,768 that are under
  /// way at a time are left out.
  void prefetch(std::span<const page_key> keys);

  /// Returns all known locations of each key, asked from the directory and not from the cache.
  /// Errors: `unreachable` when no owner of some key answered by the deadline; `closed`.
  result<std::vector<std::vector<directory::page_location>>>
  locate(std::span<const page_key> keys, std::optional<deadline> until = {});
  /// Does the same key by key: one whose owners have not answered keeps nothing from the others of
  /// the same `limits::batch_pages_max` keys; later ones get what time is left.
  /// Errors: `closed`; `unreachable` when the node of this host has died in the middle of a clear.
  result<std::vector<key_locations>> locate_each(std::span<const page_key> keys,
                                                 std::optional<deadline> until = {});
  /// Says of each key by itself what the directory knows of it: `hit` or `not_found`, else the
  /// reason why no owner of that key answered. Other keys are answered all the same.
  std::vector<page_status> find_each(std::span<const page_key> keys,
                                     std::optional<deadline> until = {});

  /// Tells this host's node which blocks the engine holds on its GPU, for the overlap queries of
  /// routers (docs/routers.md). The node forgets them when this client ends or its process dies,
  /// and is told again when it was restarted. Returns at once: news travels within a tenth of a
  /// second, in batches. Bounds: a client tells of 1,048,576 keys, and a node takes
  /// `overlap.gpu_keys` of 64 clients; further keys are left out, and counted.
  void report_gpu(const gpu_news& news);
  /// Asks, through this host's node, how much of a prompt each node has; a node that has nothing is
  /// left out. Owners of keys that do not answer within half a second count as if they knew of no
  /// page. Errors: `invalid_argument` with what is wrong with the query; `refused` with why it is
  /// to be asked again; `unreachable`, `timed_out`, `closed`.
  result<std::vector<overlap_match>> overlap(const overlap_query& query,
                                             std::optional<deadline> until = {});

  discovery::view view() const;
  /// The process of this host's node; nothing while this client has no session with it.
  std::optional<incarnation> home_node() const;
  client_stats stats() const;
  /// The log of what calls asked for and stored of late. Only the code that makes keys knows their
  /// text (the client sees digests), so that code notes its calls in the log
  /// (client/notes/call_log.hpp).
  call_log& calls() noexcept;

private:
  explicit cache_client(std::unique_ptr<client_impl> body);
  bool is_open() const noexcept;
  std::unique_ptr<client_impl> impl_;
};

/// Number of clients of this process that are still ending though their destructor has returned: a
/// frozen peer holds up the last step. Threads: any.
int ending_systems() noexcept;

} // namespace peercache::client
