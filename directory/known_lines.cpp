#include "directory/known_lines.hpp"

namespace peercache::directory {

void known_lines::keep(const page_key& key, std::uint32_t hash, const state& in, const line& what,
                       time_point now) {
  if (line_changes(what.words[0]))
    return;
  const std::lock_guard guard{lock_};
  if (!entries_)
    entries_ = std::make_unique<entry[]>(lines_max);
  entries_[place_of(hash, in)] = {key, in, what, now};
}

bool known_lines::find(const page_key& key, std::uint32_t hash, const state& in, time_point now,
                       line& out) const {
  const std::lock_guard guard{lock_};
  if (!entries_)
    return false;
  const auto& known = entries_[place_of(hash, in)];
  if (known.in != in || known.key != key || now - known.kept_at >= lasts)
    return false;
  out = known.what;
  return true;
}

} // namespace peercache::directory
