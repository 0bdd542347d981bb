#include "half_loss.hpp"

#include <algorithm>

namespace peercache::chaos {

void half_loss::kill() {
  auto nodes = cluster_.all_running();
  const auto view = watch_.latest(nodes.front()).view;
  const auto is_master = [&](std::uint32_t host) {
    return view.is_master(cluster_.node_name(host));
  };
  std::shuffle(nodes.begin(), nodes.end(), random_);
  if (rounds_++ % 2 == 0)
    std::stable_partition(nodes.begin(), nodes.end(), is_master);
  const auto half = nodes.size() / 2 + (nodes.size() % 2 == 0 ? 0 : random_() % 2);
  gone_.assign(nodes.begin(), nodes.begin() + static_cast<std::ptrdiff_t>(half));
  for (auto host : gone_)
    watch_.expect(host, false);
  for (auto host : gone_)
    cluster_.kill(host);
  gone_since_ = clock::now();
  const auto masters =
      static_cast<std::size_t>(std::count_if(gone_.begin(), gone_.end(), is_master));
  killed_ += gone_.size();
  masters_killed_ += masters;
  rounds_without_majority_ += 2 * masters >= view.masters.size() ? 1 : 0;
}

heal_report half_loss::judge_rest() {
  return check_.run(gone_since_, rest_limit);
}

result<heal_report> half_loss::bring_back() {
  for (auto host : gone_) {
    watch_.expect(host, true);
    if (auto started = cluster_.start(host); !started)
      return started.error();
  }
  return check_.run(clock::now());
}

} // namespace peercache::chaos
