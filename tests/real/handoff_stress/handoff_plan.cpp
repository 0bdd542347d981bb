#include "handoff_plan.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <random>

namespace peercache::handoff_stress {

namespace {

using handoff::state_type;

constexpr std::array<model_geometry, 3> models = {{
    {"llama-3.1-8b", 32, 8, 256, 1},
    {"qwen3-32b-tp4", 64, 2, 256, 16},
    {"deepseek-v3", 61, 0, 1152, 1},
}};

result<void> choose_model(handoff_plan& plan, const std::string& name) {
  const auto found = std::find_if(models.begin(), models.end(),
                                  [&](const auto& each) { return each.name == name; });
  if (found == models.end())
    return {errc::invalid_argument,
            "--model is llama-3.1-8b, qwen3-32b-tp4 or deepseek-v3, and not '" + name + "'"};
  plan.model = *found;
  return {};
}

result<void> choose_ranks(handoff_plan& plan, const std::string& text) {
  for (const auto* known : {"1:1", "2:2", "2:1", "1:2"})
    if (text == known) {
      plan.prefill_ranks = static_cast<std::uint32_t>(text[0] - '0');
      plan.decode_ranks = static_cast<std::uint32_t>(text[2] - '0');
      // `models` has all heads of this model on one rank; two ranks of a side share these heads.
      if (plan.model.name == models[0].name && plan.ranks() > 2)
        plan.model.rank_heads = 4;
      return {};
    }
  return {errc::invalid_argument, "--tp is 1:1, 2:2, 2:1 or 1:2, and not '" + text + "'"};
}

result<void> choose_states(handoff_plan& plan, const std::vector<std::string>& names) {
  for (const auto& name : names) {
    const auto type = name == "mamba" ? state_type::mamba
                      : name == "swa" ? state_type::swa
                                      : state_type::dsa;
    if (type == state_type::dsa && name != "dsa")
      return {errc::invalid_argument, "--states are mamba, swa and dsa, and not '" + name + "'"};
    const bool shared = type == state_type::mamba || plan.model.rank_heads == 0;
    if (plan.prefill_ranks != plan.decode_ranks && !shared)
      return {errc::invalid_argument, name + " is handed over between equally many ranks only"};
    plan.states.push_back(type);
  }
  return {};
}

/// Changes the plan so that a guard's absence shows: rooms of some MiB, most of which are given up
/// while they are read.
result<void> apply_guard_profile(handoff_plan& plan, const std::string& guard, bool off) {
  for (const auto* known : {"generation", "fence", "quiet", "all_pieces"})
    if (guard == known) {
      plan.guard = guard;
      plan.guard_off = off;
      plan.stop_at_wrong = true;
      plan.rooms_like = guard == "quiet" ? handoff_plan::profile::decode_aborts
                                         : handoff_plan::profile::prefill_aborts;
      plan.aborted_percent = 70;
      plan.rooms_at_a_time = 8;
      // To test `fence` rooms are small, so that they have few requests: the lease is also checked
      // before the first byte of each request.
      plan.tokens_max = guard == "fence" ? 4 : 40;
      // To test `generation` messages are delayed: an abort that decode hears at once would end the
      // read before the lease ends.
      plan.messages_later = std::chrono::milliseconds(guard == "generation" ? 5 : 0);
      plan.seconds_max = std::chrono::seconds(60);
      plan.rooms = UINT64_MAX;
      return {};
    }
  return {errc::invalid_argument,
          "there is no guard '" + guard + "': generation, fence, quiet or all_pieces"};
}

std::uint32_t random_tokens(const handoff_plan& plan, std::mt19937_64& random) {
  const std::uint32_t page = plan.model.page_tokens;
  const auto most = std::min(plan.tokens_max, plan.pages() * page);
  const auto up_to = [&](std::uint32_t tokens) {
    return static_cast<std::uint32_t>(1 + random() % std::min(tokens, most));
  };
  if (plan.rooms_like != handoff_plan::profile::any_room)
    return std::min(most, 2 + up_to(plan.tokens_max));
  const auto drawn = random() % 1000;
  if (drawn == 0)
    return most;
  return up_to(drawn < 20 ? 256 : 8);
}

planned_abort random_abort(const handoff_plan& plan, std::mt19937_64& random) {
  using step = planned_abort::step;
  using profile = handoff_plan::profile;
  planned_abort abort;
  abort.wanted = random() % 100 < plan.aborted_percent;
  abort.rank = static_cast<std::uint32_t>(random() % plan.ranks());
  abort.when = static_cast<step>(random() % 4);
  if (random() % 2 == 0)
    abort.later = std::chrono::microseconds(random() % 500);
  if (plan.rooms_like == profile::any_room)
    return abort;
  const bool prefill = plan.rooms_like == profile::prefill_aborts;
  abort.rank = prefill ? 0 : plan.prefill_ranks;
  abort.when = prefill ? step::sent : step::sending;
  abort.later = std::chrono::microseconds(random() % 2000);
  return abort;
}

} // namespace

std::uint32_t handoff_plan::pages() const noexcept {
  const std::uint64_t token = model.rank_heads == 0
                                  ? std::uint64_t{model.head_bytes} * model.layers
                                  : std::uint64_t{2} * model.layers * heads() * model.head_bytes;
  return static_cast<std::uint32_t>(
      std::max<std::uint64_t>(rooms_at_a_time, memory_bytes / (token * model.page_tokens)));
}

room_plan plan_of_room(const handoff_plan& plan, std::uint64_t serial) {
  std::mt19937_64 random(serial * 0x9e3779b97f4a7c15ull + plan.seed);
  const auto page = plan.model.page_tokens;
  const auto length = (random_tokens(plan, random) + page - 1) / page;
  room_plan room;
  // For a third of the prompts decode already has a prefix, for some all pages: then only states
  // and aux row are transferred.
  if (random() % 3 == 0)
    room.prefix_pages = static_cast<std::uint32_t>(random() % (length + 1));
  room.pages = length - room.prefix_pages;
  room.window = static_cast<std::uint32_t>(random() % (std::min(room.pages, 64u) + 1));
  room.chunk_pages = static_cast<std::uint32_t>(1 + room.pages / (1 + random() % 3));
  room.abort = random_abort(plan, random);
  return room;
}

result<handoff_plan> parse_plan(int argc, char** argv) {
  handoff_plan plan;
  std::string model = models[0].name, tp = "1:1", without, control, plane = "tcp";
  std::vector<std::string> states;
  std::uint64_t seconds = 0, memory_mib = 256, kill_ms = 0, freeze_ms = 0, patience = 30;
  CLI::App app("Prompts handed over between processes; every byte is compared.", "stress handoff");
  app.add_option("--rooms", plan.rooms, "Rooms until the end");
  app.add_option("--seed", plan.seed, "What differs between two runs besides the machine's mood");
  app.add_option("--seconds", seconds, "End after so many seconds at the latest");
  app.add_option(
         "--patience", patience,
         "A room that has not ended after so many seconds is stuck [30]; the longest prompts "
         "take that long on a machine that has other work")
      ->check(CLI::Range(1, 3600));
  app.add_option("--model", model, "llama-3.1-8b, qwen3-32b-tp4 or deepseek-v3");
  app.add_option("--tp", tp, "Ranks of prefill and of decode: 1:1, 2:2, 2:1 or 1:2");
  app.add_option("--states", states, "States that rooms have: mamba, swa, dsa")->delimiter(',');
  app.add_option("--memory", memory_mib, "MiB of KV at the largest rank [256]");
  app.add_option("--tokens", plan.tokens_max, "The longest prompt [8192]")
      ->check(CLI::Range(1, 8192));
  app.add_option("--aborted", plan.aborted_percent, "Percent of rooms that a side aborts [20]");
  app.add_option("--at-a-time", plan.rooms_at_a_time, "Rooms that are open at a time [64]")
      ->check(CLI::Range(1, 64));
  app.add_option("--plane", plane, "tcp, verbs, or windows: verbs with rdma.windows")
      ->check(CLI::IsMember({"tcp", "verbs", "windows"}));
  app.add_option("--kills", kill_ms, "Kill a process about every so many milliseconds");
  app.add_option("--freezes", freeze_ms, "Freeze a process about every so many milliseconds");
  auto* no_guard = app.add_option("--without", without, "Switch one guard off; it must show");
  app.add_option("--control", control, "The same run with the guard on")->excludes(no_guard);
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    return {errc::invalid_argument, app.help()};
  } catch (const CLI::ParseError& wrong) {
    return {errc::invalid_argument, wrong.what()};
  }
  plan.memory_bytes = memory_mib << 20;
  plan.patience = std::chrono::seconds(patience);
  plan.verbs = plane != "tcp";
  plan.windows = plane == "windows";
  plan.faults = {std::chrono::milliseconds(kill_ms), std::chrono::milliseconds(freeze_ms)};
  if (auto chosen = choose_model(plan, model); !chosen)
    return chosen.error();
  if (auto chosen = choose_ranks(plan, tp); !chosen)
    return chosen.error();
  if (auto chosen = choose_states(plan, states); !chosen)
    return chosen.error();
  const auto& guard = without.empty() ? control : without;
  if (!guard.empty())
    if (auto applied = apply_guard_profile(plan, guard, !without.empty()); !applied)
      return applied.error();
  if (seconds != 0)
    plan.seconds_max = std::chrono::seconds(seconds);
  return plan;
}

} // namespace peercache::handoff_stress
