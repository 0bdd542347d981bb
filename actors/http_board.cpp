#include "actors/http_board.hpp"

#include "actors/history_json.hpp"
#include "actors/overview_json.hpp"

namespace peercache::actors {

namespace {

constexpr const char* being_asked = "the nodes are being asked; ask again in a second";

/// The history of the node that the query names; of all nodes when it names none.
metrics::api_answer history_answer(const http_board& board, const metrics::http_parameters& query) {
  const auto memory = board.history.load();
  const auto named = query.find("node");
  if (named == query.end() || named->second.empty())
    return {200, history_json("", sum_of(*memory))};
  const auto found = memory->points.find(named->second);
  if (found == memory->points.end())
    return {404, api_fault_json("there is no node of this name, or it was not asked yet")};
  return {200, history_json(found->first, found->second)};
}

} // namespace

metrics::api_answer answer_api(http_board& board, const std::string& name,
                               const metrics::http_parameters& query,
                               std::chrono::steady_clock::time_point now) {
  if (name != "cluster" && name != "history" && name != "events")
    return {404, api_fault_json("there is no /api/" + name)};
  board.looked.store(now);
  const bool remembers = name == "history" || name == "events";
  if (remembers && board.history.load()->points.empty())
    return {202, api_fault_json(being_asked)};
  if (name == "history")
    return history_answer(board, query);
  if (name == "events")
    return {200, events_json(board.history.load()->events)};
  const auto seen = board.overview.load();
  if (seen->text.empty() || now - seen->made > overview_lasts)
    return {202, api_fault_json(being_asked)};
  return {200, seen->text};
}

} // namespace peercache::actors
