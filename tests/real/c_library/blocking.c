/* Tests of the blocking calls of the C library. */
#define _POSIX_C_SOURCE 200809L
#include "program.h"

#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static int all_are(const unsigned char* bytes, size_t count, int value) {
  size_t i;
  for (i = 0; i < count; ++i)
    if (bytes[i] != value)
      return 0;
  return 1;
}

static void test_one_page(peercache_client* client, struct one_page* page) {
  peercache_flushed flushed = PEERCACHE_FLUSHED_INIT;
  CHECK(peercache_exists(client, &page->batch) == PEERCACHE_OK);
  CHECK(page->result.status == PEERCACHE_STATUS_NOT_FOUND);
  CHECK(peercache_set(client, &page->batch) == PEERCACHE_OK);
  CHECK(page->result.status == PEERCACHE_STATUS_STORED);
  CHECK(peercache_flush(client, 10000, &flushed) == PEERCACHE_OK);
  CHECK(flushed.failed == 0 && flushed.unpublished == 0);
  CHECK(peercache_set(client, &page->batch) == PEERCACHE_OK);
  CHECK(page->result.status == PEERCACHE_STATUS_DUPLICATE);
  CHECK(peercache_exists(client, &page->batch) == PEERCACHE_OK);
  CHECK(page->result.status == PEERCACHE_STATUS_HIT);
  CHECK(page->result.held == 0);
  page->batch.hold_ms = 2000;
  CHECK(peercache_exists(client, &page->batch) == PEERCACHE_OK);
  CHECK(page->result.status == PEERCACHE_STATUS_HIT && page->result.held == 1);
  CHECK(peercache_get(client, &page->batch) == PEERCACHE_INVALID_ARGUMENT);
  page->batch.hold_ms = PEERCACHE_HOLD_MS_MAX + 1;
  CHECK(peercache_exists(client, &page->batch) == PEERCACHE_INVALID_ARGUMENT);
  page->batch.hold_ms = 0;
  memset(page->bytes, 0, page_bytes);
  CHECK(peercache_get(client, &page->batch) == PEERCACHE_OK);
  CHECK(page->result.status == PEERCACHE_STATUS_HIT);
  CHECK(page->result.origin == PEERCACHE_ORIGIN_OWN_HOST);
  CHECK(page->result.length_bytes == page_bytes);
  CHECK(all_are(page->bytes, page_bytes, 42));
}

static void test_locate(peercache_client* client, struct one_page* page) {
  peercache_location locations[2 * PEERCACHE_LOCATIONS_PER_KEY];
  peercache_key keys[2];
  uint32_t found[2] = {7, 7};
  keys[0] = key_named("nobody has it");
  keys[1] = page->page.key;
  CHECK(peercache_prefetch(client, keys, 2) == PEERCACHE_OK);
  CHECK(peercache_locate(client, keys, 2, 5000, locations, sizeof locations[0], found) ==
        PEERCACHE_OK);
  CHECK(found[0] == 0 && found[1] == 1);
  CHECK(strcmp(locations[PEERCACHE_LOCATIONS_PER_KEY].node_name, "node-1") == 0);
  CHECK(locations[PEERCACHE_LOCATIONS_PER_KEY].length_bytes == page_bytes);
  CHECK(locations[PEERCACHE_LOCATIONS_PER_KEY].on_disk == 0);
}

static void test_withdrawals(peercache_client* client, struct one_page* page) {
  const peercache_text space = {"c-test", 6};
  page->batch.flags = PEERCACHE_REMOVE_EVERYWHERE;
  CHECK(peercache_remove(client, &page->batch) == PEERCACHE_OK);
  CHECK(page->result.status == PEERCACHE_STATUS_HIT);
  page->batch.flags = 0;
  CHECK(peercache_remove(client, &page->batch) == PEERCACHE_OK);
  CHECK(page->result.status == PEERCACHE_STATUS_NOT_FOUND);
  CHECK(peercache_set(client, &page->batch) == PEERCACHE_OK);
  CHECK(page->result.status == PEERCACHE_STATUS_STORED);
  CHECK(peercache_clear(client, space, 10000) == PEERCACHE_OK);
  CHECK(peercache_get(client, &page->batch) == PEERCACHE_OK);
  CHECK(page->result.status == PEERCACHE_STATUS_NOT_FOUND);
}

