// Writes docs/metrics.md from the table: peercache_metrics_docs <file>.
#include "metrics/metric_table.hpp"

#include <cstdio>
#include <fstream>

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: %s <file>\n", argv[0]);
    return 2;
  }
  std::ofstream file{argv[1], std::ios::binary};
  file << peercache::metrics::metrics_document();
  file.flush();
  if (!file) {
    std::fprintf(stderr, "cannot write %s\n", argv[1]);
    return 1;
  }
  return 0;
}
