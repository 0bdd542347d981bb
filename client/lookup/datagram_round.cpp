#include "client/lookup/datagram_round.hpp"

#include "common/assert.hpp"
#include "directory/wire.hpp"

#include <utility>

namespace peercache::client {
namespace {

using std::chrono::steady_clock;

/// Bits of a question's number that count the questions of a round.
constexpr unsigned question_bits = 16;

void add_one(counters::count& to) noexcept {
  to.fetch_add(1, std::memory_order_relaxed);
}

/// Turns in which arrived datagrams are taken at once: those of twice as many questions as may be
/// under way.
constexpr int turns_max = 4;

} // namespace

datagram_round::~datagram_round() {
  PEERCACHE_ASSERT(open_ == 0); // The carriers end before the round.
  if (socket_)
    owners_.give_back(family_, std::move(socket_));
}

std::unique_ptr<lookup_carrier> datagram_round::carrier_to(const link::peer& owner,
                                                           std::size_t request_bytes) {
  if (request_bytes > link::datagram_keys_max * directory::wire::key_bytes ||
      asking_.size() >> question_bits != 0)
    return nullptr;
  auto known = owners_.find(owner.self.inc, steady_clock::now());
  if (!known)
    return nullptr;
  if (!socket_) {
    family_ = known->address.family();
    socket_ = owners_.lease(family_);
  }
  if (!socket_ || known->address.family() != family_)
    return nullptr;
  if (!codec_)
    codec_.emplace();
  return std::make_unique<lookup_over_udp>(*this, std::move(known), owner);
}

std::uint64_t datagram_round::add(lookup_over_udp& asking) {
  if (open_ == 0) {
    round_ = owners_.next_round();
    asking_.clear();
    first_ = 0;
  }
  ++open_;
  asking_.push_back(&asking);
  return (round_ << question_bits) | (asking_.size() - 1);
}

lookup_over_udp* datagram_round::open_of(std::uint64_t number) const noexcept {
  const auto index = number & ((1u << question_bits) - 1);
  return number >> question_bits == round_ && index < asking_.size() ? asking_[index] : nullptr;
}

void datagram_round::drop(std::uint64_t number) noexcept {
  auto* of = open_of(number);
  PEERCACHE_ASSERT(of != nullptr && open_ > 0);
  if (of->way_ == lookup_over_udp::way::under_way)
    --in_flight_;
  asking_[number & ((1u << question_bits) - 1)] = nullptr;
  --open_;
}

void datagram_round::send() {
  if (first_ == asking_.size())
    return;
  bytes_.clear();
  bytes_.reserve(in_flight_max * net::datagram_socket::bytes_max);
  sending_.clear();
  std::vector<lookup_over_udp*> asked;
  for (; first_ < asking_.size() && in_flight_ + asked.size() < in_flight_max; ++first_) {
    auto* next = asking_[first_];
    if (next == nullptr)
      continue;
    const auto before = bytes_.size();
    const auto& owner = *next->owner_;
    codec_->append_question(bytes_, owner.pass, owner.inc, next->number_, next->request_);
    sending_.push_back({owner.address, std::string_view(bytes_).substr(before)});
    asked.push_back(next);
  }
  socket_->send(sending_);
  in_flight_ += asked.size();
  const auto due = steady_clock::now() + patience;
  for (std::size_t i = 0; i < asked.size(); ++i) {
    add_one(counters_.datagrams_sent);
    asked[i]->way_ = lookup_over_udp::way::under_way;
    asked[i]->due_ = due;
    if (!sending_[i].is_sent) // No datagram was lost on the way, so nothing is held against it.
      asked[i]->end(lookup_over_udp::way::turned_away);
  }
}

pollfd datagram_round::awaited() const noexcept {
  return {open_ > 0 ? socket_->fd() : -1, POLLIN, 0};
}

bool datagram_round::take(std::string_view bytes) {
  const auto number = link::lookup_datagrams_codec::answered_by(bytes);
  auto* asking = number ? open_of(*number) : nullptr;
  if (asking == nullptr || asking->way_ == lookup_over_udp::way::waits)
    return false;
  const auto& owner = *asking->owner_;
  const auto answer = codec_->open_answer(bytes, owner.pass.secret, owner.inc);
  if (!answer)
    return false;
  asking->owner_->heard();
  if (asking->way_ == lookup_over_udp::way::lost) {
    asking->leave(); // The answer is late.
    return true;
  }
  asking->answer_ = answer->body;
  asking->end(answer->reply == link::lookup_reply::places ? lookup_over_udp::way::arrived
                                                          : lookup_over_udp::way::turned_away);
  return true;
}

void datagram_round::take_arrived() {
  // Anybody may send to the socket, so there is a bound; what is left is an event again.
  for (int turn = 0; turn < turns_max; ++turn) {
    const auto arrived = socket_->receive();
    for (const auto& each : arrived)
      if (!take(each.bytes))
        add_one(counters_.datagrams_dropped);
    if (arrived.size() < net::datagram_socket::turn_max)
      return;
  }
}

bool datagram_round::pause() const {
  const timespec time{0, std::chrono::nanoseconds(gather_pause).count()};
  auto next = awaited();
  if (in_flight_ <= gather_from)
    return ::ppoll(&next, 1, &time, nullptr) == 1;
  ::ppoll(nullptr, 0, &time, nullptr);
  return true;
}

void datagram_round::receive() {
  take_arrived();
  send();
  const auto until = steady_clock::now() + gather_max;
  while (in_flight_ > 0 && steady_clock::now() < until && pause()) {
    const auto before = in_flight_;
    take_arrived();
    if (in_flight_ == before)
      return;
    send();
  }
}

lookup_carrier::state lookup_over_udp::start(std::string_view request) {
  request_ = request;
  number_ = round_.add(*this);
  return state::asking;
}

/// Notes how the datagram has come out; the carrier goes on at once.
void lookup_over_udp::end(way how) noexcept {
  leave();
  way_ = how;
  due_ = time_point{};
}

/// Takes the datagram for lost. The round still knows the question, for an answer may come late.
void lookup_over_udp::lose() noexcept {
  way_ = way::lost;
  due_ = time_point{};
  --round_.in_flight_;
}

void lookup_over_udp::leave() noexcept {
  if (number_ != 0)
    round_.drop(std::exchange(number_, 0));
}

lookup_carrier::state lookup_over_udp::ask_over_tcp() {
  add_one(round_.counters_.datagrams_over_tcp);
  tcp_.emplace(round_.channels_, peer_);
  return judged(tcp_->start(request_));
}

lookup_carrier::state lookup_over_udp::judged(state now) {
  if (now == state::answered && way_ == way::lost && number_ != 0)
    owner_->missed(steady_clock::now()); // No answer has come, not even a late one.
  return now;
}

lookup_carrier::state lookup_over_udp::advance() {
  if (tcp_)
    return judged(tcp_->advance());
  if (way_ == way::under_way && due_ <= steady_clock::now())
    round_.take_arrived(); // The answer may be there, and only not have been looked at.
  if (way_ == way::under_way && due_ <= steady_clock::now()) {
    lose();
    round_.send(); // Questions may wait for the room of this one.
  }
  if (way_ == way::arrived)
    return state::answered;
  return way_ == way::turned_away || way_ == way::lost ? ask_over_tcp() : state::asking;
}

void lookup_over_udp::keep() {
  if (tcp_)
    tcp_->keep();
}

} // namespace peercache::client
