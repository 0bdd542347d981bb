#pragma once

#include "discovery/jump_guard.hpp"
#include "discovery/liveness.hpp"
#include "discovery/packet.hpp"
#include "discovery/quorum.hpp"
#include "discovery/survey.hpp"
#include "discovery/view.hpp"

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace peercache::discovery {

/// Action: carry `body` to the node at `to`, best effort. The protocol repeats what a lost packet
/// said, and must not be held up by a slow peer.
struct send_packet {
  endpoint to;
  packet body;
};

/// Action: `latest` is the cluster's view from now on. The view always contains this node's
/// incarnation.
struct adopt_view {
  view latest;
};

/// Action: tell the operator that the leader does not take this node in; the node goes on asking.
/// Emitted when the reason differs from the last emitted reason.
struct join_refused {
  refusal why = refusal::no_majority;
  std::string reason;
};

/// Action: tell the operator that nobody whom this node asked to take it in has answered so far;
/// the node goes on asking. Emitted once in the life of the process.
struct join_unanswered {
  std::string reason;
};

/// Action: tell the operator that this node, which leads, does not take the applicant in. Emitted
/// for each join; not when the cluster only cannot change for a while (`refusal::no_majority`).
struct join_turned_away {
  member who;
  std::string reason;
};

using action =
    std::variant<send_packet, adopt_view, join_refused, join_unanswered, join_turned_away>;

struct membership_options {
  /// Nodes to join through; the first one is the pinned head. Empty: this node founds a cluster.
  std::vector<endpoint> seeds;
  std::uint32_t max_masters = 3;
  duration heartbeat = std::chrono::milliseconds(500);
  duration expiry = std::chrono::seconds(2);
  /// For how long beyond `expiry` the pinned head looks for a cluster before it founds one.
  duration patience{0};
  /// Unix time, in ms, when `membership` is constructed: the base of the times in `view::gone`.
  std::uint64_t unix_ms = 0;
};

/// The membership protocol of one node, member and master in one: events in, actions out.
///
/// Every member sends heartbeats to all masters. The first master of the view leads: only it
/// admits, expires and publishes views. A master takes over, in a higher term, when all masters
/// before it are silent. Views spread by comparing stamps in heartbeats; a node that finds itself
/// missing in the newest view joins again. A node keeps the last view that contained it until
/// somebody tells it a newer view with it inside. Masters look for former members at their former
/// addresses, so a member that restarts needs no living seed; a node that never was a member needs
/// one.
///
/// Three or more masters: the view after V is what a majority of V's masters accepted (one instance
/// of Paxos for each view), so there is only one such view, and a side of a partition without a
/// majority keeps its view and serves on. The leader of V proposes without asking first; other
/// masters ask for promises, which are refused while a master placed before the asker is heard.
/// Masters hear each other by answers, so a master that cannot hear does not count; and no master
/// votes for a view that lacks a member that it hears. A master that restarted has another
/// incarnation, and therefore no vote until a view names it. When a majority of the masters
/// restarted, a majority can no longer vote: then the processes that run in the places of masters
/// vote in their stead (`voting_round`), once they have learnt the view.
///
/// One or two masters decide alone, so two halves that cannot hear each other each go on; when they
/// meet, the view with the higher stamp wins, and the nodes of the other view join it. A view of
/// three or more masters is final as long as no view of one or two masters comes after it. When the
/// masters of such a small view are gone, the masters of the previous view that have not restarted
/// go on from the previous view.
///
/// A node that hears too few masters for a change of its view looks, after an expiry, which other
/// nodes are left (`survey`). The first of the survivors makes a fragment of them two expiries
/// later, in which the protocol goes on as in any view. A fragment has the term of the view that it
/// comes from, so every view that the majority makes is newer, and nodes that were cut off join
/// that view; two fragments that meet join by their stamps. Once a majority of the former masters
/// is back, the next view is no longer a fragment. A node that lives in the view before a fragment
/// and is in touch with that view's masters ignores the fragment, and its leader makes a newer
/// view. Only views depend on views: bytes are checked by incarnation, generation and key.
///
/// Name conflicts: a process that asks at the address of the member of its name replaces the member
/// (the node counts as restarted). A process of that name at another port or on another host is
/// refused while the member lives; a process that starts at another port of the same host replaces
/// the member as soon as the member is silent.
///
/// Threads: none; the owner serializes all calls. No clock and no I/O: time is an argument
/// (monotonic, never earlier than before), and `tick` is due as `next_tick` says.
/// Errors: none; packets from the world are checked by the codec, and senseless packets change
/// nothing. Invariants: 1. the newest known stamp never decreases; 2. a view that is issued here is
/// newer than all views known here; 3. every adopted view contains this incarnation.
class membership {
public:
  enum class phase : std::uint8_t {
    looking,   ///< This process was never in a view.
    joined,    ///< This process is in the newest view it knows.
    rejoining, ///< A newer view without this node exists; the node keeps the old view meanwhile.
    left,      ///< `leave` was called: the process only votes, and follows views.
  };

  /// Makes the protocol of the node `self`, which begins at the first `tick`.
  /// @pre self.id == node_id_of(self.name); heartbeat > 0; expiry > heartbeat; max_masters > 0.
  membership(membership_options options, member self, time_point now);

  /// Handles the passing of time: returns the actions that are due at `now`.
  std::vector<action> tick(time_point now);
  /// When the next `tick` is due after the latest event: with the next heartbeat while nothing is
  /// under way and no member will be silent before; otherwise at the next quarter of a heartbeat.
  /// An earlier time that a previous call named still holds.
  time_point next_tick(time_point now) const;
  /// Handles a received packet, whoever sent it. Returns the actions that the packet causes.
  std::vector<action> on_packet(const packet& received, time_point now);
  /// Notes that the connection to the process with this incarnation broke: the member is expelled
  /// about two heartbeats later unless it is heard of again, instead of after the whole expiry.
  std::vector<action> on_peer_lost(const incarnation& inc, time_point now);
  /// Sets whether this node drains, that is, owns no keys. The leader makes the view that says so;
  /// until that view comes, this node asks for it with every heartbeat.
  std::vector<action> set_draining(bool draining, time_point now);
  /// Replaces the address `from` of a seed by `to`. While this node looks for a cluster, it founds
  /// none before the seed has had the time to answer.
  /// @param all_known whether the addresses of all other seeds are known: this ends
  /// `membership_options::patience`
  void correct_seed(const endpoint& from, const endpoint& to, bool all_known, time_point now);
  /// Removes the member `name` from the gone members that the cluster's next view lists. Does
  /// nothing if this node does not lead, or no member of this name is gone.
  std::vector<action> forget(std::string_view name, time_point now);
  /// Makes this node leave the cluster: until `may_end` the node tells the masters that it leaves,
  /// and otherwise only votes.
  std::vector<action> leave(time_point now);
  /// Whether the cluster no longer needs this process. After `leave`, a master whose vote counts is
  /// needed until it hears of a view without itself: should another master be lost before that view
  /// is decided, the vote of the leaving one could be needed for a majority of three. A leaving
  /// master waits for nobody when all others are silent or leave as well. True whenever `leave` was
  /// not called.
  bool may_end(time_point now) const;

  /// The newest view that this process has heard of; this node may not be in it.
  const view& newest() const noexcept { return newest_; }
  /// The last view adopted; term 0 before the first one. While rejoining: the newest view with this
  /// process inside, which may be one that this process only fell back to (`stand_on`) and that
  /// never came as an `adopt_view` action.
  const view& current() const noexcept { return view_; }
  const member& self() const noexcept { return self_; }
  phase state() const noexcept { return phase_; }
  bool leads() const noexcept;
  bool is_master() const noexcept;
  /// Whether no master of the view (counting this node) has been heard of for an expiry: the view
  /// may then be out of date.
  bool isolated(time_point now) const;
  /// Whether the view has three or more masters of which fewer than a majority (counting this node)
  /// answer this node. As far as this node sees, the view then cannot change until there is a
  /// fragment.
  bool frozen(time_point now) const;

private:
  void handle(const join_packet& p);
  void handle(const refused_packet& p);
  void handle(const heartbeat_packet& p);
  void handle(const heartbeat_answer_packet& p);
  void handle(const view_packet& p);
  void handle(const view_change_packet& p);
  void handle(const leave_packet& p);
  void handle(const prepare_packet& p);
  void handle(const propose_packet& p);
  void handle(const vote_packet& p);

  // Functions of every node, master or not (membership.cpp).
  void notice_own_pause(time_point now);
  bool is_credible(const view_stamp& stamp);
  bool is_credible(const ballot& attempt);
  void note_sign_of_life(const incarnation& who);
  void note_heard_by(const incarnation& who, const endpoint& from);
  void reply_to(const heartbeat_packet& p);
  heartbeat_answer_packet answer_to_heartbeat() const;
  void ask_for_own_state();
  void send_heartbeats();
  void greet(const member& master);
  bool answers_in_time(const member& master) const;
  bool in_time(time_point last) const;
  void send(endpoint to, packet body);
  /// Appends an action of this type, to be filled by the caller.
  template <class Action>
  Action& add() {
    return std::get<Action>(actions_.emplace_back(std::in_place_type<Action>));
  }
  // Functions about views that this process is sent (membership_views.cpp).
  std::optional<view> made_by(const view_difference& change) const;
  void ask_for_view(const endpoint& from, const view_stamp& stamp);
  packet newest_for(const view_stamp& known) const;
  void consider(const view& received);
  void learn(const view& latest);
  void adopt(const view& latest);
  void stand_on(const view& decided);
  void succeed_own_view(const view& latest, bool was_master);
  void watch_masters(const std::vector<std::string>& old_masters);
  void tell_who_is_out_as_well();

  // Functions about the time of the next tick (membership_ticks.cpp).
  bool busy() const;
  bool calm(time_point until) const;
  static bool only_says_of_life(const packet& received);
  bool beat_is_due();
  duration until_next_tick() const noexcept;
  std::vector<action> take_actions();

  // Functions of a node that hears too few masters: the survey of the nodes that are left, and
  // fragments (membership_fragment.cpp).
  struct masters_heard {
    std::size_t originals = 0;
    std::size_t successors = 0;
  };
  masters_heard hear_masters(time_point now) const;
  bool in_touch(time_point now) const;
  bool cut_off() const;
  void survey_if_cut_off();
  view fragment_of(std::vector<member> members) const;
  bool is_whole_with(const std::vector<member>& members) const;
  bool is_to_be_outbid(const view& received) const;
  bool wants_other_view(const std::vector<member>& members) const;

  // Functions of a node that leaves, and of nodes that hear of its leaving
  // (membership_leaving.cpp).
  bool hears_after_leaving(const packet& received);
  bool closes_the_door() const;
  std::vector<action> tick_after_leaving();
  void tell_of_leaving();
  void note_leaver(const incarnation& inc);

  // Functions about the members that views list as gone (membership_gone.cpp).
  std::vector<departed> gone_after(const view& next) const;
  departure why_gone(const member& who) const;
  std::uint64_t unix_ms() const;
  bool forgets_some() const;

  // Functions of joining: of the node that asks and of the nodes that take it in
  // (membership_joining.cpp).
  struct applicant {
    member who;
    bool was_member = false;
    time_point asked_at;
  };
  std::vector<endpoint> who_may_lead() const;
  void send_joins();
  bool note_applicant(const applicant& asks);
  bool replaces(const applicant& asks, const member& known) const;
  void declare_replaced_dead();
  bool newest_is_orphaned() const;
  std::vector<member> with_applicants(std::vector<member> members) const;
  static void take_in(std::vector<member>& members, const member& who);
  std::optional<refused_packet> reason_to_refuse(const member& who) const;
  void forward(const join_packet& p);
  void hear_of(const view_stamp& known);
  void found_if_due();
  void complain_if_unanswered();
  bool all_seeds_ask() const;

  // Functions of masters: proposing, deciding and publishing views (membership_master.cpp).
  void pursue();
  bool may_propose() const;
  bool lives_here(const member& master) const;
  bool first_living_master() const;
  std::vector<member> wanted_members() const;
  view next_view(std::uint64_t term, std::vector<member> members) const;
  void commit(const view& next);
  void publish(const view& latest);
  void remember_former(const view& before);
  void note_answer(const heartbeat_answer_packet& p);
  void greet_seeds(const heartbeat_packet& p);

  // Functions for the agreement of three or more masters on the next view (membership_voting.cpp).
  const view& base() const;
  bool stands_in() const;
  bool acts_as_successor() const;
  void stand_in_after(duration wait);
  void start_round(std::vector<member> members);
  void ask_masters();
  const member* who_replaced(const member& master) const;
  bool vote_is_wanted(const member& master) const;
  void ask_again_if_due();
  prepare_packet own_prepare() const;
  propose_packet own_proposal() const;
  void vote_oneself();
  void propose(view value, bool inherited);
  void proceed();
  bool superseded(const view& found) const;
  void end_round(duration rest);
  bool votes_can_suffice() const;
  vote_memory* memory_for(const view_stamp& about, const ballot& attempt, const endpoint& from);
  vote_memory* successor_memory(const view_stamp& about);
  vote_packet cast(const prepare_packet& p, vote_memory& memory) const;
  vote_packet cast(const propose_packet& p, vote_memory& memory) const;
  vote_packet blank_vote(const view_stamp& about, const ballot& attempt) const;
  bool better_placed_lives(const prepare_packet& p, bool as_successor) const;
  std::vector<incarnation> heard_but_missing(const view& value) const;

  // Fields that stay as the constructor set them, except where noted.
  membership_options options_;
  member self_;         ///< This node, as its packets describe it; only `draining` changes.
  endpoint head_;       ///< The address at which the pinned head listens.
  bool founds_ = false; ///< Whether this node is the pinned head.

  // Fields that events change.
  phase phase_ = phase::looking;
  /// The newest view with this incarnation: adopted, or taken by `stand_on` while rejoining.
  view view_;
  view newest_; ///< The newest view heard of; differs from `view_` while looking or rejoining.
  std::optional<view_difference> last_change_; ///< From the newest view known before to `newest_`.
  liveness liveness_;
  time_point now_;
  time_point next_beat_;
  time_point began_;       ///< When this process began.
  time_point listened_at_; ///< Before this time the pinned head founds no cluster.
  time_point found_at_;    ///< When the pinned head stops asking and founds a cluster.
  /// Stamp of the newest view that other nodes have said they know. Set only before this process
  /// has been in a view (`phase::looking`).
  view_stamp heard_of_;
  /// Until this time the pinned head waits for somebody to send it the view `heard_of_`.
  time_point told_by_;
  time_point left_at_;
  time_point rejoining_since_; ///< When rejoining began, or the newer cluster was last heard of.
  /// When this process last got a sign of the cluster: a newer view, a refusal, or a heartbeat or
  /// an answer of a member of the newest view.
  time_point cluster_heard_at_;
  /// Whether another node sent this process a refusal, a heartbeat or an answer.
  bool was_answered_ = false;
  bool complained_ = false;      ///< Whether `join_unanswered` was emitted.
  std::optional<survey> survey_; ///< The search for survivors; empty unless this node is cut off.
  view_stamp outbid_; ///< Stamp of the newest ignored fragment; the next view must be newer.
  /// Members of this node's view that live in an ignored fragment.
  std::set<incarnation> elsewhere_;
  std::size_t probe_next_ = 0;
  /// Members of earlier views that are not in `view_`, the newest last.
  std::vector<member> former_;
  jump_guard terms_;
  jump_guard versions_;
  bool change_is_due_ = false; ///< Whether something happened that may call for another view.
  /// Whether the latest event told no more than that another member lives.
  bool only_heard_ = false;

  // Fields that only masters use, except where noted.
  /// Nodes that asked lately to come in; kept by a node that may propose a view or is not joined.
  std::map<node_id, applicant> joining_;
  struct answer {
    time_point at;
    incarnation by;
  };
  std::map<endpoint, answer> answered_; ///< The last answer from each master's address.
  /// When this master last got a heartbeat from each other one that has the same view.
  std::map<incarnation, time_point> greeted_;
  /// Members that another master hears, as its veto says, and until when that keeps them in views.
  std::map<incarnation, time_point> vouched_;
  /// Processes that said that they leave, and when they said it; kept for an expiry, and as long as
  /// this node's view has them.
  std::map<incarnation, time_point> leavers_;
  /// Names of gone members that the next view no longer lists in `gone`.
  std::set<std::string, std::less<>> forgotten_;
  /// The attempt to make the next view that this process is making; empty: none.
  std::optional<voting_round> round_;
  time_point next_round_at_;    ///< Before this time this process begins no attempt.
  time_point ask_again_at_;     ///< When masters that have not granted their votes are asked again.
  time_point stand_in_at_;      ///< When this process may act for the master whose name it has.
  std::uint64_t term_seen_ = 0; ///< The highest term of any attempt that this process heard of.
  std::uint64_t version_proposed_ = 0; ///< The highest view version that it proposed to others.
  /// The base view for which this leader has used its first attempt, which needs no promises.
  view_stamp led_;
  vote_memory votes_; ///< This process's votes about the view after `view_`.
  /// Votes about the view after one that this process never lived in, by the stamp of that earlier
  /// view; only the 16 with the newest stamps are kept.
  std::map<view_stamp, vote_memory> successor_votes_;
  std::string refused_reason_;
  std::vector<action> actions_; ///< The actions that the event being handled has caused so far.
};

std::string_view to_string(membership::phase value) noexcept;

} // namespace peercache::discovery
