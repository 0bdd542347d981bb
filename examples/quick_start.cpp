// A node inside this process; one page in, the same page out.
#include "examples/example.hpp"

#include <cstring>
#include <vector>

int main() {
  using namespace peercache;
  auto cache = examples::start_node("quick-start");
  auto& client = cache->client();

  // Everything that decides what a page's bytes mean belongs into the key.
  const std::string_view fields[] = {"llama-3-8b", "revision-1", "bf16"};
  key_space keys(fields);
  auto key = keys.key_of("prefix-4711/page-0");

  std::vector<std::byte> page(65536, std::byte{42});
  client::const_part from{page.data(), static_cast<std::uint32_t>(page.size())};
  client::set_page put{key, {&from, 1}};
  client::page_result result;
  client.set({&put, 1}, {&result, 1});
  examples::expect(result.status == page_status::stored, "stored");

  // `set` has returned when the page's bytes are in place; `flush` returns when other hosts can
  // find the page.
  examples::expect(examples::value_or_exit(client.flush()).failed == 0, "published");

  std::vector<std::byte> copy(page.size());
  page_part to{copy.data(), static_cast<std::uint32_t>(copy.size())};
  client::get_page wanted{key, {&to, 1}};
  client.get({&wanted, 1}, {&result, 1});
  examples::expect(result.status == page_status::hit, "hit");
  examples::expect(copy == page, "the same bytes");

  // A page that is not in the cache is a miss with a reason, never an error.
  client::get_page unknown{keys.key_of("never put"), {&to, 1}};
  client.get({&unknown, 1}, {&result, 1});
  examples::expect(result.status == page_status::not_found, "a miss for what was never put");
}
