#pragma once

#include "cli/key_differences.hpp"
#include "client/admin_client.hpp"
#include "common/page_key.hpp"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace peercache::cli {

/// A client's report of its calls, and the node that it is a client of.
struct told_calls {
  std::string node;
  link::call_report report;
};

/// The page_key of a page that failed; all zeros when its digest has another length.
page_key digest_of(const link::failed_page& page) noexcept;

/// A cause, and the missed pages that it explains.
struct miss_cause {
  std::string cause; ///< Name: "page_size", "evicted", "never_stored", ...
  std::string door;  ///< The door (kind of engine) that asked.
  std::string space; ///< First field of the key space that was asked.
  std::uint64_t pages = 0;
  /// Pages, among `pages`, that were judged one by one. The other pages are shared out like these.
  std::uint64_t sampled = 0;
  std::vector<key_difference> differs;
  std::string detail;       ///< The cause in words.
  std::string fix;          ///< The advice for an operator.
  std::string key;          ///< The caller's key of a page, as an example; empty: not known.
  std::string digest;       ///< The page_key of the example, as text.
  std::uint64_t age_ms = 0; ///< How long ago the example was missed.
};

/// The cluster's present knowledge of a page.
struct page_fate {
  bool is_there = false;               ///< Whether the directory has a location of the page.
  bool is_unknown = false;             ///< Whether the directory did not answer for this page.
  std::vector<link::lost_page> losses; ///< How the page left nodes, in no order.
};

/// Finds the cause of each miss of all clients. A plain class: its callers tell it what the cluster
/// knows.
///
/// The numbers of misses are complete; which pages they were is known of the newest ones only.
/// Misses whose page is not known are shared out among the causes like the known misses of the same
/// call, space and status. Threads: one.
class miss_search {
public:
  /// Spaces that are compared with each other; misses are not blamed on further ones.
  static constexpr std::size_t compared_max = 512;
  /// Keys that `keys` returns at most, unless there are thousands of clients.
  static constexpr std::size_t keys_max = std::size_t{1} << 16;

  explicit miss_search(std::vector<told_calls> told);

  std::uint64_t asked() const noexcept { return asked_; }
  std::uint64_t missed() const noexcept { return missed_; }

  /// The pages whose fate decides: the missed ones, and the same pages in other spaces.
  std::vector<page_key> keys() const;
  /// The causes, those of most pages first; the pages add up to `missed`. Causes with 0 pages tell
  /// why there were no questions. `fates` by page_key::prefix; a page that is not in it has none.
  std::vector<miss_cause> causes(const std::map<std::uint64_t, page_fate>& fates) const;

private:
  using fate_map = std::map<std::uint64_t, page_fate>;
  struct space {
    link::space_calls sum;                         ///< The calls of all clients; `failed` is empty.
    std::map<std::uint64_t, std::uint8_t> refused; ///< Sets that failed: status by prefix.
    key_space keys;
    /// Spaces of the same door that differ in a field, the most similar one first.
    std::vector<std::pair<std::size_t, std::vector<key_difference>>> others;
  };
  /// The calls of one client in one space.
  struct use {
    std::size_t space;
    std::uint64_t told_ago_ms; ///< Age of the report.
    const link::space_calls* calls;
  };
  struct verdict {
    std::string cause, detail, fix;
    std::vector<key_difference> differs;
  };

  void add_space(const told_calls& from, const link::space_calls& calls);
  void find_others();
  /// Forgets which pages failed, but for the newest ones of each client and space, when the keys of
  /// all clients would be too many to ask for.
  void keep_newest();
  std::vector<page_key> keys_of(const use& of, const link::failed_page& page) const;

  verdict judge(const use& of, const link::failed_page& page, const fate_map& fates) const;
  std::optional<verdict> judge_lost(const use& of, const link::failed_page& page,
                                    const fate_map& fates) const;
  static verdict stored_with(const std::vector<key_difference>& differs, const char* how);
  std::optional<verdict> judge_others(const space& in, const link::failed_page& page,
                                      const fate_map& fates) const;
  const std::vector<key_difference>* other_keys(const space& in) const;
  bool is_unknown(const use& of, const link::failed_page& page, const fate_map& fates) const;
  verdict judge_unstored(const space& in) const;
  void add_unasked(std::vector<miss_cause>& to) const;
  void add_never_asked(std::vector<miss_cause>& to) const;

  std::vector<told_calls> told_;
  std::vector<space> spaces_;
  std::map<std::vector<std::string>, std::size_t> by_fields_; ///< Spaces whose fields are told.
  std::vector<use> uses_;
  std::uint64_t asked_ = 0, missed_ = 0;
};

} // namespace peercache::cli
