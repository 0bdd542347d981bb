#include "actors/lookup_broker.hpp"

#include "actors/link_names.hpp"
#include "common/assert.hpp"
#include "common/limits.hpp"
#include "common/log.hpp"
#include "common/log_limit.hpp"
#include "directory/wire.hpp"
#include "link/member_question.hpp"
#include "link/protocol/gateway.hpp"
#include "link/protocol/internal.hpp"
#include "net/frame_channel.hpp"
#include "net/socket.hpp"

#include <algorithm>
#include <memory>
#include <string_view>

namespace peercache::actors {

namespace frames = net::frames;

namespace {

constexpr std::size_t read_bytes_max = 65536;
/// Room for what is read of a client's standing connection, of which a node has thousands. CAF
/// keeps the room for as long as the connection.
constexpr std::size_t member_read_bytes_max = 8192;
constexpr std::chrono::milliseconds look_every{250};
/// Room that an empty buffer of a connection may keep. No limit counts it, and a node has thousands
/// of connections.
constexpr std::size_t kept_room_max = 8192;

/// Frees the memory that a buffer does not use, unless there is little of it.
template <class Buffer>
void give_back_room(Buffer& used) {
  if (used.capacity() > std::max<std::size_t>(kept_room_max, 2 * used.size()))
    Buffer(used.begin(), used.end()).swap(used);
}

/// Returns the bytes of a question and of the longest answer that it may get.
std::uint64_t bytes_of_question(std::size_t question_bytes) noexcept {
  constexpr auto answer_bytes_per_key =
      1 + limits::locations_per_key_max * directory::wire::location_bytes;
  return question_bytes + question_bytes / directory::wire::key_bytes * answer_bytes_per_key;
}
static_assert(std::uint64_t{2} * limits::batch_pages_max *
                      (directory::wire::key_bytes + 1 +
                       limits::locations_per_key_max * directory::wire::location_bytes) <=
                  lookup_connections::held_bytes_max,
              "one call asks for no more than half of what is held");
static_assert(read_bytes_max < lookup_connections::held_bytes_max &&
                  lookup_connections::held_bytes_max < lookup_connections::total_bytes_max,
              "a connection has room for what is read at once, and all of them for one");

} // namespace

bool lookup_connections::add(handle from, time_point now) {
  if (connections_.size() >= connections_max)
    return false;
  auto& added = connections_[from];
  added.number = ++last_number_;
  added.moved_at = now;
  return true;
}

bool lookup_connections::greeted(handle which) const {
  const auto found = connections_.find(which);
  return found != connections_.end() && found->second.greeted;
}

std::vector<lookup_connections::handle> lookup_connections::overdue(time_point now) const {
  std::vector<handle> late;
  for (const auto& [which, known] : connections_) {
    const auto patience = known.greeted ? idle_patience : greeting_patience;
    if (now - known.moved_at >= patience)
      late.push_back(which);
  }
  return late;
}

std::size_t lookup_connections::room_of(handle which) const {
  const auto found = connections_.find(which);
  return found != connections_.end() ? found->second.received.capacity() : 0;
}

std::uint64_t lookup_connections::number_of(handle which) const {
  auto found = connections_.find(which);
  return found != connections_.end() ? found->second.number : 0;
}

void lookup_connections::remove(handle gone) {
  auto found = connections_.find(gone);
  if (found == connections_.end())
    return;
  release(found->second, found->second.held_bytes);
  PEERCACHE_ASSERT(found->second.held_bytes == 0);
  connections_.erase(found);
  PEERCACHE_ASSERT(!connections_.empty() ||
                   total_bytes_ == 0); // Room that nobody holds would be lost.
}

void lookup_connections::hold(connection& whose, std::uint64_t bytes) noexcept {
  whose.held_bytes += bytes;
  total_bytes_ += bytes;
}

void lookup_connections::release(connection& whose, std::uint64_t bytes) noexcept {
  PEERCACHE_ASSERT(whose.held_bytes >= bytes && total_bytes_ >= bytes);
  whose.held_bytes -= bytes;
  total_bytes_ -= bytes;
}

bool lookup_connections::asks_member(handle which) const {
  const auto found = connections_.find(which);
  return found != connections_.end() && found->second.asks_member;
}

bool lookup_connections::take_greeting(connection& known, std::string_view& rest,
                                       time_point now) const {
  if (rest.size() < frames::greeting_bytes)
    return greeting_.starts_with(rest) || questions_greeting_.starts_with(rest);
  known.asks_member = rest.starts_with(questions_greeting_);
  if (!known.asks_member && !rest.starts_with(greeting_))
    return false;
  known.greeted = true;
  known.moved_at = now;
  rest.remove_prefix(frames::greeting_bytes);
  return true;
}

/// Counts a question that has come. False: it breaks the rules.
bool lookup_connections::take_question(connection& known, std::string_view payload) {
  if (!known.asks_member) {
    hold(known, bytes_of_question(payload.size()));
    return true;
  }
  const auto asked = read_question(payload);
  if (!asked || ++known.open > member_questions_open_max)
    return false;
  hold(known, held_bytes_of(asked->kind, asked->body.size()));
  return true;
}

bool lookup_connections::receive(handle from, const char* bytes, std::size_t count, time_point now,
                                 std::vector<std::string>& questions) {
  auto found = connections_.find(from);
  if (found == connections_.end())
    return false;
  auto& known = found->second;
  known.received.append(bytes, count);
  hold(known, count);
  std::string_view rest = known.received;
  if (!known.greeted && !take_greeting(known, rest, now))
    return false;
  if (!known.greeted)
    return true;
  std::string_view payload;
  bool too_long = false;
  while (frames::take_frame(rest, payload, too_long)) {
    if (!take_question(known, payload))
      return false;
    questions.emplace_back(payload);
    known.moved_at = now;
  }
  const auto done = known.received.size() - rest.size();
  release(known, done);
  known.received.erase(0, done);
  if (done > 0)
    give_back_room(known.received);
  return !too_long && known.held_bytes <= held_bytes_max;
}

bool lookup_connections::settle(handle which, std::uint64_t number, std::uint64_t question_bytes,
                                std::size_t frame_bytes) {
  auto found = connections_.find(which);
  if (found == connections_.end() || found->second.number != number)
    return false;
  hold(found->second, frame_bytes);
  release(found->second, question_bytes);
  if (found->second.asks_member) {
    PEERCACHE_ASSERT(found->second.open > 0); // Each question is answered once.
    --found->second.open;
  }
  return true;
}

bool lookup_connections::answered(handle which, std::uint64_t number, std::size_t question_bytes,
                                  std::size_t frame_bytes) {
  return settle(which, number, bytes_of_question(question_bytes), frame_bytes);
}

bool lookup_connections::member_answered(handle which, std::uint64_t number, member_question kind,
                                         std::size_t body_bytes, std::size_t frame_bytes) {
  return settle(which, number, held_bytes_of(kind, body_bytes), frame_bytes);
}

void lookup_connections::taken(handle by, std::size_t bytes, time_point now) {
  const auto found = connections_.find(by);
  if (found == connections_.end())
    return;
  release(found->second, bytes);
  found->second.moved_at = now;
}

std::optional<lookup_connections::handle> lookup_connections::one_too_many() const {
  if (total_bytes_ <= total_bytes_max)
    return std::nullopt;
  PEERCACHE_ASSERT(!connections_.empty()); // Some connection holds the bytes.
  return std::max_element(connections_.begin(), connections_.end(),
                          [](const auto& one, const auto& other) {
                            return one.second.held_bytes < other.second.held_bytes;
                          })
      ->first;
}

namespace {

struct broker_body {
  caf::io::broker* self;
  directory_actor directory;
  gateway_actor gateway;
  lookup_connections connections;
  log_limit lines{};

