#include "config/load.hpp"

#include "common/assert.hpp"
#include "config/suggestion.hpp"
#include "config/toml_file.hpp"
#include "config/validate.hpp"

#include <algorithm>

namespace peercache::config {
namespace {

std::string quoted_name(std::string_view name) {
  return '`' + std::string(name) + '`';
}

constexpr std::string_view variable_prefix = "PEERCACHE_";

/// Whether the variable begins with PEERCACHE_ but is not an option: the path of the configuration
/// file, or a switch of test programs.
bool is_no_option(std::string_view variable) {
  return variable == "PEERCACHE_CONFIG" || variable.starts_with("PEERCACHE_TEST_");
}

/// Whether Kubernetes has set this variable, as it does in every pod of a namespace with a service
/// whose name begins with "peercache": PEERCACHE_SERVICE_HOST, PEERCACHE_SERVICE_PORT_HTTP,
/// PEERCACHE_PORT=tcp://…, PEERCACHE_PORT_31998_TCP_ADDR. No node could start in such a pod if
/// these variables were errors.
bool is_of_a_service(std::string_view variable, std::string_view text) {
  // `name` keeps the underscore that the prefix ends with, so that the variables of a service
  // called just "peercache" match like those of all others.
  const auto name = variable.substr(variable_prefix.size() - 1);
  const auto has = [name](std::string_view part) {
    return name.find(part) != std::string_view::npos;
  };
  const bool port = name.ends_with("_PORT") && text.find("://") != std::string_view::npos;
  const bool protocol = has("_TCP") || has("_UDP") || has("_SCTP");
  return port || name.ends_with("_SERVICE_HOST") || name.ends_with("_SERVICE_PORT") ||
         has("_SERVICE_PORT_") || (has("_PORT_") && protocol);
}

/// Merges the sources of the configuration one after the other, weakest first, and collects what is
/// wrong with their values.
class merger {
public:
  merger() {
    for (const auto& opt : options())
      merged_.values.push_back({&opt, opt.default_value, {}});
  }

  void take_file(const file_source& file);
  void take_environment(const std::map<std::string, std::string>& environment);
  void take_flags(const std::vector<given_flag>& flags);
  void derive(const std::string& host_name);
  result<loaded_config> finish();

private:
  effective_value& at(std::string_view name) {
    return const_cast<effective_value&>(merged_.value_of(name));
  }
  void take_entry(const std::string& path, const toml_entry& entry);
  void take_unknown_variable(const std::string& variable);
  void set(const option& opt, result<option_value> value, origin from, const std::string& place);
  /// If option `name` is an empty text, sets it to `text`, which is what an empty text means; if it
  /// was the default, its origin becomes `why`.
  void fill(std::string_view name, const std::string& text, const char* why);

