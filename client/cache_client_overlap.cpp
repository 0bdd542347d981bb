// The part of cache_client that serves the overlap queries of routers.

#include "client/cache_client.hpp"
#include "client/calls/client_impl.hpp"
#include "client/session/connect_fault.hpp"
#include "link/protocol/overlap_wire.hpp"

#include <algorithm>
#include <chrono>

namespace peercache::client {

void cache_client::report_gpu(const gpu_news& news) {
  if (is_open() && impl_->session.board().gpu.note(news))
    caf::anon_send(impl_->session.actor(), link::gpu_atom_v, link::from_here{});
}

result<std::vector<overlap_match>> cache_client::overlap(const overlap_query& query,
                                                         std::optional<deadline> until) {
  using answer = result<std::vector<overlap_match>>;
  if (!is_open())
    return {errc::closed, "the client is closed"};
  const auto pool = impl_->session.board().pool();
  if (!pool)
    return {errc::unreachable, "there is no node on this host"};
  auto encoded = link::encode(query);
  if (encoded.size() > link::overlap_query_bytes_max)
    return {errc::invalid_argument, "the query is too large"};
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
      impl_->deadline_of(until) - std::chrono::steady_clock::now());
  session::caller self{impl_->session};
  auto asked = self->request(pool->gateway, std::max(left, std::chrono::milliseconds(1)),
                             link::locate_atom_v, std::move(encoded));
  const auto at_close = self.fail_at_close({asked.id()});
  answer outcome{errc::timed_out, ""};
  asked.receive(
      [&](const std::string& matches) {
        auto read = link::decode_overlap_matches(matches);
        outcome = read ? answer{*std::move(read)}
                       : answer{errc::refused, "the node's answer is malformed"};
      },
      [&](const caf::error& why) {
        self.spoil();
        outcome =
            impl_->closing.given() ? error{errc::closed, "the client is closed"} : fault_of(why);
      });
  return outcome;
}

} // namespace peercache::client