  static lookup_connections::time_point now() { return std::chrono::steady_clock::now(); }

  void welcome(caf::io::connection_handle handle) {
    if (!connections.add(handle, now())) {
      if (lines.allows("full", now()))
        log::warn("lookup: {} connections are open, further ones are turned away",
                  lookup_connections::connections_max);
      return drop(handle);
    }
    self->ack_writes(handle, true);
    // CAF makes room at once for as many bytes as it may read.
    self->configure_read(handle, caf::io::receive_policy::at_most(frames::greeting_bytes));
  }

  void drop_overdue() {
    for (const auto& handle : connections.overdue(now()))
      drop(handle);
    self->delayed_send(self, look_every, beat_atom_v, from_here{});
  }

  /// Closes a connection at once and frees its buffers. CAF's own close waits until the peer has
  /// taken all of its answers, which may be never.
  void drop(caf::io::connection_handle handle) {
    connections.remove(handle);
    net::cut_off(static_cast<int>(handle.id())); // CAF makes the handle's id from the socket.
    self->close(handle);
  }

  void receive(const caf::io::new_data_msg& data) {
    std::vector<std::string> questions;
    const bool stranger = !connections.greeted(data.handle);
    if (!connections.receive(data.handle, data.buf.data(), data.buf.size(), now(), questions)) {
      log::debug("lookup: closed a connection that breaks the rules, or asks and does not read");
      return drop(data.handle);
    }
    const bool of_member = connections.asks_member(data.handle);
    if (stranger && connections.greeted(data.handle))
      self->configure_read(data.handle, caf::io::receive_policy::at_most(
                                            of_member ? member_read_bytes_max : read_bytes_max));
    while (auto most = connections.one_too_many()) {
      if (lines.allows("waits", now()))
        log::warn("lookup: too many look-ups wait, closed the connection with most of them");
      drop(*most);
    }
    for (auto& question : questions)
      if (auto number = connections.number_of(data.handle); number != 0 && of_member)
        ask_member(data.handle, number, question);
      else if (number != 0)
        ask(data.handle, number, std::move(question));
  }

  /// Asks the directory without a time-out: it lives in this process, and answers in order for as
  /// long as this broker lives.
  void ask(caf::io::connection_handle handle, std::uint64_t number, std::string question) {
    auto bytes = question.size();
    self->request(directory, caf::infinite, lookup_atom_v, std::move(question))
        .then([this, handle, number,
               bytes](const std::string& payload) { answer(handle, number, bytes, payload); },
              [this, handle, number](const caf::error&) {
                if (connections.number_of(handle) == number)
                  drop(handle);
              });
  }

