// The part of cache_client that asks the directory for each key by itself.

#include "client/cache_client.hpp"
#include "client/calls/client_impl.hpp"

#include <algorithm>

namespace peercache::client {

std::vector<page_status> cache_client::find_each(std::span<const page_key> keys,
                                                 std::optional<deadline> until) {
  std::vector<page_status> found(keys.size(), page_status::closed);
  const auto limit = impl_->deadline_of(until);
  auto lookup = impl_->lookup();
  std::vector<lookup_answer> answers;
  for (std::size_t done = 0; done < keys.size() && is_open(); done += limits::batch_pages_max) {
    const auto piece =
        keys.subspan(done, std::min<std::size_t>(limits::batch_pages_max, keys.size() - done));
    const auto start = impl_->session.board().start_call();
    const dated_pages now{start.epochs, piece};
    answers.resize(piece.size());
    const bool known = now.known(); // False: this host's node has died in the middle of a clear.
    if (known)
      lookup.run(now.pages(), answers, limit);
    for (std::size_t i = 0; i < piece.size() && is_open(); ++i)
      found[done + i] = known ? answers[i].status : page_status::unreachable;
  }
  return found;
}

} // namespace peercache::client
