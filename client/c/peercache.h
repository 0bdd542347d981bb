/**
 * @file
 * PeerCache's client for C, and for every language that calls C: pages in, pages out, in batches.
 *
 * ABI: a program that was built with this header runs with each later libpeercache.so.0. Functions are added, never
 * changed. A struct grows only at its end; its user says how long it is in the user's header, by a member `size` or by
 * the stride of an array, and the macros PEERCACHE_*_INIT fill these in. Members that a library does not know must be 0.
 *
 * Errors: a function that returns `int` returns PEERCACHE_OK or another code of enum peercache_code, and
 * peercache_last_error() then has a sentence for people. Calls of pages return PEERCACHE_OK when each page has its
 * status: a page that cannot be had is a miss with its reason, not an error. No function throws or aborts.
 *
 * Threads: every function may be called from any number of threads at once, unless it says otherwise.
 *
 * Time: deadlines are in milliseconds from the call on; PEERCACHE_DEADLINE_DEFAULT stands for the option
 * `client.timeout`. No call returns, and no started call completes, later than its deadline plus 50 ms.
 *
 * Ownership: memory that a function gets stays the caller's. Nothing touches it after the return of the function, or,
 * after peercache_start, after the completion.
 *
 * Forks: in a child that was forked later, a client is closed: pages have the status PEERCACHE_STATUS_CLOSED, other
 * functions return PEERCACHE_CLOSED. The child may connect a client of its own.
 */
#ifndef PEERCACHE_PEERCACHE_H
#define PEERCACHE_PEERCACHE_H

#include <stddef.h>
#include <stdint.h>

/** Marks a function that the library exports. */
#if defined(__GNUC__)
#define PEERCACHE_API __attribute__((visibility("default")))
#else
#define PEERCACHE_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/** What became of a call. Numbers never change their meaning; later libraries may return numbers that are not here. */
enum peercache_code {
  PEERCACHE_OK = 0,
  PEERCACHE_INVALID_ARGUMENT = 1, /**< The arguments make no sense; nothing was done. */
  PEERCACHE_NOT_FOUND = 2,        /**< A named file or device does not exist. */
  PEERCACHE_REFUSED = 3,          /**< A limit was reached, or the node does not accept this process. */
  PEERCACHE_TIMED_OUT = 4,        /**< The deadline passed. */
  PEERCACHE_UNREACHABLE = 5,      /**< There is no connection to the node, or to nodes that had to be asked. */
  PEERCACHE_INCOMPATIBLE = 6,     /**< Versions or the cluster's name differ; or a struct is newer than the library. */
  PEERCACHE_OUT_OF_MEMORY = 7,
  PEERCACHE_IO_FAILED = 8,        /**< The system refused something: a file, a socket, a mapping. */
  PEERCACHE_CLOSED = 9,           /**< The client is closed, as every client is in a forked child. */
  PEERCACHE_OUT_OF_SPACE = 10,    /**< A disk is full. */
  PEERCACHE_UNCERTAIN = 11,       /**< clear: some node has not confirmed it. */
  PEERCACHE_RUNNING = 12          /**< A started call is not complete yet. */
};

/** The fate of one page in one call. The first three are successes; all others are misses or refusals. Numbers never
 *  change their meaning; later libraries may return numbers that are not here, which are misses. */
