// The part of native_client that serves the overlap queries of routers.

#include "python/binding/convert.hpp"
#include "python/gate_calls.hpp"
#include "python/native_client.hpp"
#include "python/raised_error.hpp"

#include <utility>

namespace peercache::python {

void native_client::report_gpu(const spaces& in, py::handle stored, py::handle evicted,
                               bool all_evicted, std::optional<std::uint32_t> rank) {
  constexpr auto limit = client::deadline::max();
  const auto new_keys = take_keys(stored, limit);
  const auto gone_keys = take_keys(evicted, limit);
  if (!may_begin())
    return;
  python::borrow(gate_, false, [&](auto& cache) {
    const auto held = keys_of(new_keys, in, limit);
    const auto gone = keys_of(gone_keys, in, limit);
    cache.report_gpu({all_evicted, gone, held, rank});
    return true;
  });
}

std::vector<native_client::node_match>
native_client::overlap(std::vector<std::vector<std::string>> in, py::handle hashes,
                       std::optional<std::vector<std::uint32_t>> tokens, std::uint32_t block_tokens,
                       std::string node, timeout within) {
  using answer = result<std::vector<node_match>>;
  const auto limit = until(within);
  const auto keys = take_keys(hashes, client::deadline::max());
  overlap_query query;
  query.spaces = std::move(in);
  query.block_tokens = block_tokens;
  query.by_tokens = tokens.has_value();
  query.tokens = std::move(tokens).value_or(std::vector<std::uint32_t>{});
  for (std::size_t i = 0; i < keys.size(); ++i)
    query.hashes.emplace_back(keys[i]);
  query.node = std::move(node);
  const error closed{errc::closed, "the client is closed"};
  if (!may_begin())
    throw raised_error{closed};
  return value_or_raise(python::borrow(gate_, answer{closed}, [&](auto& cache) -> answer {
    const auto found = cache.overlap(query, limit);
    if (!found)
      return found.error();
    std::vector<node_match> rows;
    for (const auto& match : *found) {
      std::vector<std::pair<std::uint32_t, std::uint64_t>> ranks(match.gpu_by_rank.begin(),
                                                                 match.gpu_by_rank.end());
      rows.emplace_back(match.node, match.longest, match.gpu, match.memory, match.disk,
                        std::move(ranks));
    }
    return rows;
  }));
}

} // namespace peercache::python
