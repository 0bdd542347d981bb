#pragma once

#include <span>
#include <string>
#include <string_view>

namespace CLI {
class App;
} // namespace CLI

namespace peercache::cli {

/// The manual page (section 1, man(7) macros) of a program: its commands and options as its help
/// has them, and the examples of `examples()` for commands that have some. Threads: none.
/// @param description Paragraphs about the program as a whole, plain text.
/// @param also Other pages, such as "peercache-node(1)".
std::string manual_of(const CLI::App& app, std::span<const std::string_view> description,
                      std::string_view also);

/// The whole of docs/cli.md: every command with one sentence, and the examples.
std::string cli_document(const CLI::App& app);

} // namespace peercache::cli