enum peercache_status {
  PEERCACHE_STATUS_HIT = 0,           /**< get, exists: the page was found. remove: a node had and removed it. */
  PEERCACHE_STATUS_STORED = 1,        /**< set: the page is in the pool. */
  PEERCACHE_STATUS_DUPLICATE = 2,     /**< set: the page is readable in the cluster already; nothing was stored. */
  PEERCACHE_STATUS_NOT_FOUND = 3,     /**< Nobody has the page. */
  PEERCACHE_STATUS_STALE = 4,         /**< The page was evicted or overwritten before it could be read. */
  PEERCACHE_STATUS_HOLDER_GONE = 5,   /**< The process that had the page is gone. */
  PEERCACHE_STATUS_WRONG_KEY = 6,     /**< Another page lies where this page was; nothing was read. */
  PEERCACHE_STATUS_CORRUPT = 7,       /**< The bytes that arrived do not match the page's checksum. */
  PEERCACHE_STATUS_TIMED_OUT = 8,     /**< The deadline passed. */
  PEERCACHE_STATUS_UNREACHABLE = 9,   /**< No node that has the page, or knows where it is, can be reached. */
  PEERCACHE_STATUS_BREAKER_OPEN = 10, /**< The node with the page failed repeatedly and is not asked for a while. */
  PEERCACHE_STATUS_REFUSED = 11,      /**< A limit in bytes or number was reached, a slot is not being filled,
                                           memory is not served, a request or answer is malformed, or the
                                           disk is closing. */
  PEERCACHE_STATUS_NO_SPACE = 12,     /**< set: the pool could free no memory for the page. */
  PEERCACHE_STATUS_BAD_SIZE = 13,     /**< The parts do not add up to the page's length, or a limit is exceeded. */
  PEERCACHE_STATUS_CLOSED = 14        /**< The client or the node is shutting down. */
};

/** Where the bytes of a hit came from. */
enum peercache_origin {
  PEERCACHE_ORIGIN_NONE = 0,
  PEERCACHE_ORIGIN_OWN_HOST = 1,       /**< The pool of this host. */
  PEERCACHE_ORIGIN_OTHER_HOST = 2,     /**< The pool of another host, over TCP. */
  PEERCACHE_ORIGIN_DISK = 3,           /**< A disk of this or another host. */
  PEERCACHE_ORIGIN_OTHER_HOST_RDMA = 4 /**< The pool of another host, by RDMA READs. */
};

#define PEERCACHE_DEADLINE_DEFAULT UINT32_MAX /**< As a deadline: the time of the option `client.timeout`. */
#define PEERCACHE_HOLD_MS_MAX 10000          /**< Longest time for which exists holds pages. */
#define PEERCACHE_LOCATIONS_PER_KEY 4         /**< Most locations that peercache_locate tells of one key. */
#define PEERCACHE_CALLS_MAX 1024              /**< Most started calls at once that a client may be made for. */

/** A client: a connection to the node of this host, and to all nodes that it reads from. */
typedef struct peercache_client peercache_client;
/** What gives the meaning of a page's bytes, besides the caller's key: model, revision, dtype, layout, rank. */
typedef struct peercache_space peercache_space;
/** A call that peercache_start began. */
typedef struct peercache_call peercache_call;

/** Names one page in the cluster; made by peercache_space_key. */
typedef struct peercache_key {
  uint8_t bytes[32]; /**< A hash of the space and the caller's key; equal bytes are one page. */
} peercache_key;

/** The caller's text or other bytes; need not end with a zero byte. */
typedef struct peercache_text {
  const char *data; /**< The first byte; NULL only when `bytes` is 0. */
  size_t bytes;     /**< Length in bytes. */
} peercache_text;

/** A piece of the caller's memory that holds bytes of one page, or is to receive them. */
typedef struct peercache_part {
  void *data;        /**< The first byte; set only reads it. */
  uint32_t bytes;    /**< Length in bytes. */
  uint32_t reserved; /**< 0. */
} peercache_part;

/** One page of a batch. Its bytes are the parts one after the other (K and V: two parts, one page), at most 512 parts
 *  and 64 MiB; in a get they add up to the page's length. exists and remove look only at the key. */
typedef struct peercache_page {
  peercache_key key;           /**< The page's name. */
  const peercache_part *parts; /**< `part_count` parts, in the order of the page's bytes. */
  uint32_t part_count;         /**< Number of parts. */
  uint32_t reserved;           /**< 0. */
} peercache_page;

