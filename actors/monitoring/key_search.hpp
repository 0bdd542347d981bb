#pragma once

#include "common/page_key.hpp"
#include "directory/page_location.hpp"
#include "discovery/view.hpp"

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace peercache::actors {

/// A question about one key: what each of its owners has answered so far.
///
/// Threads: none; a value. Limits: as many answers as the key has owners, each with at most
/// `locations_per_key_max` locations.
class key_search {
public:
  /// The answer of one owner.
  struct owner {
    std::string name;
    std::string fault; ///< Why there is no answer, in words; empty: there is one.
    std::vector<directory::page_location> locations;
    bool not_mine = false; ///< The asked node says that, by its view, other nodes own the key.
  };

  key_search() = default;
  /// @param owners how many nodes are asked
  key_search(const page_key& key, std::size_t owners) : key_(key), missing_(owners) {}

  void answered(const std::string& name, std::string_view answer);
  void failed(const std::string& name, const std::string& why);
  bool complete() const noexcept { return missing_ == 0; }
  const page_key& key() const noexcept { return key_; }
  const std::vector<owner>& owners() const noexcept { return owners_; }

private:
  void add(owner said);

  page_key key_;
  std::size_t missing_ = 0;
  std::vector<owner> owners_;
};

/// The answer of `/api/key`: docs/http.md describes it.
std::string key_json(const key_search& search, const discovery::view& view);

} // namespace peercache::actors
