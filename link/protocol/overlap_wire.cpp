#include "link/protocol/overlap_wire.hpp"

#include "common/byte_codec.hpp"

#include <cstring>

namespace peercache::link {
namespace {

/// The most ranks that an answer tells of: a node takes the reports of 64 clients.
constexpr std::uint32_t ranks_max = 64;

template <class Number>
void put_numbers(byte_writer& out, const std::vector<Number>& all) {
  out.number(static_cast<std::uint32_t>(all.size()));
  out.text({reinterpret_cast<const char*>(all.data()), all.size() * sizeof(Number)});
}

template <class Number>
std::vector<Number> numbers_from(byte_reader& in, std::size_t most) {
  const std::size_t count = in.number<std::uint32_t>();
  if (count > most)
    in.fail();
  const auto bytes = in.take(count * sizeof(Number));
  std::vector<Number> all(bytes.size() / sizeof(Number));
  if (!all.empty())
    std::memcpy(all.data(), bytes.data(), bytes.size());
  return all;
}

void put_text(byte_writer& out, std::string_view text) {
  out.number(static_cast<std::uint32_t>(text.size()));
  out.text(text);
}

std::string text_from(byte_reader& in) {
  return std::string(in.take(in.number<std::uint32_t>()));
}

void put_texts(byte_writer& out, const std::vector<std::string>& all) {
  out.number(static_cast<std::uint32_t>(all.size()));
  for (const auto& text : all)
    put_text(out, text);
}

/// Reads texts, each of which takes at least four bytes of what is left.
std::vector<std::string> texts_from(byte_reader& in) {
  std::vector<std::string> all;
  const auto count = in.number<std::uint32_t>();
  for (std::uint32_t i = 0; i < count && in.ok(); ++i)
    all.push_back(text_from(in));
  return all;
}

template <class Value>
void put_ranks(byte_writer& out, const std::map<std::uint32_t, Value>& ranks) {
  out.number(static_cast<std::uint32_t>(ranks.size()));
  for (const auto& [rank, value] : ranks) {
    out.number(rank);
    out.number(value);
  }
}

template <class Value>
std::map<std::uint32_t, Value> ranks_from(byte_reader& in) {
  std::map<std::uint32_t, Value> ranks;
  const auto count = in.number<std::uint32_t>();
  if (count > ranks_max)
    in.fail();
  for (std::uint32_t i = 0; i < count && in.ok(); ++i) {
    const auto rank = in.number<std::uint32_t>();
    ranks[rank] = in.number<Value>();
  }
  return ranks;
}

/// Returns `value` if the reader has read exactly all bytes; nothing when bytes were missing or are
/// left.
template <class Value>
std::optional<Value> when_finished(const byte_reader& in, Value value) {
  return in.finished() ? std::optional<Value>(std::move(value)) : std::nullopt;
}

} // namespace

std::string encode(const gpu_report& report) {
  std::string bytes;
  byte_writer out(bytes);
  out.number(report.rank);
  out.number(static_cast<std::uint8_t>(report.anew));
  put_numbers(out, report.evicted);
  put_numbers(out, report.stored);
  return bytes;
}

std::optional<gpu_report> decode_gpu_report(std::string_view bytes) {
  byte_reader in(bytes);
  gpu_report report;
  report.rank = in.number<std::uint32_t>();
  report.anew = in.number<std::uint8_t>() != 0;
  report.evicted = numbers_from<std::uint64_t>(in, gpu_report::keys_max);
  report.stored = numbers_from<std::uint64_t>(in, gpu_report::keys_max);
  return when_finished(in, std::move(report));
}

std::string encode(const gpu_question& question) {
  std::string bytes;
  byte_writer out(bytes);
  out.number(question.spaces);
  put_numbers(out, question.prefixes);
  return bytes;
}

std::optional<gpu_question> decode_gpu_question(std::string_view bytes) {
  byte_reader in(bytes);
  gpu_question question;
  question.spaces = in.number<std::uint32_t>();
  question.prefixes = numbers_from<std::uint64_t>(in, gpu_question::keys_max);
  // A question without a block could name any number of spaces, and answers take room for each.
  if (question.prefixes.empty() || question.spaces == 0 ||
      question.prefixes.size() % question.spaces != 0)
    in.fail();
  return when_finished(in, std::move(question));
}

std::string encode(const gpu_run& run) {
  std::string bytes;
  byte_writer out(bytes);
  out.number(static_cast<std::uint8_t>(run.knows_any));
  out.number(run.blocks);
  put_ranks(out, run.ranks);
  return bytes;
}

std::optional<gpu_run> decode_gpu_run(std::string_view bytes) {
  byte_reader in(bytes);
  gpu_run run;
  run.knows_any = in.number<std::uint8_t>() != 0;
  run.blocks = in.number<std::uint32_t>();
  run.ranks = ranks_from<std::uint32_t>(in);
  return when_finished(in, std::move(run));
}

std::string encode(const overlap_query& query) {
  std::string bytes;
  byte_writer out(bytes);
  out.number(query.block_tokens);
  out.number(static_cast<std::uint8_t>(query.by_tokens));
  put_text(out, query.node);
  out.number(static_cast<std::uint32_t>(query.spaces.size()));
  for (const auto& fields : query.spaces)
    put_texts(out, fields);
  put_texts(out, query.hashes);
  put_numbers(out, query.tokens);
  return bytes;
}

std::optional<overlap_query> decode_overlap_query(std::string_view bytes) {
  if (bytes.size() > overlap_query_bytes_max)
    return std::nullopt;
  byte_reader in(bytes);
  overlap_query query;
  query.block_tokens = in.number<std::uint32_t>();
  query.by_tokens = in.number<std::uint8_t>() != 0;
  query.node = text_from(in);
  const auto spaces = in.number<std::uint32_t>();
  for (std::uint32_t i = 0; i < spaces && in.ok(); ++i)
    query.spaces.push_back(texts_from(in));
  query.hashes = texts_from(in);
  query.tokens = numbers_from<std::uint32_t>(in, bytes.size());
  return when_finished(in, std::move(query));
}

std::string encode(const std::vector<overlap_match>& matches) {
  std::string bytes;
  byte_writer out(bytes);
  out.number(static_cast<std::uint32_t>(matches.size()));
  for (const auto& match : matches) {
    put_text(out, match.node);
    for (const auto tokens : {match.longest, match.gpu, match.memory, match.disk})
      out.number(tokens);
    put_ranks(out, match.gpu_by_rank);
  }
  return bytes;
}

std::optional<std::vector<overlap_match>> decode_overlap_matches(std::string_view bytes) {
  byte_reader in(bytes);
  std::vector<overlap_match> matches;
  const auto count = in.number<std::uint32_t>();
  for (std::uint32_t i = 0; i < count && in.ok(); ++i) {
    auto& match = matches.emplace_back();
    match.node = text_from(in);
    for (auto* tokens : {&match.longest, &match.gpu, &match.memory, &match.disk})
      *tokens = in.number<std::uint64_t>();
    match.gpu_by_rank = ranks_from<std::uint64_t>(in);
  }
  return when_finished(in, std::move(matches));
}

} // namespace peercache::link
