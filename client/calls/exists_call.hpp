#pragma once

#include "client/calls/client_impl.hpp"
#include "client/calls/hold_call.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace peercache::client {

/// One `exists`, which may bring its keys in pieces. Pages of this host are found in its pool; the
/// directory is asked for the others. Pages on a disk only are brought into memory, best effort.
/// Pages that are found are held, if the call wants that; of a chain (`hold_call::is_chain`) those
/// before the first page that is not found.
/// Threads: one object per call.
class exists_call {
public:
  /// @param holds is told of the pages that are found; outlives this object
  exists_call(client_impl& client, hold_call& holds, deadline until);

  /// @param first index of these keys' first one in the whole call @param own null: no pool of this
  /// host is searched @pre keys.size() == results.size()
  void run(std::size_t first, std::span<const page_key> keys, std::span<page_result> results,
           const own_pool_ptr& own);
  /// The longest wait for an owner of the keys.
  const longest_wait& slowest() const noexcept { return lookup_.slowest(); }

private:
  void ask_directory(std::span<const page_key> keys, std::span<page_result> results);
  void find_on_own_host(std::span<const page_key> keys, std::span<page_result> results);
  /// Takes the directory's answers about `elsewhere_` into the results and the location cache.
  void take(std::span<const page_key> asked, std::span<page_result> results);

  client_impl& client_;
  hold_call& holds_;
  const deadline until_;
  directory_lookup lookup_;
  own_pool_ptr own_;      ///< This host's pool, for the current piece.
  std::size_t first_ = 0; ///< Index of the current piece's first page in the whole call.
  /// Keys of the current piece that are not in this host's pool.
  std::vector<std::uint32_t> elsewhere_;
  std::vector<lookup_answer> answers_; ///< The directory's answers, in the order of `elsewhere_`.
};

} // namespace peercache::client
