// The look-ups of a node's clients, which do what client/lookup/lookup_course.hpp decides.

#include "client/lookup/lookup_course.hpp"
#include "client/lookup/lookup_plan.hpp"
#include "tests/scenario/client_call.hpp"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

namespace peercache::scenario {
namespace {

/// One look-up of many keys.
class lookup : public client_call<lookup> {
public:
  lookup(cluster& in, process& by, time_point until, std::vector<page_key> keys,
         keys_looked_up done, keys_told told)
      : client_call(in, by, until), keys_(std::move(keys)), done_(std::move(done)),
        told_(std::move(told)), answers_(keys_.size()), plan_(keys_, answers_),
        course_(by.remembered().health) {
    course_.begin(plan_);
  }
  void begin() {
    follow();
    go_on();
  }

private:
  using question = client::lookup_course::question;

  void follow();
  void go_on();
  void ask_owner(question& whom);
  void refresh();

  const std::vector<page_key> keys_;
  const keys_looked_up done_;
  const keys_told told_;
  std::vector<client::lookup_answer> answers_;
  client::lookup_plan plan_;
  client::lookup_course course_;
  known_cluster_ptr known_;
  /// Counts how often the course was asked what to do; timers set at an earlier count are ignored.
  std::uint64_t turn_ = 0;
};

/// Gives the look-up the newest view that the clients of this node have.
void lookup::follow() {
  known_ = by_.clients_know();
  auto owners = client::owners_known::by(known_->view, *known_->ring,
                                         known_->past.asked_at(cluster_.time().now()));
  owners.own = by_.on().self.id;
  owners.replicas = cluster_.settings().replicas;
  plan_.follow(std::move(owners));
}

void lookup::go_on() {
  if (course_.wants_view())
    return refresh();
  const auto linked = [this](node_id id) -> const incarnation* {
    const auto* owner = known_->view.find(id);
    return owner != nullptr ? &owner->inc : nullptr;
  };
  for (auto* due : course_.next_round(linked, cluster_.time().now(), until_))
    ask_owner(*due);
  const auto turn = ++turn_;
  if (course_.is_over())
    return done_(answers_);
  const auto look = std::min(course_.next_look(), until_) - cluster_.time().now();
  cluster_.later(by_, look, [self = shared_from_this(), turn](process&) {
    if (turn == self->turn_)
      self->go_on();
  });
}

void lookup::ask_owner(question& whom) {
  const auto take = [this, &whom](const std::string* said) {
    if (!whom.open)
      return;
    if (said != nullptr && course_.answered(whom, *said, cluster_.time().now()) && told_)
      told_(whom.share.indices, answers_);
    if (said == nullptr)
      course_.failed(whom, page_status::timed_out, cluster_.time().now());
    go_on();
  };
  ask(whom.owner, left(), take, &process::serve_lookup, whom.share.request);
}

/// Fetches the newer view that a shard spoke of, from that shard's node.
void lookup::refresh() {
  ++cluster_.counts().view_refreshes;
  ++turn_;
  const auto take = [this](const std::string* view) {
    if (view != nullptr)
      by_.tell_clients(*view);
    if (course_.is_over())
      return; // An overdue answer has ended the look-up while the view was fetched.
    follow();
    go_on();
  };
  ask(known_->view.find(plan_.newer_from())->inc, client::lookup_plan::patience_for_view(left()),
      take, &process::serve_view);
}

} // namespace

void process::look_up(std::vector<page_key> keys, time_point until, keys_looked_up done,
                      keys_told told) {
  std::make_shared<lookup>(cluster_, *this, until, std::move(keys), std::move(done),
                           std::move(told))
      ->begin();
}

} // namespace peercache::scenario
