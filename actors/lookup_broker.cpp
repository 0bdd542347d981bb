#include "actors/lookup_broker.hpp"

#include "actors/protocol/gateway.hpp"
#include "rdma/frame_channel.hpp"

#include <memory>
#include <vector>

namespace peercache::actors {

namespace frames = rdma::frames;

bool lookup_connections::add(caf::io::connection_handle handle) {
  if (connections_.size() >= connections_max)
    return false;
  connections_.try_emplace(handle);
  return true;
}

bool lookup_connections::receive(caf::io::connection_handle handle, const char* bytes,
                                 std::size_t count, std::vector<std::string>& questions) {
  auto found = connections_.find(handle);
  if (found == connections_.end())
    return false;
  auto& [received, greeted] = found->second;
  received.append(bytes, count);
  std::string_view rest = received;
  if (!greeted) {
    if (rest.size() < frames::greeting_bytes)
      return greeting_.starts_with(rest);
    if (!rest.starts_with(greeting_))
      return false;
    greeted = true;
    rest.remove_prefix(frames::greeting_bytes);
  }
  std::string_view payload;
  bool too_long = false;
  while (frames::take_frame(rest, payload, too_long))
    questions.emplace_back(payload);
  received.erase(0, received.size() - rest.size());
  return !too_long;
}

namespace {

constexpr std::size_t read_bytes_max = 65536;

void answer(caf::io::broker* self, caf::io::connection_handle handle, const std::string& payload) {
  std::string frame;
  frames::append_frame(frame, payload);
  auto& out = self->wr_buf(handle);
  out.insert(out.end(), frame.begin(), frame.end());
  self->flush(handle);
}

} // namespace

caf::behavior run_lookup_broker(caf::io::broker* self, lookup_broker_options options) {
  auto connections = std::make_shared<lookup_connections>(
      frames::greeting(wire_version, options.cluster, options.inc));
  self->add_doorman(std::move(options.doorman));
  auto drop = [self, connections](caf::io::connection_handle handle) {
    connections->remove(handle);
    self->close(handle);
  };
  return {
      [self, connections](const caf::io::new_connection_msg& news) {
        if (connections->add(news.handle))
          self->configure_read(news.handle, caf::io::receive_policy::at_most(read_bytes_max));
        else
          self->close(news.handle);
      },
      [self, connections, drop, directory = options.directory](const caf::io::new_data_msg& data) {
        std::vector<std::string> questions;
        auto handle = data.handle;
        if (!connections->receive(handle, data.buf.data(), data.buf.size(), questions))
          return drop(handle);
        // Same process: the directory answers for as long as this broker lives, and in order.
        for (auto& question : questions)
          self->request(directory, caf::infinite, lookup_atom_v, std::move(question))
              .then(
                  [self, connections, handle](const std::string& payload) {
                    if (connections->has(handle))
                      answer(self, handle, payload);
                  },
                  [drop, handle](const caf::error&) { drop(handle); });
      },
      [connections](const caf::io::connection_closed_msg& gone) {
        connections->remove(gone.handle);
      },
      [](const caf::io::acceptor_closed_msg&) {},
  };
}

} // namespace peercache::actors