  loaded_config merged_;
  std::vector<std::string> faults_;
};

void merger::set(const option& opt, result<option_value> value, origin from,
                 const std::string& place) {
  if (!value) {
    faults_.push_back(place + ": " + quoted_name(opt.name) + ": " + value.error().message);
    return;
  }
  auto& entry = at(opt.name);
  entry.value = *std::move(value);
  entry.from = std::move(from);
}

void merger::take_entry(const std::string& path, const toml_entry& entry) {
  const std::string place =
      path + ':' + std::to_string(entry.line) + ':' + std::to_string(entry.column);
  if (const auto* opt = find_option(entry.name)) {
    set(*opt, value_from_toml(*opt, entry.value), {origin_kind::file, place}, place);
    return;
  }
  const auto& table = options();
  const bool section = std::any_of(table.begin(), table.end(),
                                   [&](const option& opt) { return opt.section() == entry.name; });
  const auto* foreign = std::get_if<foreign_toml>(&entry.value);
  if (section && foreign != nullptr && foreign->type == "a table")
    return; // An empty table is the section "[pool]" with every line commented out: no fault.
  if (section)
    faults_.push_back(place + ": " + quoted_name(entry.name) + " is a section: write [" +
                      entry.name + "] and its options below");
  else
    faults_.push_back(place + ": unknown option " + quoted_name(entry.name) +
                      name_hint(entry.name));
}

void merger::take_file(const file_source& file) {
  if (file.content.size() > config_file_bytes_max) {
    faults_.push_back(file.path + ": the file has " + std::to_string(file.content.size()) +
                      " bytes; at most " + std::to_string(config_file_bytes_max) +
                      " are read: is this the right file?");
    return;
  }
  auto entries = read_toml(file.content, file.path);
  if (!entries) {
    faults_.push_back(entries.error().message);
    return;
  }
  for (const auto& entry : *entries)
    take_entry(file.path, entry);
}

/// Returns, for an error message, the variables that a user probably meant by `variable`: all that
/// end with its words, since people forget the section; otherwise the one with the nearest name.
std::string meant_by(std::string_view variable) {
  const auto word = variable.substr(variable_prefix.size());
  // The names are compared without the prefix, which would make all variables near to each other.
  std::vector<std::string> words;
  std::string ending_alike;
  for (const auto& opt : options()) {
    words.push_back(opt.variable().substr(variable_prefix.size()));
    if (!word.empty() && words.back().ends_with('_' + std::string(word)))
      ending_alike += (ending_alike.empty() ? "" : " or ") + quoted_name(opt.variable());
  }
  if (!ending_alike.empty())
    return ending_alike;
  const auto near = closest(word, words);
  return near ? quoted_name(std::string(variable_prefix) + *near) : "";
}

void merger::take_unknown_variable(const std::string& variable) {
  const auto meant = meant_by(variable);
  faults_.push_back("environment: unknown variable " + quoted_name(variable) +
                    (meant.empty() ? "; unset it, `peercache-node --help` lists the options"
                                   : " (did you mean " + meant + "?)"));
}

void merger::take_environment(const std::map<std::string, std::string>& environment) {
  std::string of_services;
  for (const auto& [variable, text] : environment) {
    if (!variable.starts_with(variable_prefix) || is_no_option(variable))
      continue;
    const auto& table = options();
    const auto opt = std::find_if(table.begin(), table.end(), [&name = variable](const option& x) {
      return x.variable() == name;
    });
    if (opt != table.end())
      set(*opt, value_from_text(*opt, text), {origin_kind::environment, variable},
          "environment variable " + variable);
    else if (is_of_a_service(variable, text))
      of_services += (of_services.empty() ? "" : ", ") + variable;
    else
      take_unknown_variable(variable);
  }
  if (!of_services.empty())
    merged_.warnings.push_back("variables of a Kubernetes service are not ours and are ignored: " +
                               of_services);
}

void merger::take_flags(const std::vector<given_flag>& flags) {
  for (const auto& given : flags) {
    const auto* opt = find_option(given.name);
    // The option exists, since the flags were made from the option table.
    PEERCACHE_ASSERT(opt != nullptr);
    set(*opt, value_from_text(*opt, given.text), {origin_kind::flag, opt->flag()}, opt->flag());
  }
}

void merger::fill(std::string_view name, const std::string& text, const char* why) {
  auto& entry = at(name);
  if (!std::get<std::string>(entry.value).empty())
    return;
  entry.value = text;
  if (entry.from.kind == origin_kind::default_value)
    entry.from.where = why;
}

void merger::derive(const std::string& host_name) {
  if (std::get<bool>(at("dev").value)) {
    for (auto& entry : merged_.values) {
      if (entry.from.kind == origin_kind::default_value && entry.opt->dev_default) {
        entry.value = *entry.opt->dev_default;
        entry.from.where = "of dev";
      }
    }
  }
  const auto bind = std::get<std::string>(at("net.bind").value);
  fill("node.name", host_name, "host name");
  fill("net.advertise", bind, "net.bind");
  fill("metrics.bind", bind, "net.bind");
}

result<loaded_config> merger::finish() {
  if (!faults_.empty())
    return joined_faults(faults_);
  for (const auto& entry : merged_.values)
    entry.opt->store(merged_.config, entry.value);
  return std::move(merged_);
}

} // namespace

std::string to_string(const origin& from) {
  switch (from.kind) {
  case origin_kind::default_value:
    return from.where.empty() ? "default" : "default (" + from.where + ")";
  case origin_kind::file:
    return "file " + from.where;
  case origin_kind::environment:
    return "environment " + from.where;
  case origin_kind::flag:
    return "flag " + from.where;
  }
  return {};
}

const effective_value& loaded_config::value_of(std::string_view name) const {
  const auto found = std::find_if(values.begin(), values.end(),
                                  [name](const effective_value& x) { return x.opt->name == name; });
  PEERCACHE_ASSERT(found != values.end());
  return *found;
}

result<loaded_config> merge_sources(const sources& from) {
  merger all;
  if (from.file)
    all.take_file(*from.file);
  all.take_environment(from.environment);
  all.take_flags(from.flags);
  all.derive(from.host_name);
  return all.finish();
}

result<loaded_config> load(const sources& from) {
  auto merged = merge_sources(from);
  if (!merged)
    return merged;
  if (auto valid = validate(*merged); !valid)
    return valid.error();
  return merged;
}

} // namespace peercache::config
