#include "common/hash_seed.hpp"

#include "common/ids.hpp"

namespace peercache {

void hash_seed::draw() {
  for (auto& word : words_)
    word = incarnation::random().low;
}

} // namespace peercache
