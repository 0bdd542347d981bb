#pragma once

#include "client/read_plan.hpp"
#include "tests/scenario/known_cluster.hpp"
#include "tests/scenario/script.hpp"

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

namespace peercache::scenario {

class cluster;
class process;

/// A page that a client of the simulated cluster wants.
struct wanted_page {
  page_key key;
  std::uint32_t length_bytes = 0;
};

/// One get on its way: carries out client/read_plan.hpp in events of the simulated time, and judges
/// the outcome. It lives as long as some event holds it.
class get_call : public std::enable_shared_from_this<get_call> {
public:
  using told = std::function<void(std::span<const client::page_result>)>;

  /// `done` is called once, unless the process has ended before.
  get_call(cluster& in, process& by, const std::vector<wanted_page>& wanted, time_point until,
           told done);
  void begin();

private:
  using places = std::vector<client::promote_plan::place>;

  void look();
  void read();
  /// Reads the pages that nodes have brought into memory by now, once the directory has answered.
  void read_promoted();
  void take_told();
  void end_look();
  void judge();
  void ask(const client::promote_plan& pages, places& answers);
  void read_round();
  void read_page(const client::read_plan::page& page);
  void took(const client::read_plan::page& page, page_status status,
            std::span<const std::byte> bytes);
  bool is_late() const;
  /// Counts one message on its way; `next_` is called when all of them have arrived.
  void expect() { ++open_; }
  void arrived();

  cluster& cluster_;
  process& by_;
  const time_point begun_;
  const time_point until_;
  const told done_;
  std::vector<std::vector<std::byte>> memory_; ///< The caller's memory for each page.
  std::vector<page_part> parts_;
  std::vector<client::get_page> pages_;
  std::vector<client::page_result> results_;
  std::vector<incarnation> read_from_; ///< For each page: the process that it was read from.
  std::uint64_t recorded_ = 0;         ///< The call's number in the history.
  client::read_plan plan_;
  known_cluster_ptr known_; ///< The view of the current look.
  int looks_ = 0;
  std::size_t open_ = 0; ///< Messages that are on their way.
  void (get_call::*next_)() = nullptr;
  bool reads_ = false; ///< Whether the directory has answered in this look.
  places cold_;
  places holders_;
};

} // namespace peercache::scenario