/** What became of one page. */
typedef struct peercache_result {
  uint32_t status;       /**< enum peercache_status. */
  uint32_t origin;       /**< enum peercache_origin; only for hits of get. */
  uint32_t length_bytes; /**< Length of the page that was found or stored, in bytes; else 0. */
  uint32_t reserved;     /**< Written as 0. */
  uint32_t held;         /**< 1: exists holds the page, as peercache_batch::hold_ms says; else 0. */
  uint32_t reserved_end; /**< Written as 0. */
} peercache_result;

/** The pages of one call. Begin with PEERCACHE_BATCH_INIT. */
typedef struct peercache_batch {
  uint32_t size;        /**< sizeof(peercache_batch) */
  uint32_t page_size;   /**< sizeof(peercache_page): the distance of two pages in `pages`. */
  uint32_t result_size; /**< sizeof(peercache_result): the distance of two results in `results`. */
  uint32_t deadline_ms; /**< Milliseconds from the call on, or PEERCACHE_DEADLINE_DEFAULT. */
  const peercache_page *pages; /**< `count` pages. */
  peercache_result *results;   /**< `count` results, in the order of the pages; all are written. */
  size_t count;                /**< Number of pages, and of results. */
  uint32_t flags;              /**< 0, or PEERCACHE_REMOVE_EVERYWHERE. */
  uint32_t reserved;           /**< 0. */
  uint32_t hold_ms;            /**< exists: keeps pages that are found in memory from eviction until this client has
                                    read them, or this many ms have passed (at most PEERCACHE_HOLD_MS_MAX). 0: keeps
                                    none. */
  uint32_t hold_group;         /**< exists: of this many pages in a row all are held, or none; 0 means 1. */
} peercache_batch;

/** A flag of remove: every node that this client has ever seen is asked, and not only those that the directory names.
 *  If one of them is gone, each page is PEERCACHE_STATUS_UNREACHABLE. */
#define PEERCACHE_REMOVE_EVERYWHERE 1u

/** A batch without pages, with the sizes of this header and the default deadline. */
#define PEERCACHE_BATCH_INIT                                                                                         \
  {sizeof(peercache_batch), sizeof(peercache_page), sizeof(peercache_result), PEERCACHE_DEADLINE_DEFAULT, NULL, NULL,  \
   0, 0, 0, 0, 0}

/** An option by its name in docs/configuration.md ("client.node_host") and its value as text ("10.0.0.7"). */
typedef struct peercache_option {
  const char *name;  /**< Section and option with a dot between them. */
  const char *value; /**< As it would stand in the file, without quotes. */
} peercache_option;

/** How to open a client. Begin with PEERCACHE_SETTINGS_INIT. */
typedef struct peercache_settings {
  uint32_t size;      /**< sizeof(peercache_settings) */
  uint32_t flags;     /**< 0, or PEERCACHE_DO_NOT_WAIT. */
  const peercache_option *options; /**< Options win over PEERCACHE_* variables; these over the file PEERCACHE_CONFIG. */
  size_t option_count; /**< Number of `options`. */
  uint32_t calls_max; /**< Most started calls at once (a thread each, as needed); 1 to PEERCACHE_CALLS_MAX. */
  uint32_t reserved;  /**< 0. */
} peercache_settings;

/** A flag of peercache_connect: does not wait for the node. All pages miss until it is found. */
#define PEERCACHE_DO_NOT_WAIT 1u

/** Settings without options, for 16 started calls at once; peercache_connect waits for the node. */
#define PEERCACHE_SETTINGS_INIT                                                                                      \
  { sizeof(peercache_settings), 0, NULL, 0, 16, 0 }

/* ---- the library, and texts ------------------------------------------------------------------------------------ */

/** The library's version, "0.2.0"; PEERCACHE_VERSION of <peercache/version.h> is that of the header. Lives for ever. */
PEERCACHE_API const char *peercache_version(void);

/** The sentence for the last function of this library that failed in the calling thread: what is wrong, and what to
 *  do; "" when none has. Valid until the thread's next call of this library that fails. */
PEERCACHE_API const char *peercache_last_error(void);

