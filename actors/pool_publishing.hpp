#pragma once

#include "actors/owner_batches.hpp"
#include "actors/pool_actor.hpp"
#include "actors/publication.hpp"

#include <functional>
#include <string>
#include <vector>

// The pool actor's half of the conversation with the directory's shards.
namespace peercache::actors {

/// Publishes a put. The answer brings slots for the next put, and waits until each page is recorded
/// by one of its owners, or all of them have answered: one that is frozen holds up nothing that
/// another one knows. After a quarter of the time that owners have it comes in any case, and a page
/// that no owner has or knows elsewhere is `unreachable`: in the pool, for this host to find, and
/// still on its way to its owners.
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
caf::result<std::string, std::string> commit(pool_pointer self, const std::string& filled,
                                             commit_mode mode, const std::string& next_lengths);

/// A number of the wire; one that nobody knows stores.
commit_mode mode_of(std::uint8_t number) noexcept;

/// Answers the commits that have waited long enough.
void decide_late_commits(pool_pointer self);

/// Sends the batches to their owners; for the calls see `publication`.
publication_ptr publish(pool_pointer self, std::vector<owner_batch> batches, std::size_t pages,
                        std::function<void(publication&)> done,
                        std::function<void(publication&)> decided = nullptr);

/// The pages of a `commit` or `restore` message.
std::vector<storage::fill> fills_of(const std::string& filled);

/// Withdraws these records; `done` is called once, when all owners have answered or timed out.
void withdraw_from_owners(pool_pointer self, const std::vector<directory::withdraw_record>& records,
                          const std::function<void()>& done);

/// Sends the next chunk of what is unpublished to each owner that has none on its way, and goes on
/// after its answers. Pages are dropped by the same rule as in `commit`.
void publish_unpublished(pool_pointer self);

/// These pages are new here: each owner is told of them, within the budget. Before the node is in a
/// view nobody is; the view tells everybody.
void tell_owners(pool_pointer self, const std::vector<storage::resident_page>& pages);

/// Sends all pending withdrawals, one message an owner.
void send_withdrawals(pool_pointer self);

/// Withdraws every page; answers when the owners did, or their time is up.
caf::result<bool> withdraw_everything(pool_pointer self);

/// This node was out of the view, and everybody forgot its pages: all owners are to be told.
void publish_again(pool_pointer self);

/// A new view or a new connection: what has new owners is to be published; after a view that was
/// missed, everything.
void adopt_topology(pool_pointer self, const topology_ptr& next);

} // namespace peercache::actors
