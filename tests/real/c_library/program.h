/* What the parts of the C test program share. */
#ifndef PEERCACHE_TESTS_PROGRAM_H
#define PEERCACHE_TESTS_PROGRAM_H

#include "client/c/peercache.h"

enum { page_bytes = 16384 };

/* Says where and what was not as it should be, and counts it. */
void check(int holds, const char *what, int line);
#define CHECK(what) check((what) != 0, #what, __LINE__)

/* Host, port and cluster of a running node. */
struct place {
  const char *host;
  const char *port;
  const char *cluster;
};

/* Connects with at most `calls_max` started calls; ends the program when it cannot. */
peercache_client *connect_to(const struct place *place, uint32_t calls_max);

/* The key "name" of the space "c-test". */
peercache_key key_named(const char *name);

/* A page of `page_bytes` bytes in one part. */
struct one_page {
  unsigned char bytes[page_bytes];
  peercache_part part;
  peercache_page page;
  peercache_result result;
  peercache_batch batch;
};
/* Makes it ready for calls with this key, its bytes all of the given value. */
void begin_page(struct one_page *page, const char *name, int value);

/* Milliseconds of the steady clock. */
double now_ms(void);

void test_pages(const struct place *place);
void test_arguments(const struct place *place);
void test_structs_that_grew(const struct place *place);
void test_completions(const struct place *place);
void test_limit_of_started_calls(const struct place *place);
void test_threads(const struct place *place);
void test_ends(const struct place *place);
void test_embedded(const struct place *place);
void test_deadline(const struct place *place);

#endif
