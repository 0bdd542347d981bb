#pragma once

#include "heal_check.hpp"

#include "client/cache_client.hpp"

#include <cstdint>
#include <memory>
#include <vector>

namespace peercache::chaos {

/// A client of one host's node that lives through all rounds, as an engine's client does. Threads:
/// one at a time; the thread must have entered the host's network.
class heal_check::host_reader {
public:
  host_reader(const chaos_plan& plan, stress::stress_ledger& ledger, std::string host,
              std::string cluster, tls_paths tls)
      : plan_(plan), ledger_(ledger), host_(std::move(host)), cluster_(std::move(cluster)),
        tls_(std::move(tls)) {}

  /// Returns the pages among `ids` that cannot be read now; compares the bytes of hits.
  page_ids unreadable(const page_ids& ids, const std::vector<page_key>& keys);
  /// Returns the locations of these keys in the directory; empty when the directory cannot be
  /// asked.
  std::vector<std::vector<directory::page_location>> locate(std::span<const page_key> keys);
  /// Drops the client, whose node is gone for good.
  void forget() { client_.reset(); }

private:
  client::cache_client* client();
  void read(std::span<const std::uint32_t> ids, const std::vector<page_key>& keys,
            page_ids& missing);

  const chaos_plan& plan_;
  stress::stress_ledger& ledger_;
  std::string host_;
  std::string cluster_;
  tls_paths tls_;
  std::unique_ptr<client::cache_client> client_;
};

} // namespace peercache::chaos
