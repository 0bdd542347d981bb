#include "cli/page_losses.hpp"

#include "cli/members.hpp"
#include "cli/miss_words.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <fmt/format.h>
#include <optional>

namespace peercache::cli {
namespace {

struct loss_words {
  const char* word;
  const char* text;
};
/// Texts for each `page_loss`, in its order: the word of JSON, and the beginning of a sentence that
/// ends with an age.
constexpr std::array<loss_words, link::page_losses> ways{{
    {"evicted", "evicted from the pool of {}"},
    {"disk_evicted", "evicted from the disk of {}"},
    {"removed", "removed from {}"},
    {"cleared", "cleared with its space at {}"},
    {"replaced", "replaced at {} by a page of another length"},
    {"holder_gone", "lost with the process that had it, as {} saw"},
}};

} // namespace

page_losses_told ask_losses(const discovery::view& view, const global_options& globals,
                            const page_key& key) {
  std::vector<std::optional<link::lost_report>> answers(view.members.size());
  ask_members(view.members, globals, [&](std::size_t i, client::admin_client& admin) {
    if (auto said = admin.lost_pages({&key, 1}))
      answers[i] = std::move(*said);
  });
  page_losses_told told;
  for (std::size_t i = 0; i < answers.size(); ++i) {
    const auto& name = view.members[i].name;
    if (!answers[i]) {
      told.silent.push_back(name);
      continue;
    }
    for (const auto& page : answers[i]->pages)
      if (page.prefix == key.prefix() && page.how < link::page_losses)
        told.rows.push_back({name, static_cast<link::page_loss>(page.how), page.age_ms});
  }
  std::stable_sort(told.rows.begin(), told.rows.end(),
                   [](const auto& a, const auto& b) { return a.age_ms < b.age_ms; });
  return told;
}

std::string text_of(const page_loss_row& loss) {
  const auto& says = ways[static_cast<std::size_t>(loss.how)];
  return fmt::format("{} {} ago: {}", fmt::format(fmt::runtime(says.text), loss.node),
                     human_duration(std::chrono::milliseconds(loss.age_ms)),
                     words_of_loss(loss.how, loss.age_ms).fix);
}

nlohmann::json to_json(const page_loss_row& loss) {
  return {{"node", loss.node},
          {"how", ways[static_cast<std::size_t>(loss.how)].word},
          {"age_ms", loss.age_ms}};
}

} // namespace peercache::cli
