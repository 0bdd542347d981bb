#pragma once

#include "client/remove_plan.hpp"
#include "tests/scenario/script.hpp"

#include <cstddef>
#include <memory>
#include <span>

namespace peercache::scenario {

class cluster;
class process;

/// One removal of a page on its way: carries out client/remove_plan.hpp in events of the simulated
/// time. It lives as long as some event holds it.
class remove_call : public std::enable_shared_from_this<remove_call> {
public:
  remove_call(cluster& in, process& by, const page_key& key, time_point until);
  void begin();

private:
  void ask_holders();
  void arrived();

  cluster& cluster_;
  process& by_;
  const time_point until_;
  const page_key key_;
  client::page_result result_;
  client::remove_plan plan_;
  /// Answers that are on their way; the first is the answer of the directory.
  std::size_t open_ = 1;
};

} // namespace peercache::scenario
