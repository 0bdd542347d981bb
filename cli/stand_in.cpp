#include "cli/stand_in.hpp"

#include "cli/node_process.hpp"

#include <cerrno>
#include <cstring>
#include <unistd.h>

namespace peercache::cli {

error go_on_in_node(const std::vector<std::string>& words) {
  auto program = node_program("");
  std::vector<std::string> all{program, stand_in_word};
  all.insert(all.end(), words.begin(), words.end());
  std::vector<char*> argv;
  argv.reserve(all.size() + 1);
  for (auto& word : all)
    argv.push_back(word.data());
  argv.push_back(nullptr);
  ::execv(program.c_str(), argv.data());
  return {errc::not_found, "cannot start " + program + ": " + std::strerror(errno)};
}

} // namespace peercache::cli
