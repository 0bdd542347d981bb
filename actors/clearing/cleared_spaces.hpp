#pragma once

#include "actors/life_record.hpp"
#include "common/ids.hpp"
#include "common/key_epoch.hpp"
#include "common/result.hpp"
#include "discovery/view.hpp"
#include "storage/epoch_table.hpp"

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace peercache::actors {

/// The cleared spaces that a node knows, and which other nodes know them.
///
/// The epochs themselves lie in the pool's shared memory (storage/epoch_table.hpp), where all
/// clients of the host read them. Epochs only grow, so two nodes that exchange them end with the
/// same epochs, whatever the order. A node that starts has not heard of the clears while it was
/// away: it serves no client before it has `caught_up`, and its table is closed until its owner
/// then `open`s it.
///
/// A node that leaves in good order leaves other nodes behind, whose later clears are certain
/// without it. When such a node starts again, it has caught up only once it has heard from a node
/// that knows those clears (actors/life_record.hpp). Its owner ends the waiting with
/// `wait_no_longer`.
///
/// The class also remembers former members: such a node may still live, unreachable and with
/// clients of its own, so no clear is certain before it is back or `forgive`n.
///
/// Threads: none; the clearing actor serializes. No clock, no I/O.
class cleared_spaces {
public:
  cleared_spaces() = default;
  /// Closes the table: clients find no page here until other nodes have told which spaces were
  /// cleared. Without a table no epoch ever rises, and there is nothing to catch up with.
  cleared_spaces(storage::epoch_table table, const incarnation& self)
      : table_(table), self_(self), caught_up_(!table.exists()) {
    close();
  }

  epoch_number epoch_of(space_id space) const noexcept { return table_.epoch_of(space); }
  /// Returns the epoch for a clear of `space` that begins now. It is above every epoch of the space
  /// that this node knows. It is also at least as high as the clock says, and so above the epochs
  /// of earlier clears that only unreachable nodes know: pages that were set on those nodes after
  /// such a clear are cleared as well.
  epoch_number next_epoch(space_id space, std::uint64_t unix_s) const noexcept;
  /// Number of spaces with an epoch of their own.
  std::size_t count() const;
  /// Raises a space's epoch. False when nothing changed: the epoch was that high already, or
  /// `epoch` is above all valid ones.
  bool raise(space_id space, epoch_number epoch);
  /// `open` lets clients of this host read the pool. `close` forbids it, because the node has not
  /// caught up or leaves its cluster.
  void open() noexcept { table_.open(); }
  void close() noexcept { table_.close(); }

  /// Encodes all cleared spaces and departed nodes that this node knows, for other nodes.
  std::string encode() const { return encode(gone_); }
  /// Encodes cleared spaces, departed nodes and `life`, for the disk. A process that starts with
  /// these bytes counts today's members as missing until they are back.
  std::string encode_for_disk() const;
  /// Takes in what another node has encoded. True when an epoch rose. Errors: `invalid_argument`,
  /// and nothing has changed then.
  result<bool> merge(std::string_view encoded);
  /// Takes in the bytes that the previous process has made with `encode_for_disk`. Errors: those of
  /// `merge`.
  result<void> recall(std::string_view from_disk);
  /// Takes in the `life` of the previous process. @pre no other node was heard yet
  void recall(const life_record& before) { life_.join(before); }

  // --- members and former members

  void adopt(const discovery::view& view);
  /// Returns former members that did not take their leave and were not forgiven, at most
  /// `missing_max`. Each is a name, or "NAME at HOST:PORT" where another member has the name now,
  /// so that nobody takes the lost process for that member.
  std::vector<std::string> missing() const;
  /// Takes an operator's word that the lost processes of this name will never be back. @param name
  /// a name, or a text from `missing`
  void forgive(const std::string& name);

  // --- exchange with other nodes

  /// Another node's question or answer: the clears that it knows, and its state.
  struct telling {
    incarnation from;
    bool welcome = false;   ///< The receiver is in the teller's view.
    bool caught_up = false; ///< The teller has caught up.
    /// The teller has withdrawn pages older than its epochs, and its disk remembers the epochs.
    bool done = false;
    bool leaves = false; ///< The teller has left in good order: no client still reads its pool.
    bool ends = false;   ///< The teller makes no further clear that is certain.
    discovery::view_stamp stamp; ///< Stamp of the teller's view.
    /// Which clears the teller is sure to know, and which nodes it left behind and has not heard
    /// of.
    life_record life;
    std::string spaces; ///< Encoded epochs and departures.
  };
  std::string tell(const incarnation& whom, bool done = true, bool leaves = false) const;
  static result<telling> decode_telling(std::string_view bytes);
  /// Takes in another node's telling. True when an epoch rose. Errors: those of `merge`.
  result<bool> hear(const telling& said);
  /// Takes from a telling only that its sender ends or leaves: nothing else counts for a node that
  /// has left.
  void hear_goodbye(const telling& said);
  /// Whether this member may lack clears or departures that this node knows.
  bool is_to_hear(const incarnation& member) const { return !told_.contains(member); }
  /// Returns the names of the members that have not said, in the same view as this node's, that
  /// they know this epoch and have acted on it: such a member may serve older pages, or let in a
  /// node that does.
  std::vector<std::string> unaware(space_id space, epoch_number epoch) const;

  /// True once this node has heard, since its start, from a node that had caught up and knows what
  /// this node missed, or from all members, including the nodes that the previous process left
  /// behind.
  bool caught_up() const noexcept { return caught_up_; }
  /// Names of nodes that the previous process left behind and that keep this node from catching up;
  /// or empty.
  std::string awaited() const;
  /// Gives up waiting for nodes that were left behind. All earlier pages in every space count as
  /// old from now on, for they might have been cleared. This node has then caught up.
  void wait_no_longer(std::uint64_t unix_s);

  // --- the record for the next process of this node

  /// Call when this node is stopped in good order: it makes no further clear that is certain.
  void end() noexcept { ends_ = true; }
  bool ends() const noexcept { return ends_; }
  /// Call when this node has left: members that are not ending themselves are left behind.
  void leave() noexcept { ends_ = leaves_ = true; }
  life_record life() const;

  static constexpr std::size_t missing_max = 1024;

private:
  /// Identifies a lost process by name and address. Two processes cannot have one address: a
  /// process that starts there has succeeded the lost one. A process of the same name elsewhere,
  /// even at another port of the host, may run beside the lost one.
  struct place {
    std::string name;
    discovery::endpoint address;
    auto operator<=>(const place&) const = default;
  };
  static place place_of(const discovery::member& who);
  struct departure {
    incarnation inc;
    bool forgiven = false;
  };

  /// What a member said in its last telling.
  struct answer {
    discovery::view_stamp stamp;
    std::string spaces;
    bool done = false;
    bool caught_up = false;
    life_record life;
  };
  using departures = std::map<place, departure>;

  static bool is_back(const place& at, const discovery::view& view) noexcept;
  std::string label_of(const place& at) const;
  std::string encode(const departures& gone) const;
  void note_departure(const place& at, const departure& left);
  void take_departures(const departures& theirs);
  result<bool> take_in(std::string_view encoded, life_record* behind);
  void take_lineage(const incarnation& theirs);
  void catch_up(const incarnation& lineage);
  bool knows_what_was_missed(const telling& said) const;
  bool left_behind_have_told() const;
  void look_whether_caught_up();

  storage::epoch_table table_;
  incarnation self_;
  discovery::view view_;
  departures gone_;                       ///< Former members, forgiven or not.
  std::map<incarnation, answer> answers_; ///< The last telling of each member.
  std::set<incarnation> heard_;           ///< Members that this process has heard.
  std::set<incarnation> told_;            ///< Members that know all that this node knows.
  std::set<incarnation> leaving_;         ///< Members that took their leave.
  std::set<incarnation> ending_;          ///< Members that are being stopped.
  life_record life_; ///< The life record of the previous process, until this process has caught up.
  bool caught_up_ = false;
  bool ends_ = false;
  bool leaves_ = false;
};

} // namespace peercache::actors
