#include "host_reader.hpp"

#include "bench/page_content.hpp"

#include <algorithm>

namespace peercache::chaos {

namespace {

constexpr std::chrono::milliseconds call_deadline{1000};
constexpr std::size_t pages_per_call = 16;

} // namespace

client::cache_client* heal_check::host_reader::client() {
  if (client_)
    return client_.get();
  client::client_options options;
  options.node_host = host_;
  options.node_port = chaos_cluster::control_port;
  options.cluster = cluster_;
  options.tls = tls_;
  options.timeout = call_deadline;
  auto connected = client::cache_client::connect(options);
  if (connected)
    client_ = std::move(*connected);
  return client_.get();
}

void heal_check::host_reader::read(std::span<const std::uint32_t> ids,
                                   const std::vector<page_key>& keys, page_ids& missing) {
  std::vector<std::vector<std::byte>> memory;
  std::vector<page_part> parts;
  std::vector<client::get_page> pages;
  std::vector<client::page_result> results(ids.size());
  for (auto id : ids) {
    auto& page = memory.emplace_back(page_bytes_of(plan_.load, id), std::byte{0xa5});
    parts.push_back({page.data(), static_cast<std::uint32_t>(page.size())});
  }
  for (std::size_t i = 0; i < ids.size(); ++i)
    pages.push_back({keys[ids[i]], {&parts[i], 1}});
  const auto before = stress::thread_times::now();
  auto begin = clock::now();
  auto until = begin + call_deadline;
  client_->get(pages, results, until);
  const auto call = ledger_.note_call("get", host_, begin, until, before);
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (results[i].status != page_status::hit) {
      missing.push_back(ids[i]);
      continue;
    }
    if (ledger_.record != nullptr)
      ledger_.record->hit(call, keys[ids[i]], memory[i], "-");
    auto found = bench::check_page(ids[i], memory[i]);
    if (found.wrong_bytes != 0)
      ledger_.report_wrong(ids[i], found, found.wrong_bytes, results[i].origin);
  }
}

heal_check::page_ids heal_check::host_reader::unreadable(const page_ids& ids,
                                                         const std::vector<page_key>& keys) {
  if (client() == nullptr)
    return ids;
  page_ids missing;
  for (std::size_t i = 0; i < ids.size(); i += pages_per_call)
    read({ids.data() + i, std::min(pages_per_call, ids.size() - i)}, keys, missing);
  return missing;
}

std::vector<std::vector<directory::page_location>>
heal_check::host_reader::locate(std::span<const page_key> keys) {
  std::vector<std::vector<directory::page_location>> all;
  constexpr std::size_t keys_per_call = 512;
  for (std::size_t i = 0; i < keys.size() && client() != nullptr; i += keys_per_call) {
    auto some = client_->locate(keys.subspan(i, std::min(keys_per_call, keys.size() - i)));
    if (!some)
      return {};
    all.insert(all.end(), some->begin(), some->end());
  }
  return all;
}

} // namespace peercache::chaos
