#include "client/promote_call.hpp"

#include "common/assert.hpp"

#include <chrono>

namespace peercache::client {

using namespace std::chrono_literals;
using link::member_question;
using std::chrono::duration_cast;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

namespace {

/// How long a wish for pages ahead of need waits to be sent.
constexpr auto warm_patience = 5s;

} // namespace

void warm(const promote_plan& pages, const link::topology& cluster, const member_asker& ask) {
  for (const auto& share : pages.shares())
    if (const auto* holder = cluster.find(share.holder); holder != nullptr && holder->linked())
      ask(share.holder, {member_question::warm, share.request, steady_clock::now() + warm_patience,
                         [](const member_answer&) {}});
}

promote_call::promote_call(session& with, const link::topology& cluster, promote_plan pages,
                           deadline until)
    : pages_(std::move(pages)), until_(until), answers_(with.members(), with.closing()) {
  const auto left = duration_cast<milliseconds>(until - steady_clock::now());
  const auto within = promote_plan::patience(left);
  for (const auto& share : pages_.shares()) {
    const auto* holder = cluster.find(share.holder);
    if (holder == nullptr || !holder->linked() || within <= 0ms)
      asked_.emplace_back();
    else
      asked_.emplace_back(
          // The time that it may take is written when it is sent.
          answers_.ask(share.holder, member_question::promote, link::promote_body(0, share.request),
                       until));
  }
}

std::vector<promote_plan::place> promote_call::take() {
  answers_.wait(until_);
  PEERCACHE_ASSERT(asked_.size() == pages_.shares().size());
  std::vector<promote_plan::place> places;
  for (std::size_t i = 0; i < asked_.size(); ++i) {
    std::string answer;
    if (asked_[i])
      answer = answers_.take(*asked_[i]).body.value_or(std::string());
    for (auto& place : promote_plan::places(pages_.shares()[i], answer))
      places.push_back(place);
  }
  return places;
}

} // namespace peercache::client
