#include "tests/scenario/script.hpp"

#include <algorithm>
#include <charconv>
#include <map>
#include <sstream>

namespace peercache::scenario {
namespace {

using std::chrono::duration_cast;
using std::chrono::microseconds;

template <class Number>
bool parse_number(const std::string& text, Number& out) {
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  return error == std::errc{} && end == text.data() + text.size();
}

/// Verbs with their smallest number of arguments; an unknown verb is a fault of the file.
const std::map<std::string, std::size_t, std::less<>> verbs = {
    {"kill", 1},  {"restart", 1}, {"freeze", 1}, {"thaw", 1},  {"split", 1},
    {"cut", 2},   {"deaf", 1},    {"mute", 1},   {"mend", 0},  {"slow", 2},
    {"loss", 1},  {"repeat", 1},  {"join", 1},   {"leave", 1}, {"jump", 2},
    {"drain", 1}, {"undrain", 1}, {"mark", 0},   {"quiet", 0}, {"expect", 2}};

bool take_step(const std::vector<std::string>& words, script& to) {
  if (words.size() < 3)
    return false;
  auto when = parse_duration(words[1]);
  auto verb = verbs.find(words[2]);
  if (!when || verb == verbs.end() || words.size() - 3 < verb->second)
    return false;
  to.steps.push_back({*when, words[2], {words.begin() + 3, words.end()}});
  return true;
}

bool take_setting(const std::vector<std::string>& words, script& to) {
  const auto& name = words[0];
  if (words.size() < 2)
    return false;
  const std::map<std::string, std::uint32_t*> numbers = {{"nodes", &to.nodes},
                                                         {"masters", &to.masters},
                                                         {"replicas", &to.replicas},
                                                         {"granules", &to.granules},
                                                         {"operations", &to.operations_per_second},
                                                         {"republish", &to.republish},
                                                         {"waiting", &to.waiting_max},
                                                         {"disk_pages", &to.disk_pages},
                                                         {"keys", &to.keys}};
  if (auto number = numbers.find(name); number != numbers.end())
    return parse_number(words[1], *number->second) && *number->second > 0;
  if (name == "seed")
    return parse_number(words[1], to.seed);
  if (name == "events")
    return parse_number(words[1], to.events_max);
  const std::map<std::string, std::vector<std::string>*> names = {
      {"seeds", &to.seeds}, {"lost", &to.lost}, {"apart", &to.apart}};
  if (auto list = names.find(name); list != names.end()) {
    list->second->assign(words.begin() + 1, words.end());
    return true;
  }
  const std::map<std::string, bool*> switches = {
      {"disk", &to.disk}, {"repair", &to.repair}, {"overtaking", &to.overtaking}};
  if (auto either = switches.find(name); either != switches.end()) {
    *either->second = words[1] == "on";
    return true;
  }
  auto run = parse_duration(words[1]);
  to.run = run.value_or(to.run);
  return name == "run" && run;
}

} // namespace

std::optional<duration> parse_duration(std::string_view text) {
  double scale = 1e6;
  if (text.ends_with("ms")) {
    scale = 1e3;
    text.remove_suffix(2);
  } else if (text.ends_with("s")) {
    text.remove_suffix(1);
  } else {
    return std::nullopt;
  }
  double value = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || value < 0)
    return std::nullopt;
  return microseconds(static_cast<std::int64_t>(value * scale));
}

std::string to_text(duration value) {
  return std::to_string(duration_cast<std::chrono::milliseconds>(value).count()) + "ms";
}

std::optional<script> parse_script(std::string_view text, std::string& fault) {
  script parsed;
  std::istringstream lines{std::string(text)};
  std::string line;
  for (int number = 1; std::getline(lines, line); ++number) {
    std::istringstream in(line.substr(0, line.find('#')));
    std::vector<std::string> words;
    for (std::string word; in >> word;)
      words.push_back(word);
    if (words.empty())
      continue;
    if (words[0] == "at" ? take_step(words, parsed) : take_setting(words, parsed))
      continue;
    fault = "line " + std::to_string(number) + ": " + line;
    return std::nullopt;
  }
  std::stable_sort(parsed.steps.begin(), parsed.steps.end(),
                   [](const step& a, const step& b) { return a.when < b.when; });
  return parsed;
}

std::string to_text(const script& what) {
  std::ostringstream out;
  out << "seed " << what.seed << "\nnodes " << what.nodes << "\nseeds";
  for (const auto& seed : what.seeds)
    out << ' ' << seed;
  out << "\nmasters " << what.masters << "\nreplicas " << what.replicas << "\ngranules "
      << what.granules << "\nkeys " << what.keys << "\ndisk " << (what.disk ? "on" : "off")
      << "\nrepair " << (what.repair ? "on" : "off") << "\novertaking "
      << (what.overtaking ? "on" : "off") << "\nrepublish " << what.republish << "\nwaiting "
      << what.waiting_max << "\ndisk_pages " << what.disk_pages << "\noperations "
      << what.operations_per_second << "\nevents " << what.events_max << "\nrun "
      << to_text(what.run) << '\n';
  for (const auto& [word, names] : {std::pair("lost", &what.lost), std::pair("apart", &what.apart)})
    if (!names->empty()) {
      out << word;
      for (const auto& name : *names)
        out << ' ' << name;
      out << '\n';
    }
  for (const auto& one : what.steps) {
    out << "at " << to_text(one.when) << ' ' << one.verb;
    for (const auto& argument : one.arguments)
      out << ' ' << argument;
    out << '\n';
  }
  return out.str();
}

} // namespace peercache::scenario