/** The word of a code, such as "timed out"; "unknown" for numbers that the library does not know. Lives for ever. */
PEERCACHE_API const char *peercache_code_text(int code);

/** The word of a page's status, such as "not_found"; "unknown" for numbers that the library does not know. Lives
 *  for ever. */
PEERCACHE_API const char *peercache_status_text(uint32_t status);

/* ---- clients --------------------------------------------------------------------------------------------------- */

/** Connects to the node of this host and maps its pool.
 *  @param settings NULL: all as PEERCACHE_SETTINGS_INIT
 *  @param client receives the client, to be destroyed with peercache_destroy; NULL on errors
 *  Returns within the option `client.timeout`. Errors: INVALID_ARGUMENT (an unknown option, or a value that it may
 *  not have), UNREACHABLE, TIMED_OUT, REFUSED, INCOMPATIBLE, IO_FAILED. */
PEERCACHE_API int peercache_connect(const peercache_settings *settings, peercache_client **client);

/** Starts a whole node within this process, and connects to it: for tests and laptops. Its options are those of
 *  `peercache-node`; ports 0 take free ones. Arguments and errors: as peercache_connect; also the errors of a node
 *  that cannot start. The node ends, without draining, with the client. Returns within some seconds. */
PEERCACHE_API int peercache_embed(const peercache_settings *settings, peercache_client **client);

/** Ends all running calls of the client at once: pages that they have not decided are PEERCACHE_STATUS_CLOSED, and so
 *  are those of later calls. Does not wait for the calls. NULL: does nothing. */
PEERCACHE_API void peercache_close(peercache_client *client);

/** Closes the client, waits until its started calls are complete, their callbacks have returned, and frees it. Blocking
 *  calls must have returned before. Handles of started calls stay valid until peercache_call_free. NULL: does nothing.
 *  Errors: INVALID_ARGUMENT when called by a callback of this client, which would wait for itself; nothing is freed. */
PEERCACHE_API int peercache_destroy(peercache_client *client);

/** How pages of other hosts are fetched, and why: "tcp: no RDMA device". Lives as long as the client; "" for NULL. */
PEERCACHE_API const char *peercache_data_plane(const peercache_client *client);

/** Makes memory known to the RDMA devices, so that pages of other hosts are read straight into it; without a device it
 *  does nothing. Ranges must not overlap. The memory must stay in place until peercache_unregister or the client's end.
 *  Errors: INVALID_ARGUMENT, REFUSED (the limit of locked memory), CLOSED, IO_FAILED. */
PEERCACHE_API int peercache_register(peercache_client *client, void *memory, size_t bytes);

/** Undoes peercache_register of the memory that begins at `memory`; no get into it may be running. */
PEERCACHE_API int peercache_unregister(peercache_client *client, const void *memory);

/* ---- keys ------------------------------------------------------------------------------------------------------ */

/** Makes a space of keys from fields, in their order: the same fields give the same keys on every host. The first
 *  field names the space that peercache_clear clears. @param space to be freed with peercache_space_free */
PEERCACHE_API int peercache_space_create(const peercache_text *fields, size_t count, peercache_space **space);
/** Frees a space; NULL: does nothing. Its keys stay valid. */
PEERCACHE_API void peercache_space_free(peercache_space *space);
/** Makes the key of a page from the caller's own name of it, in some hundred nanoseconds. */
PEERCACHE_API int peercache_space_key(const peercache_space *space, const void *name, size_t bytes,
                                      peercache_key *key);

/* ---- pages, blocking ------------------------------------------------------------------------------------------- */

/** Copies pages into this host's pool; the pages of a batch are taken as one prefix chain, in order. STORED: the page is
 *  found by every client of this host at once, and by other hosts some hundred microseconds later; see peercache_flush.
 *  Errors: INVALID_ARGUMENT, INCOMPATIBLE, OUT_OF_MEMORY; then no result is written. */
