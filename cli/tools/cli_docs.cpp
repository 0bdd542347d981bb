// Writes the files that are generated from the programs' commands and options.
// Usage: peercache_cli_docs docs <root of the tree>
//        peercache_cli_docs man <folder>

#include "cli/documents.hpp"

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string_view>

int main(int argc, char** argv) {
  const std::string_view what = argc == 3 ? argv[1] : "";
  if (what != "docs" && what != "man") {
    std::fprintf(stderr, "usage: %s docs|man <folder>\n", argv[0]);
    return 2;
  }
  const auto documents =
      what == "docs" ? peercache::cli::documents() : peercache::cli::manual_pages();
  for (const auto& document : documents) {
    const auto path = std::filesystem::path(argv[2]) / document.path;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream file(path, std::ios::binary | std::ios::trunc);
    file << document.text;
    file.close();
    if (!file) {
      std::fprintf(stderr, "cannot write %s\n", path.c_str());
      return 1;
    }
  }
  return 0;
}
