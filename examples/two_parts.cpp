// A page of two parts: the keys and the values of one layer lie in different buffers, and are one
// page all the same.
#include "examples/example.hpp"

#include <array>
#include <vector>

int main() {
  using namespace peercache;
  auto cache = examples::start_node("two-parts");
  auto& client = cache->client();
  key_space keys;

  std::vector<std::byte> k(24576, std::byte{1});
  std::vector<std::byte> v(8192, std::byte{2});
  std::array<client::const_part, 2> from = {client::const_part{k.data(), 24576},
                                            client::const_part{v.data(), 8192}};
  client::set_page put{keys.key_of("layer-0"), from};
  client::page_result result;
  client.set({&put, 1}, {&result, 1});
  examples::expect(result.status == page_status::stored, "stored");
  examples::expect(examples::value_or_exit(client.flush()).failed == 0, "published");

  std::vector<std::byte> k_copy(k.size());
  std::vector<std::byte> v_copy(v.size());
  std::array<page_part, 2> to = {page_part{k_copy.data(), 24 * 1024},
                                 page_part{v_copy.data(), 8 * 1024}};
  client::get_page wanted{keys.key_of("layer-0"), to};
  client.get({&wanted, 1}, {&result, 1});
  examples::expect(result.status == page_status::hit, "all parts or none: hit");
  examples::expect(k_copy == k && v_copy == v, "both parts have their bytes");

  // The parts must add up to the page's length, so a get with half of them is refused.
  client::get_page half{keys.key_of("layer-0"), {to.data(), 1}};
  client.get({&half, 1}, {&result, 1});
  examples::expect(result.status == page_status::bad_size,
                   "a size that is not the page's is refused");
}
