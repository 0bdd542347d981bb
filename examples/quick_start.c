/* One page in, the same page out, by the C library: quick_start PORT CLUSTER, of a node of this host.
 *
 *   cc quick_start.c $(pkg-config --cflags --libs peercache) -o quick_start
 */
#include <peercache/peercache.h>
#include <peercache/version.h>

#include <stdio.h>
#include <string.h>

static int failed(const char *what) {
  fprintf(stderr, "%s: %s\n", what, peercache_last_error());
  return 1;
}

/* Everything that decides what a page's bytes mean belongs into the key. */
static int make_key(peercache_key *key) {
  const peercache_text fields[] = {{"llama-3-8b", 10}, {"revision-1", 10}, {"bf16", 4}};
  peercache_space *space = NULL;
  int code = peercache_space_create(fields, 3, &space);
  if (code == PEERCACHE_OK)
    code = peercache_space_key(space, "prefix-4711/page-0", 18, key);
  peercache_space_free(space);
  return code;
}

/* Puts the page, waits until other hosts find it, and gets it into other memory. */
static int put_and_get(peercache_client *client) {
  static unsigned char from[65536], to[65536];
  peercache_part part = {from, sizeof from, 0};
  peercache_page page = {{{0}}, &part, 1, 0};
  peercache_result result;
  peercache_batch batch = PEERCACHE_BATCH_INIT;
  memset(from, 42, sizeof from);
  batch.pages = &page;
  batch.results = &result;
  batch.count = 1;
  if (make_key(&page.key) != PEERCACHE_OK || peercache_set(client, &batch) != PEERCACHE_OK)
    return failed("set");
  printf("set: %s\n", peercache_status_text(result.status));
  if (peercache_flush(client, PEERCACHE_DEADLINE_DEFAULT, NULL) != PEERCACHE_OK)
    return failed("flush");
  part.data = to;
  batch.deadline_ms = 500;
  if (peercache_get(client, &batch) != PEERCACHE_OK)
    return failed("get");
  printf("get: %s\n", peercache_status_text(result.status));
  return result.status == PEERCACHE_STATUS_HIT && memcmp(from, to, sizeof from) == 0 ? 0 : 1;
}

int main(int count, char **words) {
  peercache_option options[2];
  peercache_settings settings = PEERCACHE_SETTINGS_INIT;
  peercache_client *client = NULL;
  int code;
  options[0].name = "client.node_port";
  options[0].value = count > 1 ? words[1] : "31998";
  options[1].name = "cluster.name";
  options[1].value = count > 2 ? words[2] : "peercache";
  settings.options = options;
  settings.option_count = 2;
  printf("built with %s, runs with %s\n", PEERCACHE_VERSION, peercache_version());
  if (peercache_connect(&settings, &client) != PEERCACHE_OK)
    return failed("connect");
  code = put_and_get(client);
  peercache_destroy(client);
  return code;
}
