#include "actors/http_board.hpp"

#include "actors/overview_json.hpp"

namespace peercache::actors {

namespace {

constexpr const char* being_asked = "the nodes are being asked; ask again in a second";

} // namespace

metrics::api_answer answer_api(http_board& board, const std::string& name,
                               const metrics::http_parameters& /*query*/,
                               std::chrono::steady_clock::time_point now) {
  if (name != "cluster")
    return {404, api_fault_json("there is no /api/" + name)};
  board.looked.store(now);
  const auto seen = board.overview.load();
  if (seen->text.empty() || now - seen->made > overview_lasts)
    return {202, api_fault_json(being_asked)};
  return {200, seen->text};
}

} // namespace peercache::actors
