#include "tests/scenario/lookup.hpp"

#include "tests/scenario/cluster.hpp"
#include "tests/scenario/process.hpp"

namespace peercache::scenario {

using namespace std::chrono_literals;
using client::lookup_plan;

lookup::lookup(cluster& in, process& by, std::vector<page_key> keys, time_point until, told done)
    : cluster_(in), by_(by), keys_(std::move(keys)), until_(until), done_(std::move(done)),
      answers_(keys_.size()), plan_(keys_, answers_), course_(by.remembered().health) {
  course_.begin(plan_);
}

void lookup::begin() {
  follow();
  next_round();
}

/// Gives the look-up the newest view that the clients of this node have.
void lookup::follow() {
  known_ = by_.clients_know();
  auto owners = client::owners_known::by(known_->view, *known_->ring,
                                         known_->past.asked_at(cluster_.time().now()));
  owners.own = by_.on().self.id;
  owners.replicas = cluster_.settings().replicas;
  plan_.follow(std::move(owners));
}

void lookup::next_round() {
  const auto linked = [this](node_id id) -> const incarnation* {
    const auto* owner = known_->view.find(id);
    return owner != nullptr ? &owner->inc : nullptr;
  };
  for (auto* due : course_.next_round(linked, cluster_.time().now(), until_))
    ask(*due);
  const auto turn = ++turn_;
  if (course_.is_over())
    return done_(answers_);
  const auto look = std::min(course_.next_look(), until_) - cluster_.time().now();
  cluster_.later(by_, look, [self = shared_from_this(), turn](process&) {
    if (turn == self->turn_)
      self->next_round();
  });
}

void lookup::ask(question& whom) {
  cluster_.ask(
      by_, whom.owner, until_ - cluster_.time().now(),
      [self = shared_from_this(), &whom](const std::string* said) { self->take(whom, said); },
      &process::serve_lookup, whom.share.request);
}

void lookup::take(question& whom, const std::string* said) {
  if (!whom.open)
    return;
  const auto now = cluster_.time().now();
  if (said != nullptr)
    course_.answered(whom, *said, now);
  else
    course_.failed(whom, page_status::timed_out, now);
  if (course_.wants_view())
    refresh();
  else
    next_round();
}

/// Fetches the newer view that a shard spoke of, from that shard's node.
void lookup::refresh() {
  const auto* informed = known_->view.find(plan_.newer_from());
  ++cluster_.counts().view_refreshes;
  ++turn_;
  const auto take_view = [self = shared_from_this()](const std::string* view) {
    if (view != nullptr)
      self->by_.tell_clients(*view);
    if (self->course_.is_over())
      return; // An overdue answer has ended the look-up while the view was fetched.
    self->follow();
    self->next_round();
  };
  cluster_.ask(by_, informed->inc, lookup_plan::patience_for_view(until_ - cluster_.time().now()),
               take_view, &process::serve_view);
}

} // namespace peercache::scenario
