#pragma once

#include "storage/disk/offset/offset_index.hpp"

#include <memory>
#include <string>

namespace peercache::cli {

using index_opener = result<std::unique_ptr<storage::offset_index>> (*)(const std::string& folder);

/// Opens the index of the store `offset` for `bench disk`; null in a program without RocksDB
/// (cli/stand_in.hpp). Written at most once, before any thread starts.
inline index_opener open_bench_index = nullptr;

} // namespace peercache::cli