void test_pages(const struct place* place) {
  static struct one_page page;
  peercache_client* client = connect_to(place, 1);
  peercache_statistics statistics = PEERCACHE_STATISTICS_INIT;
  begin_page(&page, "page", 42);
  CHECK(peercache_register(client, page.bytes, page_bytes) == PEERCACHE_OK);
  CHECK(strlen(peercache_data_plane(client)) > 0);
  test_one_page(client, &page);
  test_locate(client, &page);
  test_withdrawals(client, &page);
  CHECK(peercache_read_statistics(client, &statistics) == PEERCACHE_OK);
  CHECK(statistics.set_pages[PEERCACHE_STATUS_STORED] == 2);
  CHECK(statistics.get_hits[PEERCACHE_ORIGIN_OWN_HOST] == 1);
  CHECK(statistics.get_bytes[PEERCACHE_ORIGIN_OWN_HOST] == page_bytes);
  CHECK(statistics.get_pages[PEERCACHE_STATUS_NOT_FOUND] == 1);
  CHECK(peercache_unregister(client, page.bytes) == PEERCACHE_OK);
  CHECK(peercache_destroy(client) == PEERCACHE_OK);
}

static int is_refused(int code) {
  const int refused = code == PEERCACHE_INVALID_ARGUMENT && strlen(peercache_last_error()) > 5;
  return refused;
}

static void test_wrong_batches(peercache_client* client) {
  static struct one_page page;
  begin_page(&page, "page", 1);
  CHECK(is_refused(peercache_set(client, NULL)));
  CHECK(is_refused(peercache_set(NULL, &page.batch)));
  page.batch.size = 0;
  CHECK(is_refused(peercache_get(client, &page.batch)));
  begin_page(&page, "page", 1);
  page.batch.page_size = 8;
  CHECK(is_refused(peercache_get(client, &page.batch)));
  begin_page(&page, "page", 1);
  page.batch.flags = PEERCACHE_REMOVE_EVERYWHERE;
  CHECK(is_refused(peercache_get(client, &page.batch)));
  begin_page(&page, "page", 1);
  page.page.parts = NULL;
  CHECK(is_refused(peercache_set(client, &page.batch)));
  begin_page(&page, "page", 1);
  page.part.data = NULL;
  CHECK(is_refused(peercache_set(client, &page.batch)));
  CHECK(page.result.status == UINT32_MAX);
  CHECK(is_refused(peercache_start(client, 99, &page.batch, NULL, NULL)));
  begin_page(&page, "page", 1);
  page.page.part_count = 0;
  CHECK(peercache_set(client, &page.batch) == PEERCACHE_OK);
  CHECK(page.result.status == PEERCACHE_STATUS_BAD_SIZE);
}

/* Numbers that existing programs were compiled with, so they must never change. */
static void test_numbers(void) {
  CHECK(PEERCACHE_STATUS_HIT == 0 && PEERCACHE_STATUS_STORED == 1 &&
        PEERCACHE_STATUS_DUPLICATE == 2);
  CHECK(PEERCACHE_STATUS_NOT_FOUND == 3 && PEERCACHE_STATUS_TIMED_OUT == 8 &&
        PEERCACHE_STATUS_CLOSED == 14);
  CHECK(PEERCACHE_INVALID_ARGUMENT == 1 && PEERCACHE_TIMED_OUT == 4 &&
        PEERCACHE_OUT_OF_SPACE == 10);
  CHECK(PEERCACHE_UNCERTAIN == 11 && PEERCACHE_RUNNING == 12);
  CHECK(PEERCACHE_ORIGIN_OWN_HOST == 1 && PEERCACHE_ORIGIN_DISK == 3 &&
        PEERCACHE_ORIGIN_OTHER_HOST_RDMA == 4);
  CHECK(PEERCACHE_OPERATION_SET == 1 && PEERCACHE_OPERATION_REMOVE == 4 &&
        PEERCACHE_REMOVE_EVERYWHERE == 1);
}

