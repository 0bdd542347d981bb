#pragma once

#include "client/members/close_signal.hpp"
#include "common/limits.hpp"
#include "directory/wire.hpp"
#include "link/member_question.hpp"
#include "link/protocol/gateway.hpp"
#include "net/frame_channel.hpp"
#include "net/socket.hpp"

#include <cerrno>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <poll.h>
#include <string>
#include <string_view>
#include <sys/socket.h>
#include <thread>
#include <utility>
#include <vector>

namespace peercache::client {

/// Plays the look-up port of a node: answers look-ups and other questions of clients as the test
/// says. Threads: one of its own; every method may be called from any thread.
class lookup_server {
public:
  enum class manner {
    answers,
    silent, ///< Takes questions, and does not answer.
    breaks, ///< Closes a connection on which a question comes.
    raves,  ///< Sends bytes that are not an answer.
  };

  /// Returns the node's answer to a question that is not a look-up; nothing: the node does not
  /// answer.
  using speaker = std::function<std::optional<std::string>(const link::numbered_question&)>;

  explicit lookup_server(const incarnation& owner)
      : greeting_(net::frames::greeting(link::wire_version, "test", owner)),
        questions_greeting_(
            net::frames::greeting(link::wire_version, "test", owner, link::member_question_magic)),
        listener_(*net::listen_on("127.0.0.1", 0, 64)), thread_([this] { run(); }) {}
  ~lookup_server() {
    stop_.give();
    thread_.join();
  }

  std::uint16_t port() const { return net::local_port(listener_); }
  void record(const page_key& key, std::vector<directory::page_location> places) {
    std::lock_guard hold(lock_);
    records_[key] = std::move(places);
  }
  void behave(manner how) {
    std::lock_guard hold(lock_);
    manner_ = how;
  }
  void behave_to_members(manner how) {
    std::lock_guard hold(lock_);
    members_manner_ = how;
  }
  /// Sets a function that the node calls before it answers a look-up.
  void before_answers(std::function<void()> does) {
    std::lock_guard hold(lock_);
    before_ = std::move(does);
  }
  /// Sets the function that answers questions which are not look-ups. Without one, only hellos are
  /// answered.
  void say(speaker says) {
    std::lock_guard hold(lock_);
    says_ = std::move(says);
  }
  /// Makes the node answer by this view, in which other nodes own all keys that it has no record
  /// of.
  void follow(const directory::view_number& view) {
    std::lock_guard hold(lock_);
    view_ = view;
  }
  std::size_t questions() const {
    std::lock_guard hold(lock_);
    return questions_;
  }

private:
  struct connection {
    net::unique_fd socket;
    std::string in;
    bool greeted = false;
    bool asks_member = false;
  };

  void run() {
    std::vector<connection> open;
    for (;;) {
      std::vector<pollfd> waiting{{stop_.file(), POLLIN, 0}, {listener_.get(), POLLIN, 0}};
      for (const auto& each : open)
        waiting.push_back({each.socket.get(), POLLIN, 0});
      ::poll(waiting.data(), waiting.size(), -1);
      if (stop_.given())
        return;
      for (std::size_t i = 0; i < open.size(); ++i)
        if (waiting[i + 2].revents != 0 && !serve(open[i]))
          open[i].socket.reset();
      std::erase_if(open, [](const connection& each) { return !each.socket; });
      if (auto fresh = net::accept_from(listener_, {}))
        open.push_back({std::move(fresh), {}, false, false});
    }
  }

  /// Serves the questions that have arrived on a connection. Returns false when the connection must
  /// be closed.
  bool serve(connection& from) {
    char some[4096];
    const auto count = ::recv(from.socket.get(), some, sizeof some, MSG_DONTWAIT);
    if (count <= 0)
      return count < 0 && (errno == EAGAIN || errno == EINTR);
    from.in.append(some, static_cast<std::size_t>(count));
    if (!from.greeted) {
      if (from.in.size() < greeting_.size())
        return true;
      from.asks_member = from.in.starts_with(questions_greeting_);
      if (!from.asks_member && !from.in.starts_with(greeting_))
        return false;
      from.in.erase(0, greeting_.size());
      from.greeted = true;
    }
    std::string_view rest = from.in;
    std::string_view question;
    bool too_long = false;
    while (net::frames::take_frame(rest, question, too_long))
      if (!(from.asks_member ? answer_member(from.socket.get(), question)
                             : answer(from.socket.get(), question)))
        return false;
    from.in.erase(0, from.in.size() - rest.size());
    return !too_long;
  }

  bool answer(int socket, std::string_view question) {
    if (const auto before = copy_of_before())
      before();
    std::lock_guard hold(lock_);
    ++questions_;
    if (manner_ == manner::silent || manner_ == manner::breaks)
      return manner_ == manner::silent;
    std::string said;
    directory::lookup_reader keys{question};
    for (page_key key; keys.next(key);)
      append_answer(said, key);
    if (manner_ == manner::raves)
      said = "\x7f";
    return send(socket, said);
  }

  std::function<void()> copy_of_before() const {
    std::lock_guard hold(lock_);
    return before_;
  }

  bool answer_member(int socket, std::string_view payload) {
    const auto asked = link::read_question(payload);
    std::lock_guard hold(lock_);
    if (!asked || members_manner_ == manner::silent || members_manner_ == manner::breaks)
      return members_manner_ == manner::silent;
    if (members_manner_ == manner::raves)
      return send(socket, link::encode_answer(asked->number + 1000, {}));
    std::optional<std::string> said;
    if (asked->kind == link::member_question::hello)
      said.emplace();
    else if (says_)
      said = says_(*asked);
    return !said || send(socket, link::encode_answer(asked->number, *said));
  }

  static bool send(int socket, const std::string& payload) {
    std::string frame;
    net::frames::append_frame(frame, payload);
    return ::send(socket, frame.data(), frame.size(), MSG_NOSIGNAL) ==
           static_cast<ssize_t>(frame.size());
  }

  void append_answer(std::string& said, const page_key& key) const {
    const auto found = records_.find(key);
    if (found != records_.end())
      directory::append_answer(said, found->second);
    else if (view_ != directory::view_number{})
      directory::append_not_mine(said, view_);
    else
      directory::append_answer(said, {});
  }

  const std::string greeting_;
  const std::string questions_greeting_;
  net::unique_fd listener_;
  close_signal stop_;
  mutable std::mutex lock_;
  std::map<page_key, std::vector<directory::page_location>> records_; ///< Guarded by lock_, as are
                                                                      ///< all members below.
  manner manner_ = manner::answers;
  manner members_manner_ = manner::answers;
  std::function<void()> before_;
  speaker says_;
  directory::view_number view_;
  std::size_t questions_ = 0;
  std::thread thread_;
};

} // namespace peercache::client
