#include "cli/bench/bench_handoff.hpp"
#include "cli/bench/handoff_patience.hpp"
#include "client/handoff/decode_worker.hpp"

#include <fmt/format.h>
#include <sstream>

namespace peercache::cli {

namespace {

using client::decode_worker;
using handoff::room_state;

/// The prefill ranks that decode rank `rank` reads from. Each rank has a contiguous share of the
/// heads.
std::vector<handoff::worker_address> sources_of(std::uint32_t rank, std::uint32_t decode_ranks,
                                                const std::vector<std::uint16_t>& ports) {
  const auto p = static_cast<std::uint32_t>(ports.size());
  std::vector<handoff::worker_address> sources;
  for (std::uint32_t source = 0; source < p; ++source)
    if (p >= decode_ranks ? source / (p / decode_ranks) == rank
                          : rank / (decode_ranks / p) == source)
      sources.push_back({"127.0.0.1", ports[source]});
  return sources;
}

class two_engines final : public handoff_engines {
public:
  two_engines(const handoff_shape& shape, bench::big_memory memory, child_process prefill)
      : shape_(shape), memory_(std::move(memory)), prefill_(std::move(prefill)) {}

  result<void> connect(const client::worker_options& options) {
    auto line = prefill_.read_line(std::chrono::seconds(60));
    if (!line)
      return line.error();
    std::istringstream text(*line);
    for (std::uint16_t port = 0; text >> port;)
      ports_.push_back(port);
    for (std::uint32_t rank = 0; rank < shape_.decode_ranks; ++rank) {
      auto worker = decode_worker::start(options, shape_.layout(rank, false, memory_of(rank)));
      if (!worker)
        return worker.error();
      workers_.push_back(std::move(*worker));
    }
    return {};
  }

  result<bench::round_sample> hand_over(std::uint32_t times) override {
    if (auto asked = prefill_.write_line(std::to_string(times)); !asked)
      return asked.error();
    std::vector<bench::clock::time_point> ends;
    for (std::uint32_t i = 0; i < times; ++i) {
      auto ended = receive();
      if (!ended)
        return ended.error();
      ends.push_back(*ended);
    }
    auto line = prefill_.read_line(std::chrono::seconds(60));
    if (!line)
      return line.error();
    bench::round_sample sample;
    std::istringstream text(*line);
    for (const auto end : ends) {
      std::int64_t begin = 0;
      if (!(text >> begin))
        return error{errc::incompatible, "the prefill engine said: " + *line};
      // The prefill process reads the same clock, so its times can be subtracted from this
      // process's.
      const auto took = end.time_since_epoch() - std::chrono::nanoseconds(begin);
      sample.call_us.push_back(std::chrono::duration<double, std::micro>(took).count());
      sample.seconds += std::chrono::duration<double>(took).count();
      sample.units += static_cast<double>(shape_.room_bytes() * shape_.rooms);
    }
    return sample;
  }

  bool is_right() const override {
    bool right = true;
    for (std::uint32_t rank = 0; rank < shape_.decode_ranks; ++rank)
      right = right && kv_is_right(shape_, shape_.decode_ranks, rank, false, memory_of(rank));
    return right;
  }

  std::span<std::byte> memory() const override { return memory_.bytes(); }

private:
  struct receiving {
    decode_worker* worker;
    handoff::room_id number;
    client::room_watch state;
  };

  std::span<std::byte> memory_of(std::uint32_t rank) const {
    const auto bytes = shape_.memory_bytes(shape_.decode_ranks);
    return memory_.bytes().subspan(rank * bytes, bytes);
  }

  result<receiving> open(std::uint32_t rank, handoff::room_id number) {
    auto& worker = *workers_[rank];
    auto state = worker.open(number);
    if (!state)
      return state.error();
    if (auto done = worker.connect(number, sources_of(rank, shape_.decode_ranks, ports_)); !done)
      return done.error();
    return receiving{&worker, number, *state};
  }

  /// Receives all rooms once. Returns the time at which the last one was seen to have succeeded.
  result<bench::clock::time_point> receive() {
    std::vector<receiving> rooms;
    for (std::uint32_t i = 0; i < shape_.rooms; ++i, ++next_)
      for (std::uint32_t rank = 0; rank < shape_.decode_ranks; ++rank) {
        auto opened = open(rank, {next_});
        if (!opened)
          return opened.error();
        rooms.push_back(*opened);
      }
    for (auto& each : rooms) {
      if (!until([&] { return each.state.poll() != room_state::bootstrapping; }))
        return error{errc::timed_out, "decode does not connect"};
      handoff::allocated_pages pages;
      const auto first = next_ - shape_.rooms;
      pages.pages = shape_.pages_of(static_cast<std::uint32_t>(each.number.value - first), false);
      if (auto done = each.worker->allocate(each.number, std::move(pages)); !done)
        return done.error();
    }
    if (!until_all(rooms, [](const receiving& each) { return has_ended(each.state.poll()); }))
      return error{errc::timed_out, "a room does not end"};
    const auto end = bench::clock::now();
    for (auto& each : rooms) {
      if (auto failure = each.worker->end(each.number, "the measurement is over"))
        return error{errc::refused, failure->reason};
      each.worker->clear(each.number);
    }
    return end;
  }

  static bool has_ended(room_state state) {
    return state == room_state::success || state == room_state::failed;
  }

  const handoff_shape shape_;
  bench::big_memory memory_;
  child_process prefill_;
  std::vector<std::uint16_t> ports_;
  std::vector<std::unique_ptr<decode_worker>> workers_;
  std::uint64_t next_ = 1;
};

} // namespace

client::worker_options handoff_worker_options(const std::string& device) {
  client::worker_options options;
  options.rails.mode = device.empty() ? rdma::plane_mode::tcp : rdma::plane_mode::verbs;
  if (!device.empty())
    options.rails.devices = {device};
  return options;
}

result<std::unique_ptr<handoff_engines>>
handoff_engines::start(const handoff_shape& shape, const client::worker_options& decode,
                       std::vector<std::string> prefill) {
  auto engine = child_process::spawn({.arguments = std::move(prefill)});
  if (!engine)
    return engine.error();
  auto memory = bench::big_memory::map(shape.memory_bytes(shape.decode_ranks) * shape.decode_ranks,
                                       bench::big_memory::kind::anonymous);
  if (!memory)
    return memory.error();
  auto made = std::make_unique<two_engines>(shape, std::move(*memory), std::move(*engine));
  if (auto connected = made->connect(decode); !connected)
    return connected.error();
  return std::unique_ptr<handoff_engines>(std::move(made));
}

} // namespace peercache::cli
