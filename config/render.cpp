#include "config/render.hpp"

#include "common/printable.hpp"

#include <algorithm>
#include <optional>

namespace peercache::config {
namespace {

std::string bounds_of(const option& opt) {
  if (!opt.bounded())
    return {};
  return value_text(opt, opt.min) + " to " + value_text(opt, opt.max);
}

/// An option's default as text; for an empty default, what emptiness stands for.
std::string default_of(const option& opt) {
  auto text = value_text(opt, opt.default_value);
  if (!text.empty())
    return text;
  return opt.empty_means.empty() ? "none" : std::string(opt.empty_means);
}

/// Writes the head of a TOML table if `opt` is not in the section `current`, which it updates.
void start_section(const option& opt, std::string_view& current, std::string& out) {
  if (opt.section() == current)
    return;
  current = opt.section();
  out += "\n[" + std::string(current) + "]\n";
}

/// Breaks a sentence into TOML comment lines of at most 100 characters.
std::string comment(std::string_view text) {
  constexpr std::size_t line_chars_max = 98;
  std::string out;
  while (!text.empty()) {
    auto length = std::min(text.size(), line_chars_max);
    if (length < text.size())
      if (const auto space = text.rfind(' ', length); space != std::string_view::npos && space > 0)
        length = space;
    out += "# " + std::string(text.substr(0, length)) + '\n';
    text.remove_prefix(std::min(text.size(), length + 1));
  }
  return out;
}

/// Escapes the text of a table cell: a bare `|` would end the cell.
std::string cell(std::string_view text) {
  std::string out;
  for (char c : text) {
    if (c == '|')
      out += '\\';
    out += c;
  }
  return out;
}

std::string title_of(std::string_view section) {
  return section.empty() ? "Top level" : '[' + std::string(section) + ']';
}

constexpr std::string_view introduction = R"(# Configuration

<!-- Generated from the option table (config/*options.cpp) by peercache_config_docs; a test compares it. Do not edit. -->

Every option can be set in four places. The first that sets it wins:

1. a flag on the command line: `--pool-size 64GiB`
2. an environment variable: `PEERCACHE_POOL_SIZE=64GiB`
3. the configuration file (TOML), under its section: `[pool]`, then `size = "64GiB"`
4. the default

The flag of `pool.size` is `--pool-size`, its variable is `PEERCACHE_POOL_SIZE`, and so for every option: dots and
underscores become dashes in flags, dots become underscores in variables. `peercache-node --print-config` prints every
value in force and where it was set; `peercache-node --check-config` only checks. Unknown options and values of the wrong
form are errors that name the place and the nearest option. `config/peercache.toml` lists all options with their defaults.

Every `PEERCACHE_*` variable must be that of an option, but for these:

| variable | meaning |
|---|---|
| `PEERCACHE_CONFIG` | path of the configuration file, where `--config` names none |
| `PEERCACHE_TEST_*` | switches of test programs; the programs that are installed do not look at them |
| `PEERCACHE_PORT`, `PEERCACHE_SERVICE_HOST`, `PEERCACHE_PORT_31998_TCP`, ... | set by Kubernetes for a service called `peercache...`: ignored, with a warning |

`peercache`, the command line, takes `client.node_host`, `client.node_port`, `client.timeout`, `cluster.name` and `tls.*`
from the same file and variables, and where the first two are not set `net.advertise` or `net.bind`, and
`net.control_port`: the node of this host. Its own flags `--node`, `--timeout`, `--cluster`, `--tls-cert`, `--tls-key` and
`--tls-ca` win over them.

| form | examples | meaning |
|---|---|---|
| SIZE | `64GiB`, `500MB`, `4k`, `4096` | 1 KiB = 1024 bytes, 1 k = 1 kB = 1000 bytes; without a unit: bytes |
| DURATION | `500ms`, `2s`, `5m`, `1h` | a unit is required |
| FRACTION | `0.02` | of the whole |
| HOST:PORT,... | `host1:31998,[fd00::1]:31998` | in the file a list: `["host1:31998", "[fd00::1]:31998"]` |
| true\|false | `--dev`, `--no-dev`, `--dev=false` | in variables also `yes`, `no`, `on`, `off`, `1`, `0` |

Repeated flags: the last one wins, except for lists, which grow.
)";

constexpr std::string_view file_head = R"(# PeerCache: every option with its default.
# Generated from the option table (config/*options.cpp) by peercache_config_docs; a test compares it.
# Remove the leading # of a line to set it. Flags (--pool-size) and environment variables
# (PEERCACHE_POOL_SIZE) win over this file; `peercache-node --print-config` shows what is in force.

)";

} // namespace

std::string form_of(const option& opt) {
  switch (opt.type) {
  case option_type::boolean:
    return "true|false";
  case option_type::integer:
    return "NUMBER";
  case option_type::size:
    return "SIZE";
  case option_type::duration:
    return "DURATION";
  case option_type::fraction:
    return "FRACTION";
  case option_type::text:
    return "TEXT";
  case option_type::endpoints:
    return "HOST:PORT,...";
  case option_type::names:
    return "NAME,...";
  case option_type::choice: {
    std::string words;
    for (auto word : opt.choices)
      words += (words.empty() ? "" : "|") + std::string(word);
    return words;
  }
  }
  return {};
}

std::string help_text(const option& opt) {
  std::string text{opt.meaning};
  if (opt.bounded())
    text += " " + bounds_of(opt) + ";";
  text += " [default: " + default_of(opt);
  if (opt.dev_default)
    text += "; with --dev: " + value_text(opt, *opt.dev_default);
  return text + "]";
}

std::string render_effective(const loaded_config& loaded) {
  std::string out = "# The configuration in force, and where each value was set.\n";
  std::string_view section;
  for (const auto& entry : loaded.values) {
    start_section(*entry.opt, section, out);
    out += std::string(entry.opt->key()) + " = " + value_toml(*entry.opt, entry.value) + "  # " +
           // A path may hold characters that a comment of TOML must not hold.
           printable(to_string(entry.from)) + '\n';
  }
  return out;
}

std::string render_default_file() {
  std::string out{file_head};
  std::string_view section;
  bool first = true;
  for (const auto& opt : options()) {
    const bool new_section = opt.section() != section;
    start_section(opt, section, out);
    if (!first && !new_section)
      out += '\n';
    first = false;
    out += comment(opt.meaning);
    std::string facts = form_of(opt);
    if (opt.bounded())
      facts += ", " + bounds_of(opt);
    if (!opt.empty_means.empty())
      facts += ", empty: " + std::string(opt.empty_means);
    if (opt.dev_default)
      facts += ", with dev: " + value_text(opt, *opt.dev_default);
    out += comment(facts);
    out += '#' + std::string(opt.key()) + " = " + value_toml(opt, opt.default_value) + '\n';
  }
  return out;
}

std::string render_documentation() {
  std::string out{introduction};
  std::optional<std::string_view> section;
  for (const auto& opt : options()) {
    if (section != opt.section()) {
      section = opt.section();
      out += "\n## " + title_of(*section) +
             "\n\n| option | form | default | bounds | meaning |\n|---|---|---|---|---|\n";
    }
    out +=
        "| `" + std::string(opt.name) + "` | " + cell(form_of(opt)) + " | " + cell(default_of(opt));
    if (opt.dev_default)
      out += "; with `dev`: " + value_text(opt, *opt.dev_default);
    out += " | " + bounds_of(opt) + " | " + cell(opt.meaning) + " |\n";
  }
  return out;
}

} // namespace peercache::config