PEERCACHE_API int peercache_set(peercache_client *client, const peercache_batch *batch);
/** Reads pages from wherever they are. Parts of pages that are not hits may have been written to. Errors: as set. */
PEERCACHE_API int peercache_get(peercache_client *client, const peercache_batch *batch);
/** Says which pages could be read now. With `hold_ms` those that are `held` stay where they are: their holder does not
 *  evict them, though they may be removed or cleared. A page is found and not held when it lies on a disk, when its
 *  holder does not answer in time, or when the share of its pool for held pages (`pool.hold_share`) is taken. A client
 *  that dies holds nothing beyond `hold_ms`. Errors: as set. */
PEERCACHE_API int peercache_exists(peercache_client *client, const peercache_batch *batch);
/** Withdraws pages. HIT: some node had the page, and none that was asked still has it. Errors: as set. */
PEERCACHE_API int peercache_remove(peercache_client *client, const peercache_batch *batch);

/** Starts to bring pages closer, best effort. Returns at once. */
PEERCACHE_API int peercache_prefetch(peercache_client *client, const peercache_key *keys, size_t count);

/** What became, since the last flush, of pages that set called STORED. Begin with PEERCACHE_FLUSHED_INIT. */
typedef struct peercache_flushed {
  uint32_t size;        /**< sizeof(peercache_flushed) */
  uint32_t reserved;    /**< 0. */
  uint64_t failed;      /**< Pages that other hosts do not find. */
  uint64_t duplicates;  /**< Pages that the cluster had already; the new copies were dropped. */
  uint64_t unpublished; /**< Pages, among the failed, that clients of this host do find. */
} peercache_flushed;
/** No numbers yet, and the size of this header's struct. */
#define PEERCACHE_FLUSHED_INIT                                                                                       \
  { sizeof(peercache_flushed), 0, 0, 0, 0 }

/** Waits until other hosts find all pages that were set so far. @param flushed may be NULL. Errors: TIMED_OUT, CLOSED,
 *  INVALID_ARGUMENT. */
PEERCACHE_API int peercache_flush(peercache_client *client, uint32_t deadline_ms, peercache_flushed *flushed);

/** A place where a page can be read. */
typedef struct peercache_location {
  uint64_t node;         /**< Id of the node: equal ids are one node. */
  uint32_t length_bytes; /**< Length of the page in bytes. */
  uint8_t on_disk;       /**< 1: on the node's disk; 0: in its pool. */
  uint8_t mirrored;      /**< 1: a reader made this copy, since the page is wanted often. */
  uint8_t reserved[2];   /**< Written as 0. */
  char node_name[256]; /**< Name of the node, with a zero byte at its end; "" when it left the cluster. */
} peercache_location;

/** Asks the directory where pages are.
 *  @param locations room for `count` times PEERCACHE_LOCATIONS_PER_KEY locations; those of key i begin at the i-th
 *      multiple of PEERCACHE_LOCATIONS_PER_KEY
 *  @param location_size sizeof(peercache_location): the distance of two locations
 *  @param found receives the number of locations of each key
 *  Errors: UNREACHABLE (no owner of a key answered), TIMED_OUT, CLOSED, INVALID_ARGUMENT. */
PEERCACHE_API int peercache_locate(peercache_client *client, const peercache_key *keys, size_t count,
                                   uint32_t deadline_ms, peercache_location *locations, size_t location_size,
                                   uint32_t *found);

/** Withdraws every page of all spaces whose first field is `first_field` ("" means spaces without fields), on every
 *  node and disk. OK: after the return no page that was set before the call is a hit for anybody. UNCERTAIN: some node has
 *  not confirmed it, and peercache_last_error() names it; on nodes that heard of it the pages are withdrawn all the same.
 *  Errors: CLOSED, INVALID_ARGUMENT. */
PEERCACHE_API int peercache_clear(peercache_client *client, peercache_text first_field, uint32_t deadline_ms);

