#pragma once

#include "client/admin_client.hpp"
#include "common/page_status.hpp"

#include <map>
#include <string>

namespace peercache::cli {

/// A cause of misses in words: its name, what happened, and what to do.
struct worded_cause {
  std::string cause, detail, fix;
};

/// The cause of a page that exists or get did not find for a reason other than `not_found`.
worded_cause words_of_status(page_status status);
/// The cause of a page that set refused before it was asked for.
worded_cause words_of_refusal(page_status status);
/// The cause of a page that left a node `ms` before it was asked for.
worded_cause words_of_loss(link::page_loss how, std::uint64_t ms);
/// The cause of a page that nobody has stored. @param stores_others whether somebody stores other
/// pages of the space
worded_cause words_of_unstored(const std::map<std::string, std::string>& facts, bool stores_others);
/// The cause of a page for which the directory did not answer.
worded_cause words_of_unknown();
/// The cause of pages that an engine's connector called missing without asking the cache, by the
/// connector's reason "NAME: detail".
worded_cause words_of_unasked(const std::string& reason);
/// Why pages are stored in a space and nobody asks for any.
worded_cause words_of_never_asked(const std::string& door);

} // namespace peercache::cli
