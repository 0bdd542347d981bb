#pragma once

#include "client/cache_client.hpp"
#include "client/lookup_plan.hpp"
#include "client/peer_health.hpp"
#include "common/ids.hpp"

#include <functional>
#include <string_view>
#include <vector>

namespace peercache::client {

/// How one call goes through its look-ups, which may be several, one after the other (a call asks
/// for many keys in pieces): when another round is due, and which owners are left alone. An owner
/// that fails is not asked for the rest of the call; one that failed in many calls is asked again
/// when its breaker lets a call pass.
///
/// Threads: one. No clock, no I/O. Lifetime: `health` outlives it, and each plan until the next
/// `begin`. Bounds: `lookup_plan::rounds_max` rounds a look-up; one newer view a call.
class lookup_course {
public:
  /// The linked process of a node in the view that is followed; null when there is none.
  using process_of = std::function<const incarnation*(node_id)>;

  explicit lookup_course(peer_health& health) : health_(health) {}

  /// The next look-up of the call.
  void begin(lookup_plan& plan) noexcept;
  /// The next questions; none: the look-up is over, and each key has its answer.
  std::vector<lookup_plan::share> next_round(const process_of& linked, deadline now,
                                             deadline until);
  /// False: the answer is malformed, which counts as a failure.
  bool answered(const lookup_plan::share& asked, const incarnation& owner, std::string_view answer,
                deadline now);
  void failed(const lookup_plan::share& asked, const incarnation& owner, page_status reason,
              deadline now);
  /// Whether to fetch the newer view that a shard spoke of before the next round: true once a call.
  bool wants_view() noexcept;

private:
  lookup_plan::use usable(node_id id, const incarnation* owner, bool now_asked, deadline now);

  peer_health& health_;
  lookup_plan* plan_ = nullptr;
  int rounds_ = 0; ///< Of this look-up.
  bool has_view_ = false;
  std::vector<node_id> chosen_;   ///< Breakers that have let this call pass.
  std::vector<node_id> free_;     ///< Breakers that would; each is asked once.
  std::vector<node_id> given_up_; ///< Owners that failed in this call, or must be left alone.
};

} // namespace peercache::client
