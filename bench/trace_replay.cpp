#include "bench/trace_replay.hpp"

#include "common/assert.hpp"
#include "common/limits.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>
#include <unordered_map>
#include <unordered_set>
#include <utility>

namespace peercache::bench {

namespace {

using nlohmann::json;

error line_error(std::size_t line, std::string_view what) {
  return {errc::invalid_argument, "trace line " + std::to_string(line) + ": " + std::string(what)};
}

/// The unsigned number `name` of `object`; nothing when it is missing, no number, or above `max`.
std::optional<std::uint64_t> number_in(const json& object, const char* name, std::uint64_t max) {
  const auto found = object.find(name);
  if (found == object.end() || !found->is_number_unsigned()) {
    return std::nullopt;
  }
  const auto value = found->get<std::uint64_t>();
  return value <= max ? std::optional(value) : std::nullopt;
}

result<trace_request> parse_line(std::string_view text, std::size_t line) {
  const json object = json::parse(text.begin(), text.end(), nullptr, false);
  if (!object.is_object()) {
    return line_error(line, "is not a JSON object");
  }
  constexpr std::uint64_t any = std::numeric_limits<std::uint64_t>::max();
  constexpr std::uint64_t tokens_max = std::numeric_limits<std::uint32_t>::max();
  const auto timestamp = number_in(object, "timestamp", any);
  const auto input = number_in(object, "input_length", tokens_max);
  const auto output = number_in(object, "output_length", tokens_max);
  if (!timestamp || !input || !output) {
    return line_error(line, "needs \"timestamp\", \"input_length\" and \"output_length\", each a "
                            "whole number that is not negative");
  }
  const auto ids = object.find("hash_ids");
  if (ids == object.end() || !ids->is_array() || ids->size() > limits::batch_pages_max) {
    return line_error(line, "needs \"hash_ids\", an array of at most " +
                                std::to_string(limits::batch_pages_max) + " numbers");
  }
  trace_request request{
      *timestamp, static_cast<std::uint32_t>(*input), static_cast<std::uint32_t>(*output), {}};
  request.page_ids.reserve(ids->size());
  for (const json& id : *ids) {
    if (!id.is_number_unsigned()) {
      return line_error(line, "has an entry of \"hash_ids\" that is not a whole number");
    }
    request.page_ids.push_back(id.get<std::uint64_t>());
  }
  return request;
}

/// An LRU cache over dense ids, in three arrays. It shares no code with storage::lru, so that each
/// of the two checks the other.
class array_lru {
public:
  array_lru(std::size_t ids, std::size_t capacity_pages)
      : links_(ids + 1, link{absent, absent}), room_(capacity_pages), ring_(ids) {
    links_[ring_] = {ring_, ring_};
  }

  bool contains(std::uint64_t id) const { return links_[id].next != absent; }

  void use(std::uint64_t id) {
    if (contains(id)) {
      unlink(id);
    } else if (room_ > 0) {
      --room_;
    } else {
      unlink(links_[ring_].next);
    }
    const std::size_t last = links_[ring_].previous;
    links_[id] = {last, ring_};
    links_[last].next = id;
    links_[ring_].previous = id;
  }

private:
  static constexpr std::size_t absent = std::numeric_limits<std::size_t>::max();
  struct link {
    std::size_t previous;
    std::size_t next;
  };

  void unlink(std::size_t id) {
    const link from = std::exchange(links_[id], link{absent, absent});
    links_[from.previous].next = from.next;
    links_[from.next].previous = from.previous;
  }

  std::vector<link> links_;
  std::size_t room_;
  std::size_t ring_; ///< Index of the list's sentinel, whose `next` is the oldest page.
};

} // namespace

result<std::vector<trace_request>> parse_trace(std::string_view text) {
  std::vector<trace_request> requests;
  for (std::size_t line = 1; !text.empty(); ++line) {
    const std::size_t length = std::min(text.find('\n'), text.size());
    const std::string_view content = text.substr(0, length);
    text.remove_prefix(std::min(length + 1, text.size()));
    if (content.find_first_not_of(" \t\r") == std::string_view::npos) {
      continue;
    }
    auto request = parse_line(content, line);
    if (!request) {
      return request.error();
    }
    requests.push_back(*std::move(request));
  }
  return requests;
}

result<std::vector<trace_request>> load_trace(const std::string& path) {
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  // An empty file has no byte to copy, which the stream would report as a failure.
  bool empty = file && file.peek() == std::ifstream::traits_type::eof() && errno == 0;
  if (!file || (!empty && !(text << file.rdbuf()))) {
    return error{errc::io_failed, "cannot read the trace " + path + ": " + std::strerror(errno)};
  }
  if (text.view().starts_with("\x1f\x8b")) {
    return error{errc::invalid_argument, "the trace " + path + " is packed: gunzip it first"};
  }
  auto requests = parse_trace(std::move(text).str());
  if (!requests) {
    return error{requests.error().code, path + ": " + requests.error().message};
  }
  return requests;
}

std::size_t references_in(const std::vector<trace_request>& requests) noexcept {
  std::size_t count = 0;
  for (const trace_request& request : requests) {
    count += request.page_ids.size();
  }
  return count;
}

std::size_t distinct_pages_in(const std::vector<trace_request>& requests) {
  std::unordered_set<std::uint64_t> ids;
  for (const trace_request& request : requests) {
    ids.insert(request.page_ids.begin(), request.page_ids.end());
  }
  return ids.size();
}

std::vector<trace_request> with_dense_ids(std::vector<trace_request> requests) {
  std::unordered_map<std::uint64_t, std::uint64_t> dense;
  dense.reserve(references_in(requests));
  for (trace_request& request : requests) {
    for (std::uint64_t& id : request.page_ids) {
      id = dense.try_emplace(id, dense.size()).first->second;
    }
  }
  return requests;
}

hit_count simulate_global_lru(const std::vector<trace_request>& requests,
                              std::size_t capacity_pages) {
  PEERCACHE_ASSERT(capacity_pages > 0);
  array_lru cache(distinct_pages_in(requests), capacity_pages);
  return replay(with_dense_ids(requests), cache);
}

hit_count simulate_unlimited(const std::vector<trace_request>& requests) {
  return simulate_global_lru(requests, std::max<std::size_t>(1, references_in(requests)));
}

} // namespace peercache::bench
