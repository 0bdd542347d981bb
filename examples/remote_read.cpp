// Two nodes; what a client of the first puts, a client of the second reads over the network.
#include "examples/example.hpp"

#include <chrono>
#include <vector>

int main() {
  using namespace peercache;
  auto prefill = examples::start_node("prefill");
  auto decode = examples::start_node("decode", examples::address_of(*prefill));
  key_space keys;

  constexpr std::uint32_t page_bytes = 256 * 1024;
  std::vector<std::byte> page(page_bytes, std::byte{7});
  client::const_part from{page.data(), page_bytes};
  client::set_page put{keys.key_of("shared prefix"), {&from, 1}};
  client::page_result result;
  prefill->client().set({&put, 1}, {&result, 1});
  examples::expect(result.status == page_status::stored, "stored on the first host");
  examples::expect(examples::value_or_exit(prefill->client().flush()).failed == 0, "published");

  // Engines ask which prefix is cached before they get it; asking also fills the location cache.
  auto key = keys.key_of("shared prefix");
  decode->client().exists({&key, 1}, {&result, 1});
  examples::expect(result.status == page_status::hit, "the second host knows it");

  std::vector<std::byte> copy(page_bytes);
  page_part to{copy.data(), page_bytes};
  client::get_page wanted{key, {&to, 1}};
  auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(500);
  decode->client().get({&wanted, 1}, {&result, 1}, until);
  examples::expect(result.status == page_status::hit, "hit within half a second");
  examples::expect(result.origin == page_origin::other_host, "from the other host");
  examples::expect(copy == page, "the same bytes");
}
