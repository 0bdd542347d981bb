#pragma once

#include "client/client_impl.hpp"

#include <chrono>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace peercache::client {

/// What the removal of a page from several holders comes to: a holder that could not be asked may
/// still have it, so its reason wins; `hit` when one had it; else `not_found`.
/// @param so_far pending: nobody was asked
/// @param said by the next holder; anything but `hit` and `not_found` is a reason
page_status join_removals(page_status so_far, page_status said) noexcept;

/// One `remove`: asks the directory who has the pages, and all holders at once to give them up; or
/// all nodes of the view, whatever the directory says.
/// Threads: one object per call. Bound: returns by the deadline, whoever does not answer.
class remove_call {
public:
  remove_call(cache_client::impl& client, std::span<const page_key> keys,
              std::span<page_result> results, deadline until);
  /// For one of several pieces of a large call: holders that were silent in an earlier piece are
  /// not asked again, and unless this is the last one none may take all of the time that is left.
  void leave_out(std::vector<incarnation>& silent, bool is_last) noexcept {
    silent_ = &silent;
    is_last_ = is_last;
  }
  void run(directory_lookup& lookup);
  void run_everywhere();

private:
  using pending_answer = decltype(std::declval<caf::scoped_actor&>()->request(
      std::declval<actors::gateway_actor>(), std::chrono::milliseconds{}, actors::remove_atom_v,
      std::string{}));
  /// The keys whose records name one holder.
  struct share {
    std::string keys; ///< Packed.
    std::vector<std::size_t> indices;
    std::optional<pending_answer> answer; ///< Nothing: it was not asked.
  };
  using shares = std::map<const actors::peer*, share>;

  /// What a set of this host has put is in the pool before it is removed there. Notes which of the
  /// keys are.
  void await_own_puts();
  /// This node holds pages that the directory does not know of (yet).
  void add_own_host(const actors::topology& cluster, shares& holders) const;
  shares shares_of(const actors::topology& cluster) const;
  shares shares_of_everybody(const actors::topology& cluster) const;
  /// Asks all holders before it waits for the first: one that is silent holds up no other.
  void ask(shares& holders);
  /// Sends one question, unless it is of no use.
  void send(session::caller& self, const actors::peer& holder, share& part);
  /// A record of a page that its holder has not is out of date.
  /// @param statuses what the holder of the keys at `indices` said, one byte each
  void take(const actors::peer& holder, const std::vector<std::size_t>& indices,
            std::string_view statuses);
  void settle(std::size_t index, page_status said) noexcept;
  void settle(const share& part, page_status said) noexcept;

  cache_client::impl& client_;
  std::span<const page_key> keys_;
  std::span<page_result> results_;
  const deadline until_;
  own_pool_ptr own_;
  std::vector<std::size_t> on_own_host_; ///< Keys whose page is in the own pool, before it is gone.
  std::vector<incarnation>* silent_ = nullptr;
  bool is_last_ = true;
  std::vector<lookup_answer> answers_;
};

} // namespace peercache::client
