#include "cli/bench/bench_hicache.hpp"

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fmt/format.h>
#include <optional>

namespace peercache::cli {

namespace {

/// A rank gets two minutes to start, since loading torch takes seconds on a busy machine.
constexpr auto rank_start_timeout = std::chrono::seconds(120);
constexpr auto rank_answer_timeout = std::chrono::seconds(300);

const char* word_of(bench_place place) {
  return place == bench_place::here ? "here" : "there";
}

std::string command_of(const hicache_work& work) {
  constexpr const char* words[] = {"exists", "get", "set", "request"};
  const auto* word = words[static_cast<std::size_t>(work.what)];
  if (work.what == hicache_work::kind::set)
    return fmt::format("{} {}", word, work.calls);
  return fmt::format("{} {} {}", word, word_of(work.from), work.calls);
}

/// The folder of this build's Python package; empty when there is none, so that Python finds the
/// package by itself.
std::string package_path() {
  std::error_code failed;
  const auto site = std::filesystem::path(own_folder()).parent_path() / "python" / "site";
  return std::filesystem::is_directory(site, failed) ? site.string() : std::string{};
}

result<child_process> start_rank(const std::string& python, const char* simulator,
                                 const nlohmann::json& setup) {
  spawn_options options{.arguments = {python, "-B", "-m", simulator, setup.dump()}};
  options.without_environment = "PEERCACHE_";
  options.environment = {{"PYTHONHASHSEED", "0"}}; // Engines that share pages set this too.
  if (auto path = package_path(); !path.empty())
    options.environment.emplace_back("PYTHONPATH", path);
  return child_process::spawn(options);
}

} // namespace

std::span<const hicache_model> hicache_models() {
  static constexpr hicache_model models[] = {{"qwen3-32b-tp4", 64, 2, 128, 2},
                                             {"llama-3.1-8b", 32, 8, 128, 2},
                                             {"deepseek-v3", 61, 1, 576, 1},
                                             // A small model for a quick look.
                                             {"small", 8, 2, 64, 2},
                                             {"small-mla", 8, 1, 576, 1}};
  return models;
}

result<simulated_ranks> simulated_ranks::start(const bench_setup& setup,
                                               const hicache_bench_options& options) {
  // SIGPIPE is ignored, so that writing to a rank that has ended is an error of `write_line`.
  std::signal(SIGPIPE, SIG_IGN);
  const auto python = options.python.empty() ? std::string{"/usr/bin/python3"} : options.python;
  simulated_ranks made{options.model};
  const auto& model = options.model;
  nlohmann::json about = {{"here", setup.control_port(0)},
                          {"there", setup.control_port(1)},
                          {"cluster", setup.cluster()},
                          {"ranks", options.ranks},
                          {"shape",
                           {{"page_size", hicache_model::page_tokens},
                            {"layers", model.layers},
                            {"heads", model.heads},
                            {"head_dim", model.head_dim},
                            {"halves", model.halves}}}};
  for (std::uint32_t index = 0; index < options.ranks; ++index) {
    about["rank"] = index;
    auto rank = start_rank(python, options.door->simulator, about);
    if (!rank)
      return rank.error();
    made.ranks_.push_back(std::move(*rank));
  }
  for (auto& rank : made.ranks_)
    if (auto line = rank.read_line(rank_start_timeout); !line)
      return {errc::not_found,
              fmt::format("{} -m {} did not start ({}); it takes {}; --python names another "
                          "interpreter",
                          python, options.door->simulator, line.error().message,
                          options.door->simulator_needs)};
  return made;
}

result<std::vector<nlohmann::json>> simulated_ranks::ask(const std::string& command) {
  for (auto& rank : ranks_)
    if (auto written = rank.write_line(command); !written)
      return written.error();
  std::vector<nlohmann::json> answers;
  for (auto& rank : ranks_) {
    auto line = rank.read_line(rank_answer_timeout);
    if (!line)
      return error{line.error().code,
                   "a simulated rank, at '" + command + "': " + line.error().message};
    auto answer = nlohmann::json::parse(*line, nullptr, false);
    if (!answer.is_object())
      return {errc::incompatible, "a simulated rank said: " + *line};
    if (answer.contains("error"))
      return {errc::refused, "a simulated rank: " + answer["error"].get<std::string>()};
    if (auto wrong = answer.value("wrong_bytes", std::uint64_t{0}); wrong != 0)
      return {errc::io_failed, fmt::format("a simulated rank read {} wrong bytes", wrong)};
    answers.push_back(std::move(answer));
  }
  return answers;
}

result<void> simulated_ranks::store(bench_place where) {
  auto stored = ask(fmt::format("store {} {}", word_of(where), hicache_stored_batches));
  if (!stored)
    return stored.error();
  return {};
}

result<bench::round_sample> simulated_ranks::run(const hicache_work& work) {
  auto answers = ask(command_of(work));
  if (!answers)
    return answers.error();
  bench::round_sample sample;
  // The share of a call's time in which Python's lock (GIL) was held, the largest of all ranks.
  // Ranks whose calls overlap report none.
  std::optional<double> gil_held;
  callers_ = 0;
  for (const auto& answer : *answers) {
    sample.seconds = std::max(sample.seconds, answer.value("seconds", 0.0));
    if (answer.contains("gil_held"))
      gil_held = std::max(gil_held.value_or(0), answer.at("gil_held").get<double>());
    callers_ += answer.at("call_us").empty() ? 0 : 1;
    for (const auto& call : answer.at("call_us"))
      sample.call_us.push_back(call.get<double>());
  }
  if (gil_held)
    gil_held_.push_back(*gil_held);
  const auto batches = static_cast<double>(work.calls) * static_cast<double>(ranks_.size());
  const auto per_batch = work.what == hicache_work::kind::exists
                             ? double{hicache_model::batch_pages}
                             : static_cast<double>(model_.batch_bytes());
  sample.units = batches * per_batch;
  return sample;
}

void simulated_ranks::pin(const std::vector<int>& cpus) {
  for (auto& rank : ranks_)
    (void)pin_process(
        rank.pid(),
        // A refusal to pin a rank does not matter: the figures are still right without pinning.
        cpus);
}

} // namespace peercache::cli
