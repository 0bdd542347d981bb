#pragma once

#include "client/lookup_course.hpp"
#include "client/lookup_plan.hpp"
#include "tests/scenario/known_cluster.hpp"
#include "tests/scenario/script.hpp"

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace peercache::scenario {

class cluster;
class process;

/// One look-up of many keys on its way: carries out client/lookup_course.hpp in events of the
/// simulated time. It lives as long as some event holds it.
class lookup : public std::enable_shared_from_this<lookup> {
public:
  using told = std::function<void(std::span<const client::lookup_answer>)>;

  /// `done` is called once, unless the process has ended before.
  lookup(cluster& in, process& by, std::vector<page_key> keys, time_point until, told done);
  void begin();

private:
  using question = client::lookup_course::question;

  void follow();
  void next_round();
  void ask(question& whom);
  void take(question& whom, const std::string* said);
  void refresh();

  cluster& cluster_;
  process& by_;
  const std::vector<page_key> keys_;
  const time_point until_;
  const told done_;
  std::vector<client::lookup_answer> answers_;
  client::lookup_plan plan_;
  client::lookup_course course_;
  known_cluster_ptr known_;
  std::uint64_t turn_ = 0; ///< Number of the current look at the course; timers of earlier looks
                           ///< are ignored.
};

} // namespace peercache::scenario
