// Writes the files that are generated from the option table.
// Usage: peercache_config_docs <root of the tree>

#include "config/render.hpp"

#include <cstdio>
#include <filesystem>
#include <fstream>

namespace {

bool write(const std::filesystem::path& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file << text;
  file.close();
  if (!file)
    std::fprintf(stderr, "cannot write %s\n", path.c_str());
  return static_cast<bool>(file);
}

} // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: %s <root of the tree>\n", argv[0]);
    return 2;
  }
  const std::filesystem::path root = argv[1];
  const bool written =
      write(root / "config" / "peercache.toml", peercache::config::render_default_file()) &&
      write(root / "docs" / "configuration.md", peercache::config::render_documentation());
  return written ? 0 : 1;
}
