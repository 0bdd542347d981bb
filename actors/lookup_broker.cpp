#include "actors/lookup_broker.hpp"

#include "actors/link_names.hpp"
#include "common/assert.hpp"
#include "common/limits.hpp"
#include "common/log.hpp"
#include "common/log_limit.hpp"
#include "directory/wire.hpp"
#include "link/beats.hpp"
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
/// Most bytes that are read at once from a client's long-lived connection. CAF keeps a buffer of
/// this size for as long as the connection lasts, and a node has thousands of such connections.
constexpr std::size_t member_read_bytes_max = 8192;
/// Most keys that are looked up in the multiplexer's thread in each `refill_every`: less than half
/// of the thread's time, which also moves all other messages of the node.
constexpr std::size_t keys_at_once_max = 4096;
constexpr std::chrono::milliseconds refill_every{1};
/// Pause between two looks for late connections: `look_every` while a connection owes its greeting,
/// otherwise `look_for_idle_every`.
constexpr std::chrono::milliseconds look_every{250};
constexpr std::chrono::milliseconds look_for_idle_every{1000};
static_assert(read_bytes_max < lookup_connections::held_bytes_max &&
                  lookup_connections::held_bytes_max < lookup_connections::total_bytes_max,
              "a connection has room for what is read at once, and all of them for one");

struct broker_body {
  caf::io::broker* self;
  directory_actor directory;
  std::shared_ptr<shared_shard> shard;
  gateway_actor gateway;
  lookup_connections connections;
  std::optional<held_pool> held{};
  log_limit lines{};
  beats looks{};
  /// Keys that may still be looked up in this thread before the next refill.
  std::size_t keys_left = 0;
  lookup_connections::time_point refilled_at{};

  static lookup_connections::time_point now() { return std::chrono::steady_clock::now(); }

  void welcome(caf::io::connection_handle handle) {
    if (!connections.add(handle, now())) {
      if (lines.allows("full", now()))
        log::warn("lookup: {} connections are open, further ones are turned away",
                  lookup_connections::connections_max);
      return drop(handle);
    }
    looks.plan(self, look_every);
    self->ack_writes(handle, true);
    // CAF makes room at once for as many bytes as it may read.
    self->configure_read(handle, caf::io::receive_policy::at_most(frames::greeting_bytes));
  }

  void drop_overdue() {
    if (!looks.due(now()))
      return;
    for (const auto& handle : connections.overdue(now()))
      drop(handle);
    looks.plan(self, connections.some_owe_greeting() ? look_every : look_for_idle_every);
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

  /// Answers a look-up from the shard; nothing when the directory has to be asked.
  std::optional<result<std::string>> look_up(std::string_view keys) {
    const auto count = keys.size() / directory::wire::key_bytes;
    if (const auto when = now(); when - refilled_at >= refill_every) {
      keys_left = keys_at_once_max;
      refilled_at = when;
    }
    if (!shard || count > keys_left)
      return std::nullopt;
    keys_left -= count;
    return shard->try_look_up(keys);
  }

  /// Answers a look-up, or asks the directory without a time-out: it lives in this process, and
  /// answers in order for as long as this broker lives. Look-ups have no numbers: while the
  /// directory is asked one of a connection, it is asked the connection's next ones too.
  void ask(caf::io::connection_handle handle, std::uint64_t number, std::string question) {
    auto bytes = question.size();
    if (!connections.waits(handle))
      if (const auto answered = look_up(question))
        return *answered ? answer(handle, number, bytes, **answered) : drop(handle);
    connections.passed_on(handle);
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
    // CAF has two write buffers and swaps them when it was not writing. In that case `wr_buf` now
    // returns the buffer that is not being written.
    if (auto& other = self->wr_buf(handle); other.empty())
      give_back_room(other);
  }

  /// A question that was passed on to an actor: what is needed to send the answer to the client.
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
      // Only a view of thousands of members with the longest names makes such a long answer.
      return drop(open);
    }
    std::string frame;
    frames::append_frame(frame, encode_answer(open.number, body));
    if (connections.member_answered(open.handle, open.connection, open.kind, open.body_bytes,
                                    frame.size()))
      send(open.handle, frame);
  }

  /// Asks an actor of this process, without a time-out as in `ask`, and passes its answer on to the
  /// client. Until the answer comes, the question and its bytes count against the connection's
  /// limits.
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
    if (held)
      return answer_member(open, held->take(wish, now()));
    pass_on(open, gateway, hold_atom_v, std::string(wish.pages), wish.holder, wish.for_ms,
            from_here{});
  }

  /// Answers a question that is not a look-up of a call, or passes it on to the actor that can.
  /// @pre `read_question` takes `payload`
  void ask_member(caf::io::connection_handle handle, std::uint64_t connection,
                  const std::string& payload) {
    const auto asked = read_question(payload);
    PEERCACHE_ASSERT(
        asked); // `lookup_connections` passes only payloads that `read_question` takes.
    const open_question open{handle, connection, asked->number, asked->kind, asked->body.size()};
    std::string body(asked->body);
    switch (asked->kind) {
    case member_question::hello:
      return answer_member(open, {});
    case member_question::view:
      return pass_on(open, gateway, view_atom_v);
    case member_question::look_up:
      if (const auto answered = look_up(body))
        return *answered ? answer_member(open, **answered) : drop(open);
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
      self, options.directory, std::move(options.shard), options.gateway,
      lookup_connections{
          frames::greeting(wire_version, options.cluster, options.inc),
          frames::greeting(wire_version, options.cluster, options.inc, member_question_magic)},
      options.held}};
  self->add_doorman(std::move(options.doorman));
  body->looks.plan(self, look_for_idle_every);
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
