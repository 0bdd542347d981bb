#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace peercache::cli {

/// The text that stands in the place of a secret.
inline constexpr const char* redacted = "(left out)";

/// Replaces each of the secrets, wherever a string of the document has it as a word of its own, and
/// not within a longer one; names of members stay. Empty secrets are skipped. Longer secrets go
/// first, so that none shows through another one.
nlohmann::json redact(const nlohmann::json& document, std::vector<std::string> secrets);

/// The names in the strings of the document that stand in quotes behind the word "cluster", as in
/// PeerCache's messages about nodes and folders of other clusters.
std::vector<std::string> cluster_names_in(const nlohmann::json& document);

} // namespace peercache::cli
