#include "config/cli_options.hpp"

#include "config/render.hpp"

#include <CLI/CLI.hpp>

#include <algorithm>

namespace peercache::config {
namespace {

bool wanted(const option& opt, std::span<const std::string_view> prefixes) {
  return prefixes.empty() ||
         std::any_of(prefixes.begin(), prefixes.end(),
                     [&](std::string_view prefix) { return opt.name.starts_with(prefix); });
}

CLI::Option* add_switch(CLI::App& app, const option& opt) {
  const auto flag = opt.flag();
  const auto help = help_text(opt); // A temporary would select another overload of `add_flag`.
  auto* added = app.add_flag(flag + ",!--no-" + flag.substr(2), help);
  return added->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
}

CLI::Option* add_valued(CLI::App& app, const option& opt) {
  const bool list = is_list(opt.type);
  const auto help = help_text(opt);
  auto* added = app.add_option(opt.flag(), help);
  added->type_name(form_of(opt))
      ->expected(1)
      ->multi_option_policy(list ? CLI::MultiOptionPolicy::TakeAll
                                 : CLI::MultiOptionPolicy::TakeLast);
  return added;
}

} // namespace

cli_options::cli_options(CLI::App& app, std::span<const std::string_view> prefixes) {
  for (const auto& opt : options()) {
    if (!wanted(opt, prefixes))
      continue;
    auto* added = opt.type == option_type::boolean ? add_switch(app, opt) : add_valued(app, opt);
    if (!opt.section().empty())
      added->group("[" + std::string(opt.section()) + "]");
    added_.emplace_back(&opt, added);
  }
}

std::vector<given_flag> cli_options::given() const {
  std::vector<given_flag> flags;
  for (const auto& [opt, added] : added_) {
    if (added->count() == 0)
      continue;
    const auto& texts = added->results();
    std::string text = texts.back();
    if (is_list(opt->type))
      for (auto earlier = std::next(texts.rbegin()); earlier != texts.rend(); ++earlier)
        text = *earlier + ',' + text;
    flags.push_back({std::string(opt->name), std::move(text)});
  }
  return flags;
}

} // namespace peercache::config
