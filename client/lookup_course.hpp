#pragma once

#include "client/cache_client.hpp"
#include "client/lookup_plan.hpp"
#include "client/peer_health.hpp"
#include "common/ids.hpp"

#include <functional>
#include <string_view>
#include <vector>

namespace peercache::client {

/// Guides one call through its look-ups, one after the other (a call asks for many keys in pieces):
/// decides when another round is due, and which owners are left alone. An owner that fails is not
/// asked again in this call; an owner that failed in many calls is asked again when its breaker
/// lets a call pass.
///
/// Threads: one. No clock, no I/O. Lifetime: `health` outlives the course, and each plan lives
/// until the next `begin`. Bounds: `lookup_plan::rounds_max` rounds a look-up; one newer view a
/// call.
class lookup_course {
public:
  /// Returns the linked process of a node in the followed view; null when there is none.
  using process_of = std::function<const incarnation*(node_id)>;

  explicit lookup_course(peer_health& health) : health_(health) {}

  /// Begins the next look-up of the call, by this plan.
  void begin(lookup_plan& plan) noexcept;
  /// Returns the next questions; none: the look-up is over, and each key has its answer.
  std::vector<lookup_plan::share> next_round(const process_of& linked, deadline now,
                                             deadline until);
  /// Takes an owner's answer. False: it is malformed, which counts as a failure.
  bool answered(const lookup_plan::share& asked, const incarnation& owner, std::string_view answer,
                deadline now);
  void failed(const lookup_plan::share& asked, const incarnation& owner, page_status reason,
              deadline now);
  /// Whether to fetch, before the next round, the newer view that a shard spoke of: true once a
  /// call.
  bool wants_view() noexcept;

private:
  lookup_plan::use usable(node_id id, const incarnation* owner, bool now_asked, deadline now);

  peer_health& health_;
  lookup_plan* plan_ = nullptr;
  int rounds_ = 0; ///< Rounds of the current look-up.
  bool has_view_ = false;
  std::vector<node_id> chosen_; ///< Owners whose breaker has let this call pass.
  /// Owners whose breaker would let a call pass; each breaker is asked once.
  std::vector<node_id> free_;
  std::vector<node_id> given_up_; ///< Owners that failed in this call, or must be left alone.
};

} // namespace peercache::client
