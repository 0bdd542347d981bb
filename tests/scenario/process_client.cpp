// The state that the calls of a node's clients use.

#include "tests/scenario/cluster.hpp"
#include "tests/scenario/process.hpp"

#include <utility>

namespace peercache::scenario {

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
      cluster_.tell(*this, owner->inc, directory_timeout, &process::serve_withdraw,
                    std::move(batch.records));
}

} // namespace peercache::scenario
