#include "client/calls/holder_questions.hpp"

#include "common/assert.hpp"
#include "common/interruption.hpp"
#include "link/member_question.hpp"
#include "link/protocol/pool_wire.hpp"

#include <algorithm>
#include <chrono>
#include <poll.h>
#include <utility>

namespace peercache::client {

using namespace std::chrono_literals;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

std::string holder_questions::question_of(std::uint32_t number, std::uint32_t for_ms,
                                          std::string_view pages) const {
  const auto body = link::hold_body({who_, for_ms, pages});
  return link::encode_question({number, link::member_question::hold, body});
}

void holder_questions::ask(const link::peer& holder, hold_releases& released,
                           std::string_view pages, std::uint32_t for_ms, deadline now) {
  auto& asked = asked_.emplace_back();
  asked.holder = holder.self.inc;
  asked.pages = pages;
  if (!health_.allow(asked.holder, now))
    return;
  asked.channel = channels_.lease(holder);
  if (!asked.channel)
    return health_.on_failure(asked.holder, now);
  asked.channel->ask({}, 1);
  for (const auto& of : released.take_of(asked.holder)) {
    asked.channel->add(question_of(++asked.number, 0, of));
    asked.bytes_before += link::answer_header_bytes + *link::record_count<link::used_page>(of);
  }
  asked.channel->add(question_of(++asked.number, for_ms, pages));
  advance(asked);
}

void holder_questions::advance(question& asked) {
  using state = net::frame_channel::state;
  PEERCACHE_ASSERT(asked.channel);
  const auto now = asked.channel->advance();
  if (now == state::asking)
    return;
  if (now == state::broken || !take(asked))
    return fail(asked);
  health_.on_success(asked.holder);
  channels_.give_back(asked.holder, std::exchange(asked.channel, nullptr));
}

/// Takes the answer to the question, which follows the answers to the releases that were sent
/// before it. False: the answers are malformed.
bool holder_questions::take(question& asked) {
  const std::string_view all = asked.channel->answer();
  if (all.size() < asked.bytes_before)
    return false;
  const auto last = link::read_answer(all.substr(asked.bytes_before));
  if (!last || last->number != asked.number)
    return false;
  asked.outcomes.emplace(last->body);
  return true;
}

void holder_questions::fail(question& asked) {
  asked.channel.reset();
  health_.on_failure(asked.holder, steady_clock::now());
}

void holder_questions::take_back(question& asked) {
  asked.channel->add(question_of(asked.number + 1, 0, asked.pages));
  asked.channel->advance(); // Best effort: sends what the kernel takes at once.
  if (!closing_.given())
    return fail(asked);
  asked.channel.reset(); // A question that ends because the client closes says nothing of the peer.
  health_.on_nothing(asked.holder, steady_clock::now());
}

void holder_questions::poll_open(deadline until) {
  std::vector<pollfd> waiting;
  for (const auto& asked : asked_)
    waiting.push_back({asked.channel ? asked.channel->fd() : -1,
                       asked.channel ? asked.channel->events() : short{0}, 0});
  waiting.push_back({closing_.file(), POLLIN, 0});
  // The wait is rounded up to whole milliseconds: rounded down, it would end just before the look
  // is due, again and again.
  const auto look =
      std::chrono::ceil<milliseconds>(interruption::next_look(until) - steady_clock::now());
  ::poll(waiting.data(), waiting.size(), static_cast<int>(std::max(look, 0ms).count()));
  for (std::size_t i = 0; i < asked_.size(); ++i)
    if (waiting[i].revents != 0)
      advance(asked_[i]);
}

void holder_questions::wait(deadline until) {
  const auto is_open = [](const question& asked) { return asked.channel != nullptr; };
  while (std::ranges::any_of(asked_, is_open) && !closing_.given() && steady_clock::now() < until) {
    poll_open(until);
    interruption::look();
  }
  for (auto& asked : asked_)
    if (is_open(asked))
      take_back(asked);
}

} // namespace peercache::client
