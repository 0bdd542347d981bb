#include "actors/monitoring/http_board.hpp"

#include "actors/monitoring/history_json.hpp"
#include "actors/monitoring/overview_json.hpp"
#include "common/page_key.hpp"
#include "common/result.hpp"

#include <string_view>
#include <utility>
#include <vector>

namespace peercache::actors {

namespace {

constexpr const char* being_asked = "the nodes are being asked; ask again in a second";

/// The history of the node that the query names; of all nodes when it names none.
metrics::api_answer history_answer(const http_board& board, const metrics::http_parameters& query,
                                   std::uint64_t today) {
  const auto memory = board.history.load();
  const auto named = query.find("node");
  const bool of_all = named == query.end() || named->second.empty();
  const auto found = of_all ? memory->points.end() : memory->points.find(named->second);
  if (found != memory->points.end())
    return {200, history_json(found->first, found->second, *memory)};
  if (!memory->complete)
    return {202, api_fault_json(being_asked)};
  if (of_all)
    return {200, history_json("", sum_of(*memory, today), *memory)};
  return {404, api_fault_json("no node of this name has told of its last hour")};
}

/// The key that a query names: `digest`, or `key` in the key space of the fields `namespace`.
result<page_key> key_of(const metrics::http_parameters& query) {
  if (const auto digest = query.find("digest"); digest != query.end())
    return parse_page_key(digest->second);
  const auto named = query.find("key");
  if (named == query.end() || named->second.empty())
    return {errc::invalid_argument, "name a key: /api/key?key=KEY&namespace=FIELD, or a digest"};
  std::vector<std::string_view> fields;
  const auto [first, last] = query.equal_range("namespace");
  for (auto at = first; at != last; ++at)
    fields.push_back(at->second);
  return key_space(fields).key_of(named->second);
}

/// Where the page of a key is. Asks the owners of the key unless they answered within
/// `overview_lasts`.
metrics::api_answer key_answer(const http_board& board, const metrics::http_parameters& query,
                               std::chrono::steady_clock::time_point now) {
  const auto key = key_of(query);
  if (!key)
    return {400, api_fault_json(key.error().message)};
  const auto answers = board.keys.load();
  const auto found = answers->find(to_string(*key));
  if (found != answers->end() && now - found->second.made <= overview_lasts)
    return {200, found->second.text};
  if (board.ask_for_key)
    board.ask_for_key(*key);
  return {202, api_fault_json("the owners of the key are being asked; ask again in a second")};
}

} // namespace

void number_wishes::add(std::function<void()> done) {
  std::function<void()> oldest;
  {
    const std::lock_guard guard(lock_);
    waiting_.push_back(std::move(done));
    if (waiting_.size() > waiting_max) {
      oldest = std::move(waiting_.front());
      waiting_.pop_front();
    }
  }
  if (oldest)
    oldest();
}

void number_wishes::fulfil() {
  std::deque<std::function<void()>> all;
  {
    const std::lock_guard guard(lock_);
    all.swap(waiting_);
  }
  for (const auto& done : all)
    done();
}

bool has_new_numbers(const http_board& board, std::chrono::steady_clock::time_point now) {
  return board.has_numbers && now - board.reported.load() < numbers_last;
}

void renew_numbers(http_board& board, std::function<void()> done,
                   std::chrono::steady_clock::time_point now) {
  if (has_new_numbers(board, now))
    return done();
  board.wishes.add(std::move(done));
  if (board.want_numbers)
    board.want_numbers();
}

metrics::api_answer answer_api(http_board& board, const std::string& name,
                               const metrics::http_parameters& query,
                               std::chrono::steady_clock::time_point now, std::uint64_t today) {
  if (name != "cluster" && name != "history" && name != "events" && name != "key")
    return {404, api_fault_json("there is no /api/" + name)};
  if (now - board.looked.exchange(now) > overview_lasts && board.look)
    board.look();
  if (name == "key")
    return key_answer(board, query, now);
  if (name == "history")
    return history_answer(board, query, today);
  if (name == "events") {
    const auto memory = board.history.load();
    return memory->points.empty() ? metrics::api_answer{202, api_fault_json(being_asked)}
                                  : metrics::api_answer{200, events_json(memory->events)};
  }
  const auto seen = board.overview.load();
  if (seen->text.empty() || now - seen->made > overview_lasts)
    return {202, api_fault_json(being_asked)};
  return {200, seen->text};
}

} // namespace peercache::actors
