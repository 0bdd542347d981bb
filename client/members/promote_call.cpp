#include "client/members/promote_call.hpp"

#include "common/assert.hpp"

#include <chrono>

namespace peercache::client {

using namespace std::chrono_literals;
using link::member_question;
using std::chrono::duration_cast;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

namespace {

/// How long a `warm` question may wait to be sent.
constexpr auto warm_patience = 5s;

} // namespace

void warm(const promote_plan& pages, const link::topology& cluster, const member_asker& ask) {
  for (const auto& share : pages.shares())
    if (const auto* holder = cluster.find(share.holder); holder != nullptr && holder->linked())
      ask(share.holder, {member_question::warm, share.request, steady_clock::now() + warm_patience,
                         [](const member_answer&) {}});
}

promote_call::promote_call(member_channels& members, close_signal& closing,
                           const link::topology& cluster, promote_plan pages, deadline until)
    : pages_(std::move(pages)), until_(until), answers_(members, closing) {
  const auto left = duration_cast<milliseconds>(until - steady_clock::now());
  const auto within = promote_plan::patience(left);
  placed_.resize(pages_.shares().size());
  for (std::size_t i = 0; i < placed_.size(); ++i) {
    const auto& share = pages_.shares()[i];
    const auto* holder = cluster.find(share.holder);
    if (holder == nullptr || !holder->linked() || within <= 0ms)
      continue;
    // The channel replaces the 0 when it sends the question, by the time that the node may take.
    answers_.ask(share.holder, member_question::promote, link::promote_body(0, share.request),
                 until);
    share_of_.push_back(i);
  }
}

void promote_call::add_places(std::size_t share, std::string_view answer,
                              std::vector<promote_plan::place>& places) {
  if (placed_[share]) // This answer came after the deadline, when the share's pages had got their
                      // places.
    return;
  placed_[share] = true;
  const auto its = promote_plan::places(pages_.shares()[share], answer);
  places.insert(places.end(), its.begin(), its.end());
}

std::vector<promote_plan::place> promote_call::take_next() {
  std::vector<promote_plan::place> places;
  for (const auto question : answers_.next_ended(until_))
    add_places(share_of_[question], answers_.take(question).body.value_or(std::string()), places);
  if (!places.empty())
    return places;
  for (std::size_t share = 0; share < placed_.size(); ++share)
    add_places(share, {}, places);
  return places;
}

} // namespace peercache::client
