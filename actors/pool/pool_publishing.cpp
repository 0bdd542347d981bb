#include "actors/pool/pool_publishing.hpp"

#include "actors/pool/pool_reserve.hpp"
#include "common/assert.hpp"

#include <type_traits>
#include <utility>

namespace peercache::actors {
namespace {

/// Longest batch that this actor applies to its node's shard itself: larger ones are work that the
/// directory does beside this actor's.
constexpr std::size_t own_batch_bytes_max = 256 * directory::wire::publish_record_bytes;

/// Whether an order changes the shard of the owner that carries it out.
template <class Order>
constexpr bool changes_shard = std::is_same_v<Order, directory::publisher::tell> ||
                               std::is_same_v<Order, directory::publisher::take_back>;

/// Counts a change that this node's directory is late with as done once the directory has handled
/// all messages that it was sent, or has ended.
void wait_for_own_directory(pool_pointer self, const directory_actor& own) {
  const auto waited = [self] { --self->state.own_shard_requests; };
  self->request(own, caf::infinite, withdraw_atom_v, std::string{})
      .then([waited](std::uint64_t) { waited(); }, [waited](const caf::error&) { waited(); });
}

/// Sends an order to the owner that has to carry it out, and passes the answer to the publisher. An
/// owner that cannot be reached counts as failed at once. This node's directory makes a change
/// however late it is, and until then no other change may overtake it.
template <class Answer, class Order, class... Message>
void ask_owner(pool_pointer self, const Order& what, Message... message) {
  auto& state = self->state;
  const auto* owner = state.cluster->find(what.owner);
  if (owner == nullptr || !owner->linked())
    return state.publishing->failed(what.id, self->clock().now());
  const bool changes_own_shard = changes_shard<Order> && what.owner == state.options.self;
  std::size_t of_own_shard = changes_own_shard ? 1 : 0; // Not constant: the handlers capture it.
  state.own_shard_requests += of_own_shard;
  self->request(owner->directory, state.options.directory_timeout, std::move(message)...)
      .then(
          [self, id = what.id, of_own_shard](const Answer& said) {
            self->state.own_shard_requests -= of_own_shard;
            self->state.publishing->answered(id, said, self->clock().now());
            carry_out_orders(self);
          },
          [self, id = what.id, of_own_shard, directory = owner->directory](const caf::error& why) {
            if (of_own_shard > 0 && why == caf::sec::request_timeout)
              wait_for_own_directory(self, directory);
            else
              self->state.own_shard_requests -= of_own_shard;
            self->state.publishing->failed(id, self->clock().now());
            carry_out_orders(self);
          });
}

/// Whether this actor may change its node's shard itself now: the order is for this shard, and does
/// not overtake a message to the directory.
template <class Order>
bool may_do_itself(const pool_state& state, const Order& what) {
  return state.options.shard && what.owner == state.options.self && state.own_shard_requests == 0 &&
         what.bytes.size() <= own_batch_bytes_max;
}

/// Passes the answer of this node's shard to the publisher. The caller goes on with the publisher's
/// further orders.
template <class Order, class Answer>
void take_answer(pool_pointer self, const Order& what, const result<Answer>& said) {
  const auto now = self->clock().now();
  if (said)
    self->state.publishing->answered(what.id, *said, now);
  else
    self->state.publishing->failed(what.id, now);
}

void carry_out(pool_pointer self, directory::publisher::tell& order) {
  PEERCACHE_ASSERT(self->state.cluster); // Nobody is told anything before the first view.
  auto& state = self->state;
  const auto& view = state.cluster->view;
  if (may_do_itself(state, order))
    if (const auto said = state.options.shard->try_publish(order.bytes, {view.term, view.version}))
      return take_answer(self, order, *said);
  ask_owner<std::string>(self, order, publish_atom_v, std::move(order.bytes), view.term,
                         view.version);
}

void carry_out(pool_pointer self, directory::publisher::take_back& order) {
  auto& state = self->state;
  if (may_do_itself(state, order))
    if (const auto said = state.options.shard->try_withdraw(order.bytes))
      return take_answer(self, order, *said);
  ask_owner<std::uint64_t>(self, order, withdraw_atom_v, std::move(order.bytes));
}

void carry_out(pool_pointer self, directory::publisher::compare& order) {
  ask_owner<std::uint64_t>(self, order, compare_atom_v, std::move(order.bytes));
}

void carry_out(pool_pointer self, directory::publisher::list& order) {
  ask_owner<std::string>(self, order, list_atom_v, std::move(order.bytes));
}

void carry_out(pool_pointer self, directory::publisher::walk_disk& order) {
  PEERCACHE_ASSERT(self->state.disk.actor); // The disk actor says hello before anything is walked.
  self->request(self->state.disk.actor, caf::infinite, walk_atom_v, order.after, order.pages,
                from_here{})
      .then(
          [self, id = order.id](const std::string& pages, std::uint64_t last) {
            self->state.publishing->walked(id, pages, last);
            carry_out_orders(self);
          },
          [self, id = order.id](const caf::error&) {
            self->state.publishing->failed(id, self->clock().now());
            carry_out_orders(self);
          });
}

void carry_out(pool_pointer self, directory::publisher::acknowledge& order) {
  self->send(self->state.disk.actor, ack_atom_v, order.ticket, from_here{});
}

void carry_out(pool_pointer self, directory::publisher::settled& order) {
  auto& state = self->state;
  const auto found = state.committing.find(order.put);
  PEERCACHE_ASSERT(found != state.committing.end()); // Each put is settled once.
  auto open = std::move(found->second);
  state.committing.erase(found);
  for (const auto& page : order.keep)
    state.disk.keep(page);
  send_to_disk(self);
  reserve_then(self, std::move(open.next_lengths),
               [promise = std::move(open.promise),
                statuses = std::move(order.statuses)](std::string slots) mutable {
                 promise.deliver(std::move(statuses), std::move(slots));
               });
}

void carry_out(pool_pointer self, directory::publisher::withdrawn& order) {
  const auto found = self->state.removing.find(order.wait);
  PEERCACHE_ASSERT(found != self->state.removing.end());
  found->second.promise.deliver(std::move(found->second.statuses));
  self->state.removing.erase(found);
}

void carry_out(pool_pointer self, directory::publisher::has_left& order) {
  const auto found = self->state.leaving.find(order.leaving);
  PEERCACHE_ASSERT(found != self->state.leaving.end());
  found->second.deliver(true);
  self->state.leaving.erase(found);
}

} // namespace

void carry_out_orders(pool_pointer self) {
  self->state.publishing->carry_out_orders([self](auto& each) { carry_out(self, each); });
  scrub(self); // The publisher may have given pages up, and dropped fills.
  if (!self->state.publishing->idle())
    stir(self);
}

std::vector<storage::fill> fills_of(const std::string& filled) {
  auto count = record_count<filled_slot>(filled).value_or(0);
  std::vector<storage::fill> fills(count);
  for (std::size_t i = 0; i < count; ++i) {
    auto page = record_at<filled_slot>(filled, i);
    fills[i] = {page.slot, page.key, page.length_bytes, page.checksum};
  }
  return fills;
}

commit_mode mode_of(std::uint8_t number) noexcept {
  return number < commit_modes ? static_cast<commit_mode>(number) : commit_mode::store;
}

caf::result<std::string, std::string> commit(pool_pointer self, const std::string& filled,
                                             commit_mode mode, const std::string& next_lengths) {
  auto& state = self->state;
  const auto now = self->clock().now();
  const auto put = state.publishing->put(fills_of(filled), mode, now);
  for (const auto& key : state.publishing->take_replaced())
    state.lost.note(key, page_loss::replaced, now);
  state.evict_ahead(now);
  auto promise = self->make_response_promise<std::string, std::string>();
  const bool is_new =
      state.committing.emplace(put, pool_state::open_commit{promise, next_lengths}).second;
  PEERCACHE_ASSERT(is_new); // A promise that is replaced is never delivered.
  carry_out_orders(self);
  return promise;
}

caf::result<bool> withdraw_everything(pool_pointer self) {
  auto promise = self->make_response_promise<bool>();
  const bool is_new = self->state.leaving.emplace(self->state.publishing->leave(), promise).second;
  PEERCACHE_ASSERT(is_new);
  carry_out_orders(self);
  return promise;
}

void adopt_topology(pool_pointer self, const topology_ptr& next) {
  PEERCACHE_ASSERT(next);
  self->state.cluster = next;
  directory::publisher::cluster known;
  known.view = {next, &next->view};
  known.ring = {next, &next->ring};
  known.is_linked = [next](node_id id) {
    const auto* owner = next->find(id);
    return owner != nullptr && owner->linked();
  };
  self->state.publishing->follow(std::move(known), self->clock().now());
  carry_out_orders(self);
}

} // namespace peercache::actors
