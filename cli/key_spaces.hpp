#pragma once

#include "client/admin_client.hpp"
#include "common/key_epoch.hpp"
#include "common/page_key.hpp"

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace peercache::cli {

/// A packed page_key as text; empty when it has another length.
std::string digest_text(std::string_view packed);
/// The space of a packed page_key; 0 when it has another length.
space_id space_in(std::string_view packed);

/// A key space for people: "sglang Qwen/Qwen3-32B, bf16, ...", or "space 0f1e..." where nobody has
/// described it.
std::string space_text(const link::session_space& space);

/// The names of spaces, as clients tell them. Threads: one.
class space_names {
public:
  void add(const link::calls_report& told);
  /// The door (kind of engine) and the first field of the key spaces in this space; "space 0f1e..."
  /// where no client has told them.
  std::string name_of(std::uint64_t space) const;

private:
  std::map<std::uint64_t, std::string> names_;
};

} // namespace peercache::cli
