#include "cli/bench/bench_disk_index.hpp"
#include "cli/command.hpp"
#include "cli/stand_in.hpp"

namespace peercache::cli {

int run_in_place_of_peercache(int argc, const char* const* argv) {
  open_bench_index = storage::open_rocks_index;
  return static_cast<int>(run(argc, argv));
}

} // namespace peercache::cli
