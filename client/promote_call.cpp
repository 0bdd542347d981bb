#include "client/promote_call.hpp"

#include "common/assert.hpp"

#include <chrono>

namespace peercache::client {

using namespace std::chrono_literals;
using std::chrono::duration_cast;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

void warm(const promote_plan& pages, const link::topology& cluster) {
  for (const auto& share : pages.shares())
    if (const auto* holder = cluster.find(share.holder); holder != nullptr && holder->linked())
      caf::anon_send(holder->gateway, link::warm_atom_v, share.request);
}

promote_call::promote_call(session& with, const link::topology& cluster, promote_plan pages,
                           deadline until)
    : self_(with), pages_(std::move(pages)) {
  const auto left = duration_cast<milliseconds>(until - steady_clock::now());
  const auto within = promote_plan::patience(left);
  for (const auto& share : pages_.shares()) {
    const auto* holder = cluster.find(share.holder);
    if (holder == nullptr || !holder->linked() || within <= 0ms)
      answers_.emplace_back();
    else
      answers_.emplace_back(self_->request(holder->gateway, left, link::promote_atom_v,
                                           share.request,
                                           static_cast<std::uint32_t>(within.count())));
  }
}

std::vector<promote_plan::place> promote_call::take() {
  std::vector<caf::message_id> asked;
  for (const auto& answer : answers_)
    if (answer)
      asked.push_back(answer->id());
  const auto at_close = self_.fail_at_close(std::move(asked));
  PEERCACHE_ASSERT(answers_.size() == pages_.shares().size());
  std::vector<promote_plan::place> places;
  for (std::size_t i = 0; i < answers_.size(); ++i) {
    std::string answer;
    if (answers_[i])
      answers_[i]->receive([&](std::string& said) { answer = std::move(said); },
                           [&](const caf::error&) { self_.spoil(); });
    for (auto& place : promote_plan::places(pages_.shares()[i], answer))
      places.push_back(place);
  }
  return places;
}

} // namespace peercache::client
