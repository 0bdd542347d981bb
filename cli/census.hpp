#pragma once

#include "client/admin_client.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace peercache::cli {

/// A page that is read often.
struct hot_page {
  std::string digest; ///< The 32 bytes of the page_key.
  std::uint64_t bytes = 0;
  std::uint64_t reads = 0; ///< Reads at all nodes.
  std::uint64_t reads_over = 0;
  std::vector<std::string> nodes; ///< Names of the nodes where the page is read.
};

/// A page among the largest of a node.
struct big_page {
  std::string node;
  std::string digest; ///< The 32 bytes of the page_key.
  std::uint64_t bytes = 0;
};

/// The pages of one space at all nodes.
struct big_space {
  std::uint64_t space = 0; ///< The space; 0 stands for all spaces that are not told apart.
  std::uint64_t pages = 0;
  std::uint64_t bytes = 0;
};

/// Adds up what nodes report of their pools. Threads: one.
class census_sum {
public:
  void add(const std::string& node, const link::page_census& said);

  /// The most-read pages, the first one most.
  std::vector<hot_page> hottest(std::size_t most) const;
  /// The largest pages, the first one largest.
  std::vector<big_page> largest(std::size_t most) const;
  /// The spaces, those of most bytes first.
  std::vector<big_space> spaces(std::size_t most) const;
  /// The longest time for which a node has counted reads.
  std::uint64_t window_ms() const noexcept { return window_ms_; }
  /// Age of the oldest report among those that were added.
  std::uint64_t age_ms() const noexcept { return age_ms_; }

private:
  std::vector<hot_page> hot_;
  std::vector<big_page> big_;
  std::vector<big_space> spaces_;
  std::uint64_t window_ms_ = 0;
  std::uint64_t age_ms_ = 0;
};

} // namespace peercache::cli