void test_arguments(const struct place* place) {
  const peercache_text no_text = {NULL, 3};
  const peercache_option wrong = {"client.node_prt", "1"};
  peercache_settings settings = PEERCACHE_SETTINGS_INIT;
  peercache_client* client = connect_to(place, 1);
  peercache_client* none = client;
  peercache_key key;
  CHECK(strcmp(peercache_code_text(PEERCACHE_TIMED_OUT), "timed out") == 0);
  CHECK(strcmp(peercache_status_text(PEERCACHE_STATUS_NO_SPACE), "no_space") == 0);
  CHECK(strcmp(peercache_status_text(99), "unknown") == 0);
  test_numbers();
  test_wrong_batches(client);
  settings.options = &wrong;
  settings.option_count = 1;
  CHECK(is_refused(peercache_connect(&settings, &none)) && none == NULL);
  CHECK(strstr(peercache_last_error(), "client.node_port") != NULL);
  settings.option_count = 0;
  settings.calls_max = 0;
  CHECK(is_refused(peercache_connect(&settings, &none)));
  CHECK(is_refused(peercache_connect(NULL, NULL)));
  CHECK(is_refused(peercache_register(client, NULL, 4096)));
  CHECK(is_refused(peercache_clear(client, no_text, 100)));
  CHECK(is_refused(peercache_space_key(NULL, "name", 4, &key)));
  CHECK(is_refused(peercache_prefetch(client, NULL, 1)));
  CHECK(is_refused(peercache_locate(client, &key, 1, 100, NULL, sizeof(peercache_location), NULL)));
  CHECK(is_refused(peercache_call_wait(NULL, 0)));
  peercache_call_free(NULL);
  CHECK(peercache_destroy(client) == PEERCACHE_OK && peercache_destroy(NULL) == PEERCACHE_OK);
}

/* Structs with more members, as a later version of the header may have them. */
struct later_page {
  peercache_page page;
  uint64_t more;
};
struct later_result {
  peercache_result result;
  uint64_t more;
};
struct later_batch {
  peercache_batch batch;
  uint64_t more;
};

void test_structs_that_grew(const struct place* place) {
  static struct one_page one;
  static struct later_page pages[2];
  struct later_result results[2];
  struct later_batch later;
  peercache_client* client = connect_to(place, 1);
  begin_page(&one, "first", 5);
  pages[0].page = one.page;
  pages[1].page = one.page;
  pages[1].page.key = key_named("second");
  memset(results, 0xFF, sizeof results);
  memset(&later, 0, sizeof later);
  later.batch = one.batch;
  later.batch.size = sizeof later;
  later.batch.pages = &pages[0].page;
  later.batch.page_size = sizeof pages[0];
  later.batch.results = &results[0].result;
  later.batch.result_size = sizeof results[0];
  later.batch.count = 2;
  CHECK(peercache_set(client, &later.batch) == PEERCACHE_OK);
  CHECK(results[0].result.status == PEERCACHE_STATUS_STORED && results[0].more == 0);
  CHECK(results[1].result.status == PEERCACHE_STATUS_STORED && results[1].more == 0);
  CHECK(peercache_exists(client, &later.batch) == PEERCACHE_OK);
  CHECK(results[1].result.status == PEERCACHE_STATUS_HIT);
  later.more = 1;
  CHECK(peercache_exists(client, &later.batch) == PEERCACHE_INCOMPATIBLE);
  CHECK(strstr(peercache_last_error(), "newer libpeercache") != NULL);
  later.more = 0;
  pages[1].more = 1;
  CHECK(is_refused(peercache_exists(client, &later.batch)));
  CHECK(peercache_destroy(client) == PEERCACHE_OK);
}

