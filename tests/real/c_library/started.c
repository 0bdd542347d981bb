/* Tests of the C library's started (asynchronous) calls, and of calls by several threads. */
#define _POSIX_C_SOURCE 200809L
#include "program.h"

#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum { patience_ms = 20000 };

/* What a callback saw, and the door that it waits at. */
struct told {
  pthread_mutex_t lock;
  pthread_cond_t changed;
  int calls;
  int code;
  uint32_t status;
  int held; /* The callback waits as long as this is not 0. */
  int destroy_code;
  peercache_client* client;
  const peercache_result* result;
};

static void begin_told(struct told* told, peercache_client* client,
                       const peercache_result* result) {
  memset(told, 0, sizeof *told);
  pthread_mutex_init(&told->lock, NULL);
  pthread_cond_init(&told->changed, NULL);
  told->client = client;
  told->result = result;
}

static void hear(int code, void* user) {
  struct told* told = user;
  const int destroy_code = peercache_destroy(told->client);
  pthread_mutex_lock(&told->lock);
  ++told->calls;
  told->code = code;
  told->status = told->result->status;
  told->destroy_code = destroy_code;
  pthread_cond_broadcast(&told->changed);
  while (told->held)
    pthread_cond_wait(&told->changed, &told->lock);
  pthread_mutex_unlock(&told->lock);
}

static void wait_told(struct told* told) {
  pthread_mutex_lock(&told->lock);
  while (told->calls == 0)
    pthread_cond_wait(&told->changed, &told->lock);
  pthread_mutex_unlock(&told->lock);
}

static void test_callback(peercache_client* client, struct one_page* page) {
  static struct told told;
  peercache_completion completion = PEERCACHE_COMPLETION_INIT;
  begin_told(&told, client, &page->result);
  completion.callback = hear;
  completion.user = &told;
  CHECK(peercache_start(client, PEERCACHE_OPERATION_SET, &page->batch, &completion, NULL) ==
        PEERCACHE_OK);
  wait_told(&told);
  CHECK(told.code == PEERCACHE_OK && told.status == PEERCACHE_STATUS_STORED);
  CHECK(told.destroy_code == PEERCACHE_INVALID_ARGUMENT);
}

static void test_descriptor(peercache_client* client, struct one_page* page) {
  peercache_completion completion = PEERCACHE_COMPLETION_INIT;
  peercache_call* call = NULL;
  struct pollfd ready;
  uint64_t told = 0;
  ready.fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  ready.events = POLLIN;
  completion.event_fd = ready.fd;
  memset(page->bytes, 0, page_bytes);
  CHECK(peercache_start(client, PEERCACHE_OPERATION_GET, &page->batch, &completion, &call) ==
        PEERCACHE_OK);
  CHECK(poll(&ready, 1, patience_ms) == 1);
  CHECK(peercache_call_wait(call, 0) == PEERCACHE_OK);
  CHECK(read(ready.fd, &told, sizeof told) == sizeof told && told == 1);
  CHECK(page->result.status == PEERCACHE_STATUS_HIT && page->bytes[0] == 6 &&
        page->bytes[page_bytes - 1] == 6);
  peercache_call_free(call);
  close(ready.fd);
}

static void test_waiting(peercache_client* client, struct one_page* page) {
  peercache_call* call = NULL;
  CHECK(peercache_start(client, PEERCACHE_OPERATION_EXISTS, &page->batch, NULL, &call) ==
        PEERCACHE_OK);
  CHECK(peercache_call_wait(call, patience_ms) == PEERCACHE_OK);
  CHECK(page->result.status == PEERCACHE_STATUS_HIT);
  peercache_call_free(call);
  CHECK(peercache_start(client, PEERCACHE_OPERATION_REMOVE, &page->batch, NULL, &call) ==
        PEERCACHE_OK);
  peercache_call_free(call);
  CHECK(page->result.status == PEERCACHE_STATUS_HIT);
}

void test_completions(const struct place* place) {
  static struct one_page page;
  peercache_client* client = connect_to(place, 4);
  begin_page(&page, "started", 6);
  test_callback(client, &page);
  test_descriptor(client, &page);
  test_waiting(client, &page);
  CHECK(peercache_destroy(client) == PEERCACHE_OK);
}

void test_limit_of_started_calls(const struct place* place) {
  static struct told told;
  static struct one_page page, other;
  peercache_completion completion = PEERCACHE_COMPLETION_INIT;
  peercache_client* client = connect_to(place, 1);
  peercache_call *call = NULL, *refused = NULL;
  begin_page(&page, "first", 1);
  begin_page(&other, "second", 2);
  begin_told(&told, client, &page.result);
  told.held = 1;
  completion.callback = hear;
  completion.user = &told;
  CHECK(peercache_start(client, PEERCACHE_OPERATION_SET, &page.batch, &completion, &call) ==
        PEERCACHE_OK);
  wait_told(&told);
  CHECK(peercache_start(client, PEERCACHE_OPERATION_SET, &other.batch, NULL, &refused) ==
        PEERCACHE_REFUSED);
  CHECK(refused == NULL && strstr(peercache_last_error(), "calls_max") != NULL);
  CHECK(peercache_call_wait(call, 0) == PEERCACHE_RUNNING);
  pthread_mutex_lock(&told.lock);
  told.held = 0;
  pthread_cond_broadcast(&told.changed);
  pthread_mutex_unlock(&told.lock);
  CHECK(peercache_call_wait(call, patience_ms) == PEERCACHE_OK);
  peercache_call_free(call);
  CHECK(peercache_destroy(client) == PEERCACHE_OK);
  CHECK(told.calls == 1 && other.result.status == UINT32_MAX);
}

/* Body of a thread: sets pages of its own and gets them again. */
struct worker {
  peercache_client* client;
  char name;
  int wrong;
};

static void* work(void* of) {
  struct worker* worker = of;
  struct one_page page;
  char name[8] = "x-0";
  int i, byte;
  name[0] = worker->name;
  for (i = 0; i < 50; ++i) {
    name[2] = (char)('0' + i);
    begin_page(&page, name, worker->name + i);
    worker->wrong += peercache_set(worker->client, &page.batch) != PEERCACHE_OK;
    memset(page.bytes, 0, page_bytes);
    worker->wrong += peercache_get(worker->client, &page.batch) != PEERCACHE_OK;
    worker->wrong += page.result.status != PEERCACHE_STATUS_HIT;
    for (byte = 0; byte < page_bytes; ++byte)
      worker->wrong += page.bytes[byte] != (unsigned char)(worker->name + i);
    /* The sentence of a failure is the thread's own. */
    worker->wrong += peercache_set(worker->client, NULL) != PEERCACHE_INVALID_ARGUMENT;
    worker->wrong += strstr(peercache_last_error(), "batch") == NULL;
  }
  return NULL;
}

void test_threads(const struct place* place) {
  struct worker workers[2];
  pthread_t threads[2];
  peercache_client* client = connect_to(place, 1);
  int i;
  for (i = 0; i < 2; ++i) {
    workers[i].client = client;
    workers[i].name = (char)('a' + i);
    workers[i].wrong = 0;
    CHECK(pthread_create(&threads[i], NULL, work, &workers[i]) == 0);
  }
  for (i = 0; i < 2; ++i) {
    CHECK(pthread_join(threads[i], NULL) == 0);
    CHECK(workers[i].wrong == 0);
  }
  CHECK(peercache_destroy(client) == PEERCACHE_OK);
}
