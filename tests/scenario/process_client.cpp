// Calls by the clients of a node, and the state that they use.

#include "tests/scenario/cluster.hpp"
#include "tests/scenario/process.hpp"
#include "tests/scenario/set_call.hpp"

namespace peercache::scenario {

using namespace std::chrono_literals;

namespace {

constexpr auto deadline = 1000ms;

} // namespace

void process::put(const page_key& key, bool always) {
  if (drained_ || leaving_)
    return;
  using link::commit_mode;
  // One page in eight is put as if it had been read elsewhere.
  const bool mirrors = cluster_.time().below(8) == 0;
  std::make_shared<set_call>(
      cluster_, *this, key, length_for(key), cluster_.time().now() + deadline,
      mirrors ? commit_mode::mirror : (always ? commit_mode::store : commit_mode::skip))
      ->begin();
}

void process::get(const std::vector<wanted_page>& pages, get_call::told done) {
  const auto until = cluster_.time().now() + deadline;
  std::make_shared<get_call>(cluster_, *this, pages, until, std::move(done))->begin();
}

void process::get(const wanted_page& page, std::function<void(page_status)> done) {
  get(std::vector{page}, [done = std::move(done)](std::span<const client::page_result> results) {
    done(results[0].status);
  });
}

client::readers_cluster process::readers_know() const {
  client::readers_cluster known;
  (has_left() ? known.left : known.own) = inc_;
  known.is_member = [cluster = clients_know_](const incarnation& process) {
    return cluster->view.find(process) != nullptr;
  };
  return known;
}

void process::tell_stale_records() {
  for (auto& batch :
       remembered_.stale.take_batches(*clients_know_->ring, cluster_.settings().replicas))
    if (const auto* owner = clients_know_->view.find(batch.owner))
      cluster_.tell(*this, owner->inc, deadline, &process::serve_withdraw,
                    std::move(batch.records));
}

} // namespace peercache::scenario
