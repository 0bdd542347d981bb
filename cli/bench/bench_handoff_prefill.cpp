#include "bench/raw_limits.hpp"
#include "cli/bench/bench_handoff.hpp"
#include "cli/bench/handoff_patience.hpp"
#include "client/handoff/prefill_worker.hpp"

#include <charconv>
#include <fmt/format.h>
#include <iostream>
#include <memory>

namespace peercache::cli {

namespace {

using client::prefill_worker;
using handoff::room_state;

/// The prefill engine: all of its ranks, as workers of one process.
class prefill_engine {
public:
  static result<std::unique_ptr<prefill_engine>> start(const handoff_shape& shape,
                                                       const std::string& device) {
    const auto bytes = shape.memory_bytes(shape.prefill_ranks);
    auto memory =
        bench::big_memory::map(bytes * shape.prefill_ranks, bench::big_memory::kind::shared);
    if (!memory)
      return memory.error();
    auto made = std::unique_ptr<prefill_engine>(new prefill_engine(shape, std::move(*memory)));
    for (std::uint32_t rank = 0; rank < shape.prefill_ranks; ++rank) {
      const auto own = made->memory_.bytes().subspan(rank * bytes, bytes);
      fill_kv(shape, shape.prefill_ranks, rank, true, own);
      auto worker =
          prefill_worker::start(handoff_worker_options(device), shape.layout(rank, true, own));
      if (!worker)
        return worker.error();
      made->workers_.push_back(std::move(*worker));
    }
    return made;
  }

  std::string ports() const {
    std::string text;
    for (const auto& each : workers_)
      text += fmt::format("{} ", each->port());
    return text;
  }

  /// Hands all rooms over once. Returns the time of the first offer in nanoseconds.
  result<std::int64_t> hand_over() {
    std::vector<sending> rooms;
    for (std::uint32_t room = 0; room < shape_.rooms; ++room, ++next_)
      for (const auto& worker : workers_) {
        auto opened =
            worker->open({next_}, std::max(1u, shape_.decode_ranks / shape_.prefill_ranks));
        if (!opened)
          return opened.error();
        rooms.push_back({worker.get(), *opened, shape_.pages_of(room, true)});
      }
    for (auto& each : rooms) {
      if (!until([&] { return each.worker->prefix_pages(each.room.id).has_value(); }))
        return error{errc::timed_out, "decode does not join"};
      if (auto said = each.worker->init(each.room.id, shape_.room_pages); !said)
        return said.error();
    }
    const auto begin = bench::clock::now();
    for (auto& each : rooms)
      if (auto sent = each.worker->send(each.room.id, each.pages, true); !sent)
        return sent.error();
    if (!until_all(rooms, [](const sending& each) {
          return each.room.state.poll() == room_state::success;
        }))
      return error{errc::timed_out, "decode does not succeed"};
    for (auto& each : rooms)
      each.worker->clear(each.room.id);
    return std::chrono::nanoseconds(begin.time_since_epoch()).count();
  }

private:
  struct sending {
    prefill_worker* worker;
    client::prefill_room room;
    std::vector<std::uint32_t> pages;
  };

  prefill_engine(const handoff_shape& shape, bench::big_memory memory)
      : shape_(shape), memory_(std::move(memory)) {}

  const handoff_shape shape_;
  bench::big_memory memory_;
  std::vector<std::unique_ptr<prefill_worker>> workers_;
  std::uint64_t next_ = 1;
};

} // namespace

exit_code run_handoff_prefill(const handoff_shape& shape, const std::string& device) {
  auto engine = prefill_engine::start(shape, device);
  if (!engine) {
    fmt::print(stderr, "prefill engine: {}\n", to_string(engine.error()));
    return exit_code::failed;
  }
  std::cout << (*engine)->ports() << std::endl;
  for (std::string line; std::getline(std::cin, line);) {
    std::uint32_t times = 0;
    std::from_chars(line.data(), line.data() + line.size(), times);
    std::string begun;
    for (std::uint32_t i = 0; i < times; ++i) {
      const auto at = (*engine)->hand_over();
      if (!at) {
        fmt::print(stderr, "prefill engine: {}\n", to_string(at.error()));
        return exit_code::failed;
      }
      begun += fmt::format("{} ", *at);
    }
    std::cout << begun << std::endl;
  }
  return exit_code::ok;
}

} // namespace peercache::cli