  void answer(caf::io::connection_handle handle, std::uint64_t number, std::size_t question_bytes,
              const std::string& payload) {
    std::string frame;
    frames::append_frame(frame, payload);
    if (connections.answered(handle, number, question_bytes, frame.size()))
      send(handle, frame);
  }

  void send(caf::io::connection_handle handle, const std::string& frame) {
    auto& out = self->wr_buf(handle);
    out.insert(out.end(), frame.begin(), frame.end());
    self->flush(handle);
    // CAF has two buffers, and swaps them where it has nothing to write: this is the one before.
    if (auto& other = self->wr_buf(handle); other.empty())
      give_back_room(other);
  }

  /// A question whose connection and number are known when its answer comes.
  struct open_question {
    caf::io::connection_handle handle;
    std::uint64_t connection = 0;
    std::uint32_t number = 0;
    member_question kind = member_question::hello;
    std::size_t body_bytes = 0;
  };

  void drop(const open_question& open) {
    if (connections.number_of(open.handle) == open.connection)
      drop(open.handle);
  }

  void answer_member(const open_question& open, std::string_view body) {
    if (body.size() + answer_header_bytes > frames::payload_bytes_max) {
      // Only a view of thousands of members with the longest names is as long.
      return drop(open);
    }
    std::string frame;
    frames::append_frame(frame, encode_answer(open.number, body));
    if (connections.member_answered(open.handle, open.connection, open.kind, open.body_bytes,
                                    frame.size()))
      send(open.handle, frame);
  }

  /// Asks an actor of this process, without a time-out as in `ask`, and passes its answer on. The
  /// question holds its place and its bytes until then, whatever waits before that actor.
  template <class Actor, class... Question>
  void pass_on(const open_question& open, const Actor& whom, Question&&... question) {
    self->request(whom, caf::infinite, std::forward<Question>(question)...)
        .then([this, open](const std::string& body) { answer_member(open, body); },
              [this, open](const caf::error&) { drop(open); });
  }

  void withdraw(const open_question& open, std::string records) {
    self->request(directory, caf::infinite, withdraw_atom_v, std::move(records))
        .then([this, open](std::uint64_t) { answer_member(open, {}); },
              [this, open](const caf::error&) { drop(open); });
  }

  void hold(const open_question& open, const hold_wish& wish) {
    pass_on(open, gateway, hold_atom_v, std::string(wish.pages), wish.holder, wish.for_ms,
            from_here{});
  }

  /// @pre `read_question` takes `payload`
  void ask_member(caf::io::connection_handle handle, std::uint64_t connection,
                  const std::string& payload) {
    const auto asked = read_question(payload);
    PEERCACHE_ASSERT(asked); // `lookup_connections` lets no other pass.
    const open_question open{handle, connection, asked->number, asked->kind, asked->body.size()};
    std::string body(asked->body);
    switch (asked->kind) {
    case member_question::hello:
      return answer_member(open, {});
    case member_question::view:
      return pass_on(open, gateway, view_atom_v);
    case member_question::look_up:
      return pass_on(open, directory, lookup_atom_v, std::move(body));
    case member_question::remove:
      return pass_on(open, gateway, remove_atom_v, std::move(body), from_here{});
    case member_question::promote:
      return pass_on(open, gateway, promote_atom_v, std::string(promote_pages(body)),
                     promote_ms(body), from_here{});
    case member_question::warm:
      return pass_on(open, gateway, warm_atom_v, std::move(body), from_here{});
    case member_question::used:
      return pass_on(open, gateway, used_atom_v, std::move(body), from_here{});
    case member_question::withdraw:
      return withdraw(open, std::move(body));
    case member_question::hold:
      return hold(open, hold_of(body));
    }
  }
};

} // namespace

caf::behavior run_lookup_broker(caf::io::broker* self, lookup_broker_options options) {
  // The broker's behavior owns the body, so the body lives as long as the actor.
  std::shared_ptr<broker_body> body{new broker_body{
      self, options.directory, options.gateway,
      lookup_connections{
          frames::greeting(wire_version, options.cluster, options.inc),
          frames::greeting(wire_version, options.cluster, options.inc, member_question_magic)}}};
  self->add_doorman(std::move(options.doorman));
  self->delayed_send(self, look_every, beat_atom_v, from_here{});
  return {
      [body](const caf::io::new_connection_msg& news) { body->welcome(news.handle); },
      [body](beat_atom, from_here) { body->drop_overdue(); },
      [body](const caf::io::new_data_msg& data) { body->receive(data); },
      [body](const caf::io::data_transferred_msg& gone) {
        body->connections.taken(gone.handle, gone.written, broker_body::now());
      },
      [body](const caf::io::connection_closed_msg& gone) { body->connections.remove(gone.handle); },
      [](const caf::io::acceptor_closed_msg&) {},
  };
}

} // namespace peercache::actors