/* Prints when a get with 200 ms to its deadline begins and ends, for the test that freezes the
 * page's node. */
void test_deadline(const struct place* place) {
  static struct one_page page;
  peercache_client* client = connect_to(place, 1);
  double begin, end;
  begin_page(&page, "of a frozen node", 0);
  puts("connected");
  fflush(stdout);
  CHECK(getchar() == 'g');
  page.batch.deadline_ms = 200;
  begin = now_ms();
  CHECK(peercache_get(client, &page.batch) == PEERCACHE_OK);
  end = now_ms();
  printf("%.3f %.3f %s\n", begin, end, peercache_status_text(page.result.status));
  fflush(stdout);
  _exit(page.result.status == PEERCACHE_STATUS_HIT ? 1 : 0);
}

static void test_forked_child(peercache_client* client, struct one_page* page) {
  int ended = -1;
  const pid_t child = fork();
  if (child == 0) {
    const int closed = peercache_get(client, &page->batch) == PEERCACHE_OK &&
                       page->result.status == PEERCACHE_STATUS_CLOSED &&
                       peercache_start(client, PEERCACHE_OPERATION_GET, &page->batch, NULL, NULL) ==
                           PEERCACHE_CLOSED &&
                       peercache_flush(client, 100, NULL) == PEERCACHE_CLOSED &&
                       peercache_destroy(client) == PEERCACHE_OK;
    _exit(closed ? 0 : 1);
  }
  CHECK(child > 0 && waitpid(child, &ended, 0) == child && ended == 0);
}

void test_ends(const struct place* place) {
  static struct one_page page;
  const peercache_text space = {"c-test", 6};
  peercache_client* client = connect_to(place, 1);
  begin_page(&page, "page", 3);
  CHECK(peercache_set(client, &page.batch) == PEERCACHE_OK);
  test_forked_child(client, &page);
  CHECK(peercache_get(client, &page.batch) == PEERCACHE_OK &&
        page.result.status == PEERCACHE_STATUS_HIT);
  peercache_close(client);
  CHECK(peercache_get(client, &page.batch) == PEERCACHE_OK &&
        page.result.status == PEERCACHE_STATUS_CLOSED);
  CHECK(peercache_flush(client, 100, NULL) == PEERCACHE_CLOSED);
  CHECK(peercache_clear(client, space, 100) == PEERCACHE_CLOSED);
  CHECK(strlen(peercache_last_error()) > 5);
  CHECK(peercache_destroy(client) == PEERCACHE_OK);
}

void test_embedded(const struct place* place) {
  static struct one_page page;
  const peercache_option options[] = {{"pool.size", "16MiB"},        {"node.name", "inside"},
                                      {"net.control_port", "0"},     {"net.data_port", "0"},
                                      {"net.http_port", "0"},        {"log.level", "error"},
                                      {"cluster.name", "c-embedded"}};
  peercache_settings settings = PEERCACHE_SETTINGS_INIT;
  peercache_client* client = NULL;
  (void)place;
  settings.options = options;
  settings.option_count = sizeof options / sizeof options[0];
  CHECK(peercache_embed(&settings, &client) == PEERCACHE_OK);
  if (client == NULL)
    return;
  begin_page(&page, "page", 9);
  CHECK(peercache_set(client, &page.batch) == PEERCACHE_OK &&
        page.result.status == PEERCACHE_STATUS_STORED);
  memset(page.bytes, 0, page_bytes);
  CHECK(peercache_get(client, &page.batch) == PEERCACHE_OK &&
        page.result.status == PEERCACHE_STATUS_HIT);
  CHECK(all_are(page.bytes, page_bytes, 9));
  CHECK(peercache_destroy(client) == PEERCACHE_OK);
}
