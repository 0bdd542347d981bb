#include "tests/scenario/lookup.hpp"

#include "tests/scenario/cluster.hpp"
#include "tests/scenario/process.hpp"

#include <algorithm>

namespace peercache::scenario {

using namespace std::chrono_literals;
using client::lookup_plan;

lookup::lookup(cluster& in, process& by, std::vector<page_key> keys, time_point until, told done)
    : cluster_(in), by_(by), keys_(std::move(keys)), until_(until), done_(std::move(done)),
      answers_(keys_.size()), plan_(keys_, answers_) {}

void lookup::begin() {
  follow();
  next_round();
}

/// Goes by the newest view that the clients of this node have.
void lookup::follow() {
  known_ = by_.clients_know();
  client::owners_known owners;
  owners.view = {known_->view.term, known_->view.version};
  owners.now = known_->ring.get();
  owners.before = known_->past.asked_at(cluster_.time().now());
  owners.own = by_.on().self.id;
  owners.replicas = cluster_.settings().replicas;
  owners.is_member = [known = known_](const incarnation& inc) {
    return known->view.find(inc) != nullptr;
  };
  plan_.follow(std::move(owners));
}

lookup_plan::use lookup::usable(node_id id) const {
  if (known_->view.find(id) == nullptr)
    return lookup_plan::use::no_link;
  const bool left_alone = std::find(given_up_.begin(), given_up_.end(), id) != given_up_.end();
  return left_alone ? lookup_plan::use::left_alone : lookup_plan::use::yes;
}

void lookup::next_round() {
  shares_.clear();
  if (rounds_++ < lookup_plan::rounds_max && until_ - cluster_.time().now() >= 1ms)
    shares_ = plan_.next_round([this](node_id id, bool) { return usable(id); });
  waiting_ = shares_.size();
  for (const auto& whom : shares_)
    ask(whom);
  if (!shares_.empty())
    return;
  plan_.finish();
  done_(answers_);
}

void lookup::ask(const lookup_plan::share& whom) {
  cluster_.ask(
      by_, known_->view.find(whom.owner)->inc,
      [request = whom.request](process& owner) { return owner.serve_lookup(request); },
      whom.patience(until_ - cluster_.time().now()),
      [self = shared_from_this(), &whom](const auto& said) { self->take(whom, said); });
}

void lookup::take(const lookup_plan::share& whom, const std::optional<std::string>& said) {
  if (!said)
    plan_.failed(whom, page_status::timed_out);
  if (!said || !plan_.answered(whom, *said))
    given_up_.push_back(whom.owner);
  if (--waiting_ > 0)
    return;
  if (plan_.is_behind() && !std::exchange(refreshed_, true))
    refresh();
  else
    next_round();
}

/// Gets the newer view that a shard spoke of, from there.
void lookup::refresh() {
  const auto* informed = known_->view.find(plan_.newer_from());
  ++cluster_.counts().view_refreshes;
  cluster_.ask(
      by_, informed->inc, [](process& it) { return it.serve_view(); },
      lookup_plan::patience_for_view(until_ - cluster_.time().now()),
      [self = shared_from_this()](const cluster::answer& said) {
        if (said)
          self->by_.tell_clients(*said);
        self->follow();
        self->next_round();
      });
}

} // namespace peercache::scenario
