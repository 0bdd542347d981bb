#include "actors/overlap/overlap_json.hpp"

#include <fmt/format.h>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>
#include <vector>

namespace peercache::actors {

using nlohmann::json;

namespace {

/// How deep values may be nested in those fields of a query that are skipped.
constexpr int overlap_depth_max = 8;

error wrong_query(std::string what) {
  return {errc::invalid_argument, std::move(what)};
}

/// Reads a query value by value, without building a tree: a query has tens of thousands of values.
/// Fields of unknown names are skipped.
class overlap_reader : public nlohmann::json_sax<json> {
public:
  std::string tenant = "default", node, texts; ///< `texts`: all hashes, one after the other.
  std::vector<std::uint32_t> ends;             ///< The end of each hash in `texts`.
  std::vector<std::uint32_t> tokens;
  std::vector<key_space> spaces;
  std::uint64_t block_tokens = 0;
  bool has_hashes = false, has_tokens = false;
  std::string fault; ///< What is wrong with the query; empty: nothing.

  bool null() override { return is_list() ? refuse("a null in a list") : true; }
  bool boolean(bool) override { return is_known() ? refuse("true or false in " + field_) : true; }
  bool number_integer(std::int64_t) override { return no_number(); }
  bool number_float(double, const std::string&) override { return no_number(); }
  bool number_unsigned(std::uint64_t value) override;
  bool string(std::string& value) override;
  bool binary(json::binary_t&) override { return false; }
  bool key(std::string& name) override;
  bool start_object(std::size_t) override;
  bool end_object() override { return --depth_ >= 0; }
  bool start_array(std::size_t) override;
  bool end_array() override;
  bool parse_error(std::size_t, const std::string&, const nlohmann::detail::exception&) override {
    fault = "the body is not JSON";
    return false;
  }

private:
  bool refuse(std::string why) {
    fault = std::move(why);
    return false;
  }
  bool is_hashes() const { return field_ == "seq_hashes" || field_ == "block_hash"; }
  bool is_list() const { return is_hashes() || field_ == "token_ids" || field_ == "namespaces"; }
  bool is_known() const {
    return is_list() || field_ == "block_size" || field_ == "tenant_id" || field_ == "instance_id";
  }
  bool no_number() {
    return is_known() ? refuse(field_ + " has a number that it does not take") : true;
  }

  int depth_ = 0;
  std::string field_; ///< The field of the query whose value is being read.
  std::vector<std::string> space_;
};

bool overlap_reader::key(std::string& name) {
  if (depth_ == 1)
    field_ = name;
  return true;
}

bool overlap_reader::start_object(std::size_t) {
  if (depth_ > 0 && is_known())
    return refuse(field_ + " is an object");
  return ++depth_ <= overlap_depth_max || refuse("the body is nested too deeply");
}

bool overlap_reader::start_array(std::size_t) {
  ++depth_;
  if (depth_ == 1)
    return refuse("the body is not a JSON object");
  const int deepest = !is_known() ? overlap_depth_max : field_ == "namespaces" ? 3 : 2;
  if (depth_ > deepest || (is_known() && !is_list()))
    return refuse(field_ + " has a list where it takes none");
  has_hashes = has_hashes || is_hashes();
  has_tokens = has_tokens || field_ == "token_ids";
  return true;
}

bool overlap_reader::end_array() {
  if (depth_ == 3 && field_ == "namespaces") {
    if (spaces.size() == overlap_spaces_max)
      return refuse(fmt::format("more than {} key spaces", overlap_spaces_max));
    const std::vector<std::string_view> fields(space_.begin(), space_.end());
    spaces.emplace_back(fields);
    space_.clear();
  }
  return --depth_ >= 0;
}

bool overlap_reader::number_unsigned(std::uint64_t value) {
  if (depth_ == 1 && field_ == "block_size") {
    block_tokens = value;
    return true;
  }
  if (field_ != "token_ids" || depth_ != 2)
    return no_number();
  if (value > std::numeric_limits<std::uint32_t>::max())
    return refuse("a token id has more than 32 bits");
  tokens.push_back(static_cast<std::uint32_t>(value));
  return true;
}

bool overlap_reader::string(std::string& value) {
  if (depth_ == 2 && is_hashes()) {
    texts += value;
    ends.push_back(static_cast<std::uint32_t>(texts.size()));
  } else if (depth_ == 3 && field_ == "namespaces") {
    if (space_.size() == overlap_fields_max)
      return refuse(fmt::format("a key space of more than {} fields", overlap_fields_max));
    space_.push_back(value);
  } else if (depth_ == 1 && field_ == "tenant_id") {
    tenant = value;
  } else if (depth_ == 1 && field_ == "instance_id") {
    node = value;
  } else if (is_known()) {
    return refuse(field_ + " has a text that it does not take");
  }
  return true;
}

/// What a query lacks, or has too much of; nothing when it can be asked.
std::optional<std::string> query_fault_of(const overlap_reader& read, bool by_hash) {
  const auto blocks =
      by_hash || read.block_tokens == 0 ? read.ends.size() : read.tokens.size() / read.block_tokens;
  if (auto fault = overlap_size_fault(read.block_tokens, read.spaces.size(), blocks))
    return fault;
  if (by_hash ? !read.has_hashes : !read.has_tokens)
    return by_hash ? "seq_hashes: a list of texts is needed"
                   : "token_ids: a list of numbers is needed";
  return std::nullopt;
}

} // namespace

result<overlap_question> parse_overlap(std::string_view text, bool by_hash) {
  overlap_reader read;
  if (!json::sax_parse(text.begin(), text.end(), &read) && read.fault.empty())
    read.fault = "the body is not a JSON object";
  if (!read.fault.empty())
    return wrong_query(std::move(read.fault));
  if (auto fault = query_fault_of(read, by_hash))
    return wrong_query(*std::move(fault));
  overlap_question question;
  question.spaces = static_cast<std::uint32_t>(read.spaces.size());
  question.block_tokens = static_cast<std::uint32_t>(read.block_tokens);
  question.tenant = std::move(read.tenant);
  question.node = std::move(read.node);
  if (by_hash) {
    question.keys.reserve(read.ends.size() * read.spaces.size());
    std::uint32_t from = 0;
    for (const auto end : read.ends) {
      add_block(question, read.spaces, std::string_view(read.texts).substr(from, end - from));
      from = end;
    }
    return question;
  }
  for (const auto& hash : sglang_page_hashes(read.tokens, question.block_tokens))
    add_block(question, read.spaces, hash);
  return question;
}

std::string overlap_json(const overlap_question& asked, std::span<const node_overlap> found,
                         const discovery::view& view) {
  auto nodes = json::object();
  for (const auto& match : matches_of(asked, found, view)) {
    auto ranks = json::object();
    for (const auto& [rank, tokens] : match.gpu_by_rank)
      ranks[std::to_string(rank)] = tokens;
    nodes[match.node] = {{"longest_matched", match.longest},
                         {"GPU", match.gpu},
                         {"DP", std::move(ranks)},
                         {"CPU", match.memory},
                         {"DISK", match.disk}};
  }
  const json all{{asked.tenant, std::move(nodes)}};
  return all.dump(-1, ' ', false, json::error_handler_t::replace);
}

} // namespace peercache::actors