/** Totals since the client was made. Begin with PEERCACHE_STATISTICS_INIT. */
typedef struct peercache_statistics {
  uint32_t size;                /**< sizeof(peercache_statistics) */
  uint32_t reserved;            /**< 0. */
  uint64_t directory_messages;  /**< Look-ups sent. */
  uint64_t location_cache_hits; /**< Pages whose place was known without asking. */
  uint64_t retries;             /**< Pages looked up once more after a stale location. */
  uint64_t view_refreshes;      /**< Look-ups that learned of a change of the cluster and asked again. */
  uint64_t set_bytes;           /**< Bytes of pages that were stored. */
  uint64_t set_pages[32];       /**< Pages by status (enum peercache_status). */
  uint64_t get_pages[32];       /**< Pages by status. */
  uint64_t exists_pages[32];    /**< Pages by status. */
  uint64_t get_hits[16];        /**< Hits by origin (enum peercache_origin). */
  uint64_t get_bytes[16];       /**< Bytes by origin. */
} peercache_statistics;
/** No totals yet, and the size of this header's struct. */
#define PEERCACHE_STATISTICS_INIT                                                                                    \
  { sizeof(peercache_statistics), 0, 0, 0, 0, 0, 0, {0}, {0}, {0}, {0}, {0} }

/** Reads the totals; members that the library does not know are 0. */
PEERCACHE_API int peercache_read_statistics(const peercache_client *client, peercache_statistics *statistics);

/* ---- pages, with a completion ---------------------------------------------------------------------------------- */

/** What peercache_start does with a batch. */
enum peercache_operation {
  PEERCACHE_OPERATION_SET = 1,
  PEERCACHE_OPERATION_GET = 2,
  PEERCACHE_OPERATION_EXISTS = 3,
  PEERCACHE_OPERATION_REMOVE = 4
};

/** A callback, called once by a thread of the library when all results are written. The callback may call every
 *  function except peercache_destroy of this client and peercache_call_free of this call; while it runs, its call
 *  counts among the `calls_max`.
 *  @param code what the blocking function would return */
typedef void (*peercache_callback)(int code, void *user);

/** How a started call tells that it is complete. Begin with PEERCACHE_COMPLETION_INIT. */
typedef struct peercache_completion {
  uint32_t size; /**< sizeof(peercache_completion) */
  int event_fd;  /**< The caller's eventfd, to which 1 is added; -1: none. The caller keeps it open until he has seen
                      that, or until peercache_call_free or peercache_destroy has returned. */
  peercache_callback callback; /**< NULL: none. Called before 1 is added to `event_fd`. */
  void *user;                  /**< Handed to the callback. */
} peercache_completion;
/** A completion that tells nobody, with the size of this header's struct. */
#define PEERCACHE_COMPLETION_INIT                                                                                    \
  { sizeof(peercache_completion), -1, NULL, NULL }

/** Begins what the blocking function of this operation does (peercache_set for PEERCACHE_OPERATION_SET), and returns
 *  at once. The deadline counts from this call on. Ownership: the batch, its pages and its arrays of parts are read
 *  before the return. The results, and the memory that the parts name, are lent until the completion.
 *  @param operation enum peercache_operation
 *  @param completion NULL: none; then wait for the call
 *  @param call receives a handle, to be freed with peercache_call_free; NULL: none is made
 *  Errors: as the blocking functions; REFUSED when `calls_max` calls are running. Then there is no completion, and `call`
 *  receives NULL. */
PEERCACHE_API int peercache_start(peercache_client *client, int operation, const peercache_batch *batch,
                                  const peercache_completion *completion, peercache_call **call);

/** Waits until the call is complete (its callback has returned) or the time has passed.
 *  @param at_most_ms 0: does not wait
 *  Returns what the blocking function would have returned, or PEERCACHE_RUNNING. */
PEERCACHE_API int peercache_call_wait(peercache_call *call, uint32_t at_most_ms);

/** Waits until the call is complete, and frees the handle; NULL: does nothing. */
PEERCACHE_API void peercache_call_free(peercache_call *call);

#ifdef __cplusplus
}
#endif

#endif
