/* A program in C99 as users write it: program CASE HOST PORT CLUSTER. Exits with 0 when all checks
 * of CASE held. */
#define _POSIX_C_SOURCE 200809L
#include "program.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static int failures;

void check(int holds, const char* what, int line) {
  if (holds)
    return;
  ++failures;
  printf("line %d: not so: %s (last error: %s)\n", line, what, peercache_last_error());
}

double now_ms(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

peercache_client* connect_to(const struct place* place, uint32_t calls_max) {
  peercache_client* client = NULL;
  peercache_settings settings = PEERCACHE_SETTINGS_INIT;
  peercache_option options[4];
  options[0].name = "client.node_host";
  options[0].value = place->host;
  options[1].name = "client.node_port";
  options[1].value = place->port;
  options[2].name = "cluster.name";
  options[2].value = place->cluster;
  options[3].name = "log.level";
  options[3].value = "error";
  settings.options = options;
  settings.option_count = 4;
  settings.calls_max = calls_max;
  if (peercache_connect(&settings, &client) != PEERCACHE_OK) {
    printf("no connection: %s\n", peercache_last_error());
    exit(1);
  }
  return client;
}

peercache_key key_named(const char* name) {
  const peercache_text fields[2] = {{"c-test", 6}, {"bf16", 4}};
  peercache_space* space = NULL;
  peercache_key key;
  CHECK(peercache_space_create(fields, 2, &space) == PEERCACHE_OK);
  CHECK(peercache_space_key(space, name, strlen(name), &key) == PEERCACHE_OK);
  peercache_space_free(space);
  return key;
}

void begin_page(struct one_page* page, const char* name, int value) {
  const peercache_batch batch = PEERCACHE_BATCH_INIT;
  memset(page, 0, sizeof *page);
  memset(page->bytes, value, sizeof page->bytes);
  page->part.data = page->bytes;
  page->part.bytes = page_bytes;
  page->page.key = key_named(name);
  page->page.parts = &page->part;
  page->page.part_count = 1;
  page->result.status = UINT32_MAX;
  page->batch = batch;
  page->batch.pages = &page->page;
  page->batch.results = &page->result;
  page->batch.count = 1;
}

struct test_case {
  const char* name;
  void (*run)(const struct place* place);
};

int main(int count, char** words) {
  static const struct test_case cases[] = {{"pages", test_pages},
                                           {"arguments", test_arguments},
                                           {"structs_that_grew", test_structs_that_grew},
                                           {"completions", test_completions},
                                           {"limit_of_started_calls", test_limit_of_started_calls},
                                           {"threads", test_threads},
                                           {"ends", test_ends},
                                           {"embedded", test_embedded},
                                           {"deadline", test_deadline}};
  const struct place place = {count > 2 ? words[2] : "", count > 3 ? words[3] : "",
                              count > 4 ? words[4] : ""};
  size_t i;
  for (i = 0; count > 1 && i < sizeof cases / sizeof cases[0]; ++i)
    if (strcmp(cases[i].name, words[1]) == 0) {
      cases[i].run(&place);
      return failures == 0 ? 0 : 1;
    }
  puts("program CASE HOST PORT CLUSTER");
  return 2;
}
