#include "directory/member_shard.hpp"

#include "common/assert.hpp"
#include "directory/shard_batch.hpp"

#include <algorithm>
#include <utility>

namespace peercache::directory {
namespace {

view_number number_of(const discovery::view& view) {
  return {view.term, view.version};
}

} // namespace

member_shard::taken member_shard::follow(cluster next, time_point now) {
  PEERCACHE_ASSERT(next.view && next.ring);
  if (next.view->stamp() <= left_at_)
    return taken::no;
  const bool same = cluster_.view && *cluster_.view == *next.view;
  cluster_ = std::move(next);
  std::vector<incarnation> living;
  living.reserve(cluster_.view->members.size());
  for (const auto& member : cluster_.view->members)
    living.push_back(member.inc);
  shard_.follow(living);
  if (same)
    return taken::same;
  changed_at_ = now;
  return taken::anew;
}

std::size_t member_shard::leave(const discovery::view_stamp& without) {
  left_at_ = std::max(left_at_, without);
  return shard_.set_members({});
}

const incarnation* member_shard::process_of(node_id id) const {
  const auto* member = cluster_.view ? cluster_.view->find(id) : nullptr;
  return member != nullptr ? &member->inc : nullptr;
}

bool member_shard::owns(const page_key& key) const {
  return cluster_.ring->owns(options_.self, key, options_.replicas);
}

result<std::string> member_shard::publish(std::string_view batch, const view_number& known) {
  if (is_behind(known))
    return answer_from_behind(batch);
  if (options_.epochs.untouched())
    return publish_batch(shard_, batch);
  // A record of a cleared page that comes behind `forget_old` would stay.
  return publish_batch(shard_, batch,
                       [this](const page_key& key) { return options_.epochs.is_old(key); });
}

bool member_shard::publishes_at_once(std::string_view batch, const view_number& known) const {
  return !is_behind(known) && !needs_sweep(batch) &&
         !shard_.may_grow_by(batch.size() / wire::publish_record_bytes);
}

bool member_shard::is_behind(const view_number& known) const {
  return cluster_.view && number_of(*cluster_.view) < known;
}

key_ownership member_shard::answering::ownership() const {
  key_ownership ownership;
  // While the node's epoch table is closed, the node may miss clears, so its shard tells readers of
  // no page.
  const bool closed = epochs.closed();
  if (by.view && !closed) {
    ownership.by = number_of(*by.view);
    ownership.owns = [this](const page_key& key) { return by.ring->owns(self, key, replicas); };
  } else {
    // Without a usable view this member cannot tell who owns a key, so every key without a record
    // is `not_mine`: readers go on to the key's next owner.
    ownership.owns = [](const page_key&) { return false; };
  }
  // Pools withdraw the records of cleared pages. Until they have done so, a client that has not
  // heard of the clear would still be sent to cleared pages.
  if (closed || !epochs.untouched())
    ownership.is_old = [this, closed](const page_key& key) { return closed || epochs.is_old(key); };
  return ownership;
}

member_shard::answering member_shard::answers_by() const {
  const bool usable = cluster_.view && cluster_.view->stamp() > left_at_;
  return {options_.self, options_.replicas, usable ? cluster_ : cluster{}, options_.epochs};
}

void member_shard::tell_remote_readers() {
  const auto by = answers_by().by;
  shard_.set_view(by.view ? number_of(*by.view) : view_number{});
  const auto& epochs = options_.epochs;
  const auto may_be_read = [&] {
    return !epochs.closed() && epochs.changes() == forgotten_changes_;
  };
  if (may_be_read())
    shard_.allow_remote_reads();
  // A clear in between has forbidden it before.
  if (!may_be_read())
    shard_.forbid_remote_reads();
}

std::size_t member_shard::forget_old() {
  const auto changes = options_.epochs.changes();
  if (changes == forgotten_changes_ || changes % 2 != 0)
    return 0; // A change that is not whole hides what is old.
  const auto old =
      shard_.retain([this](const page_key& key) { return !options_.epochs.is_old(key); });
  forgotten_changes_ = changes;
  return old;
}

result<std::string> member_shard::look_up(std::string_view keys, std::uint64_t& foreign) const {
  const auto by = answers_by();
  return lookup_batch(shard_, keys, by.ownership(), foreign);
}

/// Whether the batch has keys for which a sweep has to come that is not due yet.
bool member_shard::needs_sweep(std::string_view publish_batch) const {
  return !sweep_is_due_ && cluster_.view &&
         has_foreign_keys(publish_batch, [this](const page_key& key) { return owns(key); });
}

bool member_shard::makes_sweep_due(std::string_view publish_batch) {
  const bool due = needs_sweep(publish_batch);
  sweep_is_due_ |= due;
  return due;
}

member_shard::swept member_shard::sweep(time_point now,
                                        const std::function<void(const page_key&)>& gone) {
  if (!sweep_end_)
    sweep_is_due_ = false;
  // Views may follow each other quickly, so `grace` counts from the last one.
  if (now - changed_at_ < options_.grace) {
    sweep_end_.reset();
    return {};
  }
  std::function<bool(const page_key&)> keep;
  if (cluster_.view && cluster_.view->find(options_.self) != nullptr)
    keep = [this](const page_key& key) { return owns(key); };
  const auto end = sweep_end_.value_or(sweep_from_);
  const auto slice = shard_.forget(sweep_from_, options_.sweep_slice, keep, gone);
  // Slices begin at multiples of their size, so that one of them begins at the end; and what has
  // been made of records never becomes less.
  sweep_from_ = slice.next;
  const bool more = sweep_from_ != end;
  sweep_end_ = more ? std::optional(end) : std::nullopt;
  return {slice.gone, slice.others, more};
}

void member_shard::begin_to_give(afterwards then, time_point until,
                                 std::function<void(const handed_over&)> done) {
  const auto* own = cluster_.view ? cluster_.view->find(options_.self) : nullptr;
  if (own == nullptr)
    return done({});
  waiting_.push_back(std::move(done));
  const bool leaves = then == afterwards::leaves;
  if (giving_) {
    if (leaves)
      giving_->go_on_leaving(own->inc, until);
    return;
  }
  auto members = cluster_.view->members;
  std::erase_if(members, [&](const auto& member) { return member.id == options_.self; });
  auto how = options_.giving;
  how.self = options_.self;
  how.replicas = options_.replicas;
  how.leaving = leaves ? own->inc : incarnation{};
  how.until = until;
  giving_.emplace(how, *cluster_.ring, discovery::hash_ring(members));
}

std::vector<hand_over::order> member_shard::give(time_point now) {
  return giving_ ? giving_->next(shard_, now) : std::vector<hand_over::order>{};
}

std::uint64_t member_shard::given(std::string_view outcomes) {
  PEERCACHE_ASSERT(gives());
  return giving_->answered(outcomes);
}

void member_shard::not_given(std::uint64_t records) {
  PEERCACHE_ASSERT(gives());
  giving_->failed(records);
}

std::optional<handed_over> member_shard::end_giving() {
  if (!giving_ || !giving_->done())
    return std::nullopt;
  const auto came_to = giving_->so_far();
  giving_.reset();
  for (auto& done : std::exchange(waiting_, {}))
    done(came_to);
  return came_to;
}

std::vector<hand_over::order> member_shard::forward(std::string_view withdrawals) const {
  return giving_ ? giving_->forward(withdrawals) : std::vector<hand_over::order>{};
}

} // namespace peercache::directory
