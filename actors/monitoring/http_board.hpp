#pragma once

#include "actors/monitoring/cluster_history.hpp"
#include "actors/monitoring/node_history.hpp"
#include "common/page_key.hpp"
#include "common/published.hpp"
#include "common/unix_time.hpp"
#include "metrics/http_server.hpp"
#include "metrics/registry.hpp"

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <string>

namespace peercache::actors {

/// A text, and when it was made.
struct dated_text {
  std::string text; ///< Empty: no text was made yet.
  std::chrono::steady_clock::time_point made{};
};

/// Scrapes that wait for new numbers. Threads: any. Bound: `waiting_max`, beyond which the oldest
/// is called with the numbers that there are.
class number_wishes {
public:
  static constexpr std::size_t waiting_max = metrics::http_server::connections_max;

  void add(std::function<void()> done);
  /// Calls all that wait, because the numbers are new.
  void fulfil();

private:
  std::mutex lock_;
  std::deque<std::function<void()>> waiting_; ///< Guarded by the lock.
};

/// What the HTTP thread reads: whole values, which actors replace, and the numbers of which it
/// makes the text of a scrape. The HTTP thread itself only notes that somebody looks, for the actor
/// that collects what is looked at.
struct http_board {
  metrics::registry numbers;            ///< What `/metrics` shows; the metrics actor fills it.
  std::atomic<bool> has_numbers{false}; ///< Whether the actor has filled in the first report.
  published<metrics::readiness> ready{metrics::readiness{false, "starting"}};
  published<std::string> status{std::string{"{}"}};
  published<dated_text> overview{dated_text{}};
  published<node_memory> own_history{node_memory{}};
  published<cluster_memory> history{cluster_memory{}};
  /// How many faults of each id the cluster has; empty at a node that does not tell them.
  published<std::map<std::string, std::size_t>> faults{std::map<std::string, std::size_t>{}};
  /// Answers to questions about keys, by the text of the key without an epoch.
  published<std::map<std::string, dated_text>> keys{std::map<std::string, dated_text>{}};
  /// Asks the directory where the page of this key is; the answer comes into `keys`. Set before the
  /// HTTP thread runs.
  std::function<void(const page_key&)> ask_for_key;
  /// Answers a router's query through `reply`. `by_hashes`: the query's body names blocks by their
  /// hashes (`/query_by_hash`) and not by tokens. Set before the HTTP thread runs.
  std::function<void(bool by_hashes, std::string body, metrics::http_reply reply)> ask_for_overlap;
  /// When somebody last looked at the cluster (`looked`), and when somebody last read this node's
  /// numbers (`scraped`); the clock's zero: nobody has.
  std::atomic<std::chrono::steady_clock::time_point> looked{
      std::chrono::steady_clock::time_point{}};
  std::atomic<std::chrono::steady_clock::time_point> scraped{
      std::chrono::steady_clock::time_point{}};
  /// When the node was asked for what `numbers` and `status` tell.
  std::atomic<std::chrono::steady_clock::time_point> reported{
      std::chrono::steady_clock::time_point{}};
  number_wishes wishes;
  /// Asks the metrics actor for new numbers, which then fulfils `wishes`. Set before the HTTP
  /// thread runs.
  std::function<void()> want_numbers;
  /// Asks the overview actor to look at the cluster soon. Set before the HTTP thread runs.
  std::function<void()> look;
};

/// Numbers that are older than this are renewed before they are told.
inline constexpr std::chrono::milliseconds numbers_last{500};

/// Whether the board's numbers need not be renewed before they are told.
bool has_new_numbers(const http_board& board, std::chrono::steady_clock::time_point now);

/// Calls `done` once the board's numbers are new: at once, or by the metrics actor. Threads: any.
void renew_numbers(http_board& board, std::function<void()> done,
                   std::chrono::steady_clock::time_point now = std::chrono::steady_clock::now());

/// A text of the overview that is older than this is not given as an answer: the actors of this
/// node have not renewed it.
inline constexpr std::chrono::milliseconds overview_lasts{3000};

/// Answers `/api/NAME` from the board, and notes that somebody looks. Threads: any.
/// @param today this node's time of day, in ms since 1970
metrics::api_answer
answer_api(http_board& board, const std::string& name, const metrics::http_parameters& query,
           std::chrono::steady_clock::time_point now = std::chrono::steady_clock::now(),
           std::uint64_t today = unix_ms());

} // namespace peercache::actors
