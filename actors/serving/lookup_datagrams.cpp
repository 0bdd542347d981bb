#include "actors/serving/lookup_datagrams.hpp"

#include "directory/wire.hpp"

#include <algorithm>
#include <utility>

namespace peercache::actors {
namespace {

constexpr auto time_of_a_question =
    std::chrono::nanoseconds(std::chrono::seconds(1)) / lookup_datagrams::questions_a_second;

void add_one(std::atomic<std::uint64_t>& count) noexcept {
  count.fetch_add(1, std::memory_order_relaxed);
}

} // namespace

std::string lookup_datagrams::pass_of(std::uint64_t client, std::string_view host) {
  const auto [known, is_new] = clients_.try_emplace(client);
  if (is_new) {
    const auto made = net::make_datagram_key();
    if (!made) {
      clients_.erase(known);
      return {};
    }
    known->second.secret = *made;
    known->second.host = host;
  }
  return link::encode_pass({client, known->second.secret});
}

bool lookup_datagrams::is_paced(asking& client, time_point now) noexcept {
  if (client.paid_until > now + time_of_a_question * questions_at_once)
    return true;
  client.paid_until = std::max(client.paid_until, now) + time_of_a_question;
  return false;
}

link::datagram_answer
lookup_datagrams::fitting(const std::optional<result<std::string>>& found) noexcept {
  if (!found || !*found || (*found)->size() > link::datagram_body_max)
    return {link::lookup_reply::over_tcp, {}};
  return {link::lookup_reply::places, **found};
}

void lookup_datagrams::answer(const net::datagram& asked, const answerer& look_up, time_point now) {
  const auto question = codec_.question_of(asked.bytes);
  const auto client = question ? clients_.find(question->client) : clients_.end();
  if (client == clients_.end() || client->second.host != asked.peer.host())
    return add_one(counts_->refused_);
  const auto keys = codec_.open_question(asked.bytes, client->second.secret, self_);
  if (!keys || keys->empty() || keys->size() % directory::wire::key_bytes != 0)
    return add_one(counts_->refused_);
  if (is_paced(client->second, now))
    return add_one(counts_->paced_);
  const auto found = look_up(*keys);
  const auto said = fitting(found);
  add_one(said.reply == link::lookup_reply::places ? counts_->answered_ : counts_->sent_to_tcp_);
  if (answers_.size() == sending_.size())
    answers_.emplace_back();
  auto& bytes = answers_[sending_.size()];
  bytes.clear();
  codec_.append_answer(bytes, client->second.secret, self_, question->number, ++nonce_, said);
  sending_.push_back({asked.peer, bytes});
}

bool lookup_datagrams::serve(const answerer& look_up, time_point now) {
  const auto arrived = socket_.receive();
  // The answers do not move while datagrams name their bytes.
  answers_.reserve(net::datagram_socket::turn_max);
  sending_.clear();
  for (const auto& each : arrived)
    answer(each, look_up, now);
  socket_.send(sending_);
  return arrived.size() == net::datagram_socket::turn_max;
}

} // namespace peercache::actors
