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

/// What a node knows of the spaces that were cleared, and of who else knows it.
///
/// The epochs themselves lie in the pool's shared memory (storage/epoch_table.hpp), where all
/// clients of the host read them. Epochs only grow, so two nodes that tell each other what they
/// know know the same, in whatever order that goes. A node that starts has not heard what was
/// cleared while it was away: it serves no client before it has `caught_up`, and its table is
/// closed until its owner `open`s it then.
///
/// A node that left in good order left others behind, who may have cleared spaces for certain
/// since: when it starts again it has caught up only once it has heard from somebody who knows
/// (actors/life_record.hpp). Its owner ends the waiting with `wait_no_longer`.
///
/// Beside the epochs it remembers who was a member and is none: such a node may live, out of reach
/// and with clients of its own, so that no clear is certain before it is back or `forgive`n.
///
/// Threads: none; the gateway serializes. No clock, no I/O.
class cleared_spaces {
public:
  cleared_spaces() = default;
  /// Closes the table: until others have told what was cleared, nobody is to find pages here.
  /// Without a table no epoch ever rises, and there is nothing to catch up with.
  cleared_spaces(storage::epoch_table table, const incarnation& self)
      : table_(table), self_(self), caught_up_(!table.exists()) {
    close();
  }

  epoch_number epoch_of(space_id space) const noexcept { return table_.epoch_of(space); }
  /// Of a clear that begins now: above all that is known here, and by the clock above what nodes
  /// out of reach have cleared before: pages that were set there since are older.
  epoch_number next_epoch(space_id space, std::uint64_t unix_s) const noexcept;
  /// Spaces with an epoch of their own.
  std::size_t count() const;
  /// False when nothing had to change.
  bool raise(space_id space, epoch_number epoch);
  /// Clients of this host may read the pool; nobody may, for the node leaves its cluster.
  void open() noexcept { table_.open(); }
  void close() noexcept { table_.close(); }

  /// All of it, for other nodes.
  std::string encode() const { return encode(gone_); }
  /// `encode` and `life`, for the disk: to a process that starts with it, members of today are
  /// missing until they are back.
  std::string encode_for_disk() const;
  /// Takes in what somebody else has encoded. True when an epoch rose. Errors:
  /// `invalid_argument`, and nothing changed.
  result<bool> merge(std::string_view encoded);
  /// Takes in what a process before has `encode_for_disk`ed. Errors: as of `merge`.
  result<void> recall(std::string_view from_disk);
  /// Takes in a `life` of a process before. @pre nobody was heard yet
  void recall(const life_record& before) { life_.join(before); }

  // --- who is here

  void adopt(const discovery::view& view);
  /// Members of before that are none now, did not take their leave and were not forgiven, at most
  /// `missing_max`. Names, and "NAME at HOST:PORT" where the name is a member's elsewhere by now:
  /// that says nothing of the process that was lost.
  std::vector<std::string> missing() const;
  /// An operator's word that the processes of this name that were lost will never be back.
  /// @param name Or what `missing` says.
  void forgive(const std::string& name);

  // --- who knows it

  /// Another node's question or answer: what it knows, and whether it had caught up itself.
  struct telling {
    incarnation from;
    bool welcome = false;        ///< The one that it goes to is in the teller's view.
    bool caught_up = false;      ///< Of the teller.
    bool done = false;           ///< It has withdrawn what is older, and its disk remembers it.
    bool leaves = false;         ///< In good order: no client reads its pool any more.
    bool ends = false;           ///< No clear by way of it is certain any more.
    discovery::view_stamp stamp; ///< Of the teller's view.
    life_record life;            ///< Of the teller, and whom it waits for.
    std::string spaces;          ///< Encoded.
  };
  std::string tell(const incarnation& whom, bool done = true, bool leaves = false) const;
  static result<telling> decode_telling(std::string_view bytes);
  /// True when an epoch rose. Errors: as of `merge`.
  result<bool> hear(const telling& said);
  /// The part of `hear` that counts for a node that has left.
  void hear_goodbye(const telling& said);
  /// Whether this member has still to hear what is known here.
  bool is_to_hear(const incarnation& member) const { return !told_.contains(member); }
  /// Members that have not said, by the very view that this node has, that they know this epoch and
  /// are done with it: they may serve pages of before, or let somebody in who does.
  std::vector<std::string> unaware(space_id space, epoch_number epoch) const;

  /// Somebody who had caught up has told what it knows since the start, or everybody has; of those,
  /// too, that a process before left behind.
  bool caught_up() const noexcept { return caught_up_; }
  /// Whom a process before left behind, while they keep this node from catching up; or empty.
  std::string awaited() const;
  /// Gives up waiting for those who were left behind: all pages of before are old from here on, in
  /// every space, for they might have been cleared. This node has caught up then.
  void wait_no_longer(std::uint64_t unix_s);

  // --- what the next process of this node is to know

  /// This node ends in good order, and makes no clear that is certain any more.
  void end() noexcept { ends_ = true; }
  bool ends() const noexcept { return ends_; }
  /// It has left: members that do not end are left behind.
  void leave() noexcept { ends_ = leaves_ = true; }
  life_record life() const;

  static constexpr std::size_t missing_max = 1024;

private:
  /// Two processes cannot have one address: who starts there has succeeded the one before. One of
  /// the same name elsewhere, be it at another port of the host, may run beside it.
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

  /// What a member said last.
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
  departures gone_;                       ///< Lost members; later views may have them again.
  std::map<incarnation, answer> answers_; ///< Of members.
  std::set<incarnation> heard_;           ///< Since the start.
  std::set<incarnation> told_;            ///< What is known now.
  std::set<incarnation> leaving_;         ///< Members that took their leave.
  std::set<incarnation> ending_;          ///< Members that are being stopped.
  life_record life_;                      ///< The last process's, until this one has caught up.
  bool caught_up_ = false;
  bool ends_ = false;
  bool leaves_ = false;
};

} // namespace peercache::actors
