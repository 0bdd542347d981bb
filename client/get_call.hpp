#pragma once

#include "client/client_impl.hpp"
#include "client/mirror_call.hpp"
#include "client/promote_call.hpp"
#include "rdma/striped_read.hpp"

#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace peercache::client {

/// One `get` from its first look into the location cache to its last byte: the read protocol
/// (docs/flows.md) as its reader follows it. Threads: one object per call.
class get_call {
public:
  get_call(cache_client::impl& client, std::span<const get_page> pages,
           std::span<page_result> results, deadline until, call_start start);
  void run();

private:
  /// A page that is not decided yet.
  struct open_page {
    std::uint32_t index = 0;
    directory::page_location location;
  };
  /// The pages of one peer, and which results they are.
  struct peer_read {
    rdma::read_batch batch;
    std::vector<std::uint32_t> indices;
    std::uint64_t bytes = 0;
    std::optional<rdma::striped_read> over; ///< The lanes.
  };

  /// Rejects malformed pages; all others are `missing_`.
  void begin();
  /// Takes those of `missing_` that lie in the pool of this host: nobody is asked.
  void find_on_own_host();
  /// The same for those whose place is remembered.
  void resolve_from_cache();
  /// Asks the directory for the pages of `missing_`.
  void look_up();
  /// Reads what was located; pages that are on disk only are promoted meanwhile, and read then. So
  /// are those that `holders` were asked for.
  void read(promote_call* holders = nullptr);
  /// Asks those who denied a page whether they have it elsewhere: on disk, or in another slot.
  std::optional<promote_call> ask_holders();
  /// Takes pages that are to come from these out of `located_`: the directory names the same holder
  /// again, which knows better.
  void leave_to_holders();
  void locate_at_holders(promote_call& asked);
  void read_from_memory();
  /// Takes the pages that are on disk only out of `located_`.
  std::optional<promote_call> ask_for_cold();
  void locate_promoted(promote_call& asked);
  /// Copies one page, unless the deadline has passed, or passes while a large one is copied.
  void read_own_host(const open_page& page);
  page_status copy_out(const open_page& page, bool verify);
  void add_to_batch(const open_page& page);
  peer_read& read_of(const actors::peer& owner);
  void take_batch(const peer_read& read, mirror_call& mirrors);
  /// The page's fate, or a second look when its location was out of date.
  void decide(std::uint32_t index, const directory::page_location& used, page_status status,
              page_origin origin);

  cache_client::impl& client_;
  std::span<const get_page> pages_;
  std::span<page_result> results_;
  const deadline until_;
  actors::topology_ptr cluster_;
  own_pool_ptr own_;
  incarnation left_;                   ///< The own node, when it has left the cluster.
  bool second_look_ = false;           ///< Stale locations are misses from here on.
  std::vector<std::uint32_t> missing_; ///< Without a location.
  std::vector<open_page> located_;     ///< To be read in this round.
  std::vector<bool> from_disk_;        ///< By index: was promoted for this call.
  std::vector<incarnation> avoided_;   ///< By index: whose location was stale in the first look.
  std::vector<generation> denied_;     ///< By index: what that holder is asked for once more, or 0.
  std::vector<std::unique_ptr<peer_read>> batches_;
};

} // namespace peercache::client
