#pragma once

#include "client/set_plan.hpp"
#include "link/protocol/pool_wire.hpp"
#include "tests/scenario/script.hpp"

#include <cstdint>
#include <memory>

namespace peercache::scenario {

class cluster;
class process;

/// One set of a page on its way: carries out client/set_plan.hpp in events of the simulated time.
/// It lives as long as some event holds it.
class set_call : public std::enable_shared_from_this<set_call> {
public:
  set_call(cluster& in, process& by, const page_key& key, std::uint32_t length_bytes,
           time_point until, link::commit_mode mode);
  void begin();

private:
  void fill_half(const client::set_plan::page& page);
  void fill_rest(const client::set_plan::page& page);
  void commit();
  std::span<std::byte> bytes_of(slot_id slot) const;

  cluster& cluster_;
  process& by_;
  const time_point until_;
  const link::commit_mode mode_;
  const client::const_part part_;
  const client::set_page page_;
  client::page_result result_;
  client::set_plan plan_;
  std::uint64_t put_ = 0; ///< The number of the put.
};

} // namespace peercache::scenario
