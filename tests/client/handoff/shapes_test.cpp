#include "tests/client/handoff/fake_gpu.hpp"
#include "tests/client/handoff/worker_rig.hpp"
#include "tests/handoff/plan_world.hpp"
#include "tests/support/thorough.hpp"

#include "handoff/transfer_plan.hpp"

#include <algorithm>
#include <gtest/gtest.h>

namespace peercache::client::test {
namespace {

using handoff::room_state;
using handoff::test::fake_worker;
using handoff::test::model_shape;
using handoff::test::room_items;

/// One rank of an engine: its memory, and the worker that hands it over.
template <class Worker>
struct rank_of {
  rank_of(const model_shape& shape, handoff::worker_ranks ranks, bool is_source, bool on_gpu)
      : memory(shape, ranks, is_source,
               on_gpu ? fake_gpu_memory : handoff::test::memory_maker(handoff::test::heap_memory)) {
    auto started = Worker::start(on_gpu ? gpu_options() : tcp_options(), memory.layout());
    EXPECT_TRUE(started) << started.error().message;
    worker = std::move(*started);
  }
  fake_worker memory;
  std::unique_ptr<Worker> worker; ///< Declared after the memory, so that the worker ends first.
};
using prefill_rank = rank_of<prefill_worker>;
using decode_rank = rank_of<decode_worker>;

bool belong_together(const prefill_rank& source, const decode_rank& destination) {
  const auto plan =
      handoff::transfer_plan::create(source.memory.layout(), destination.memory.layout());
  return plan || plan.error().code != errc::invalid_argument;
}

struct two_engines {
  two_engines(const model_shape& shape, bool prefill_on_gpu, bool decode_on_gpu) {
    for (std::uint32_t tp = 0; tp < shape.p; ++tp)
      for (std::uint32_t pp = 0; pp < shape.source_stages; ++pp)
        for (std::uint32_t cp = 0; cp < shape.cp; ++cp)
          prefill.push_back(std::make_unique<prefill_rank>(
              shape, handoff::worker_ranks{tp, shape.p, pp, shape.source_stages, cp, shape.cp},
              true, prefill_on_gpu));
    for (std::uint32_t tp = 0; tp < shape.d; ++tp)
      for (std::uint32_t pp = 0; pp < shape.destination_stages; ++pp)
        decode.push_back(std::make_unique<decode_rank>(
            shape, handoff::worker_ranks{tp, shape.d, pp, shape.destination_stages, 0, 1}, false,
            decode_on_gpu));
  }
  std::vector<std::unique_ptr<prefill_rank>> prefill;
  std::vector<std::unique_ptr<decode_rank>> decode;
};

/// Hands one room over from all ranks of prefill to all ranks of decode. Returns what went wrong;
/// empty if nothing did.
std::string hand_over(two_engines& engines, const room_items& from, const room_items& to) {
  const handoff::room_id room{99};
  std::vector<room_watch> receiving;
  for (auto& rank : engines.decode) {
    std::vector<handoff::worker_address> sources;
    for (auto& source : engines.prefill)
      if (belong_together(*source, *rank))
        sources.push_back({"127.0.0.1", source->worker->port()});
    receiving.push_back(*rank->worker->open(room));
    if (auto connected = rank->worker->connect(room, sources); !connected)
      return connected.error().message;
    if (!eventually([&] { return receiving.back().poll() != room_state::bootstrapping; }))
      return "decode does not connect";
    if (auto joined =
            rank->worker->allocate(room, {to.prefix_pages, to.pages, to.states, to.aux_row});
        !joined)
      return joined.error().message;
  }
  std::vector<prefill_room> sending;
  for (auto& rank : engines.prefill) {
    if (std::none_of(engines.decode.begin(), engines.decode.end(),
                     [&](const auto& destination) { return belong_together(*rank, *destination); }))
      continue;
    rank->memory.fill(from);
    sending.push_back(*rank->worker->open(room));
    const auto id = sending.back().id;
    if (!eventually([&] { return sending.back().state.poll() == room_state::waiting_for_input; }))
      return "prefill waits for decode";
    if (!rank->worker->init(id, static_cast<std::uint32_t>(from.pages.size())) ||
        !rank->worker->send(id, from.pages, true, from.states, from.aux_row))
      return "prefill cannot send";
  }
  for (std::size_t i = 0; i < receiving.size(); ++i) {
    if (!eventually([&] {
          return receiving[i].poll() == room_state::success ||
                 receiving[i].poll() == room_state::failed;
        }))
      return "decode waits for prefill";
    auto& rank = *engines.decode[i];
    if (receiving[i].poll() == room_state::failed)
      return rank.worker->end(room, "late")->reason;
    if (auto wrong = rank.memory.check_bytes(to); !wrong.empty())
      return wrong;
  }
  for (auto& each : sending)
    if (!eventually([&] { return each.state.poll() == room_state::success; }))
      return "prefill does not hear of the end";
  return {};
}

void hand_over_any_model(int seeds, bool prefill_on_gpu, bool decode_on_gpu) {
  for (int seed = 1; seed <= seeds; ++seed) {
    std::mt19937_64 random(static_cast<std::uint64_t>(seed));
    const model_shape shape(random);
    SCOPED_TRACE("seed " + std::to_string(seed) + ": " + shape.text());
    const auto prefix = static_cast<std::uint32_t>(random() % 4);
    const auto pages = static_cast<std::uint32_t>(random() % 16);
    const auto window = static_cast<std::uint32_t>(random() % (prefix + pages + 1));
    const auto ring = static_cast<std::uint32_t>(random() % 9);
    const auto items = [&] {
      return handoff::test::random_items(shape, random, prefix, pages, window, ring, true);
    };
    const auto from = items();
    const auto to = items();
    two_engines engines(shape, prefill_on_gpu, decode_on_gpu);
    ASSERT_EQ(hand_over(engines, from, to), "");
  }
}

TEST(hand_over, of_any_model_between_any_ranks_brings_each_byte_to_its_place) {
  hand_over_any_model(thorough(25, 10), false, false);
}

TEST(hand_over, of_any_model_goes_from_gpu_to_gpu) {
  const auto before = gpu().copies();
  hand_over_any_model(thorough(10, 5), true, true);
  EXPECT_GT(gpu().copies(), before);
}

TEST(hand_over, of_any_model_goes_from_gpu_to_host_and_back) {
  hand_over_any_model(thorough(5, 2), true, false);
  hand_over_any_model(thorough(5, 2), false, true);
}

} // namespace
} // namespace peercache::client::test
