#include "actors/life_record.hpp"

#include "common/assert.hpp"

#include <algorithm>
#include <set>

namespace peercache::actors {

void life_record::join(const life_record& other) {
  // Records of two different lineages are of two clusters: the merged record has none, so only the
  // nodes that were left behind can tell what was missed.
  if (lineage != other.lineage && lineage != incarnation{} && other.lineage != incarnation{})
    lineage = {};
  else
    join_lineage(other.lineage);
  if (process == incarnation{})
    process = other.process;
  left_behind.insert(other.left_behind.begin(), other.left_behind.end());
}

void life_record::join_lineage(const incarnation& other) {
  if (lineage == incarnation{} || (other != incarnation{} && other < lineage))
    lineage = other;
}

std::string life_record::names() const {
  std::set<std::string> sorted;
  for (const auto& [process, name] : left_behind)
    sorted.insert(name);
  std::string text;
  for (const auto& name : sorted)
    text += (text.empty() ? "" : ", ") + name;
  return text;
}

life_record record_of_unknown() {
  life_record record;
  record.left_behind[{}] = "nodes that it cannot name";
  return record;
}

std::string encode_record(const life_record& record) {
  std::string bytes;
  byte_writer out(bytes);
  out.id(record.lineage);
  out.id(record.process);
  out.number(static_cast<std::uint32_t>(record.left_behind.size()));
  for (const auto& [process, name] : record.left_behind) {
    out.id(process);
    out.short_text(name);
  }
  return bytes;
}

std::string encode_record(const life_record& record, std::size_t bytes_max) {
  auto bytes = encode_record(record);
  if (bytes.size() <= bytes_max)
    return bytes;
  auto shorter = record_of_unknown();
  shorter.lineage = record.lineage;
  shorter.process = record.process;
  bytes = encode_record(shorter);
  PEERCACHE_ASSERT(bytes.size() <= bytes_max);
  return bytes;
}

life_record read_record(byte_reader& in) {
  life_record record;
  record.lineage = in.id();
  record.process = in.id();
  for (auto left = in.number<std::uint32_t>(); left > 0 && in.ok(); --left) {
    const auto process = in.id();
    record.left_behind[process] = in.short_text();
  }
  return record;
}

} // namespace peercache::actors
