#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace peercache::cli {

/// What stands in the place of a secret.
inline constexpr const char* redacted = "(left out)";

/// Replaces each of the secrets, wherever a string or a key of the document has it; empty secrets
/// are skipped. Longer secrets go first, so that none shows through another one.
nlohmann::json redact(const nlohmann::json& document, std::vector<std::string> secrets);

} // namespace peercache::cli
