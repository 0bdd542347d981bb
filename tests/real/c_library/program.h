/* Declarations that the source files of the C test program share. */
#ifndef PEERCACHE_TESTS_PROGRAM_H
#define PEERCACHE_TESTS_PROGRAM_H

#include "client/c/peercache.h"

enum { page_bytes = 16384 };

/* If `holds` is 0: prints the line and the text `what` of a failed check, and counts the failure.
 */
void check(int holds, const char* what, int line);
#define CHECK(what) check((what) != 0, #what, __LINE__)

/* Host and port of a running node, and the name of its cluster. */
struct place {
  const char* host;
  const char* port;
  const char* cluster;
};

/* Connects with at most `calls_max` started calls; ends the program when it cannot. */
peercache_client* connect_to(const struct place* place, uint32_t calls_max);

/* Returns the key of the text `name` in the space "c-test". */
peercache_key key_named(const char* name);

/* A page of `page_bytes` bytes in one part, and a batch of only this page. */
struct one_page {
  unsigned char bytes[page_bytes];
  peercache_part part;
  peercache_page page;
  peercache_result result;
  peercache_batch batch;
};
/* Prepares `page` for calls with the key of `name`, and sets all its bytes to `value`. */
void begin_page(struct one_page* page, const char* name, int value);

/* Returns the time of the monotonic clock in milliseconds. */
double now_ms(void);

void test_pages(const struct place* place);
void test_arguments(const struct place* place);
void test_structs_that_grew(const struct place* place);
void test_completions(const struct place* place);
void test_limit_of_started_calls(const struct place* place);
void test_threads(const struct place* place);
void test_ends(const struct place* place);
void test_embedded(const struct place* place);
void test_deadline(const struct place* place);

#endif
