#include "cli/slow_rows.hpp"

#include "cli/key_spaces.hpp"
#include "cli/output.hpp"
#include "common/printable.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <fmt/format.h>

namespace peercache::cli {
namespace {

constexpr std::array<const char*, link::call_kinds> call_words{"exists", "get", "set"};
constexpr std::array<const char*, link::call_wait_kinds> wait_words{"nothing", "directory", "peer",
                                                                    "disk", "room"};

/// The word for a number that another process sent; "unknown" for a number without a word.
template <std::size_t Count>
const char* word_of(const std::array<const char*, Count>& words, std::uint8_t number) {
  return number < Count ? words[number] : "unknown";
}

std::string ms_text(std::uint64_t us) {
  return fmt::format("{:.1f}", static_cast<double>(us) / 1000);
}

/// A wait of less than this part of a call is not what made it slow.
constexpr std::uint64_t part_that_counts = 10;

std::string wait_text(const link::slow_call& call) {
  if (call.waited_us < call.took_us / part_that_counts)
    return wait_words.front();
  const auto* what = word_of(wait_words, call.waited_for);
  return call.peer.empty() ? what : fmt::format("{} {}", what, peer_text(call.peer));
}

} // namespace

void add_slow_calls(const std::string& node, const link::calls_report& told,
                    std::vector<slow_row>& rows) {
  for (const auto& client : told.clients)
    for (const auto& call : client.slow)
      rows.push_back({node, client.client, client.age_ms + call.age_ms, call});
}

void sort_slowest(std::vector<slow_row>& rows, std::size_t most) {
  std::sort(rows.begin(), rows.end(),
            [](const slow_row& a, const slow_row& b) { return a.call.took_us > b.call.took_us; });
  rows.resize(std::min(rows.size(), most));
}

nlohmann::json to_json(const slow_row& row) {
  const auto& call = row.call;
  return {{"node", row.node},
          {"client", peer_text(row.client)},
          {"call", word_of(call_words, call.call)},
          {"pages", call.pages},
          {"failed", call.failed},
          {"took_us", call.took_us},
          {"waited_for", word_of(wait_words, call.waited_for)},
          {"waited_us", call.waited_us},
          {"peer", peer_text(call.peer)},
          {"first_digest", digest_text(call.digest)},
          {"age_ms", row.age_ms}};
}

std::vector<std::string> cells_of(const slow_row& row) {
  const auto& call = row.call;
  return {ms_text(call.took_us),
          word_of(call_words, call.call),
          human_count(call.pages),
          human_count(call.failed),
          wait_text(call),
          ms_text(call.waited_us),
          human_duration(std::chrono::milliseconds(row.age_ms)),
          peer_text(row.client),
          row.node};
}

} // namespace peercache::cli
