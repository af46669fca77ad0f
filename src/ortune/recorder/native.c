/* Records or changes the use of ONNX Runtime in a program that is not Python.
 *
 * It is compiled as a shared library and loaded by LD_PRELOAD. Its OrtGetApiBase precedes that of ONNX Runtime: it calls
 * the original, and writes its own functions into the returned table. Entries of that table never change their index, so
 * no header of ONNX Runtime is needed. ORTUNE_RECORD and ORTUNE_APPLY name the folders; the files have the formats of
 * hook.py and apply_hook.py, which describe them. Python's onnxruntime does not use the table.
 *
 * Not recorded: functions that a program gets by dlsym from a library that it opened itself, because such a search leaves
 * out LD_PRELOAD. If this is OrtGetApiBase, watch.py lists the process. If it is one of the exported functions that append
 * an execution provider, the recording lacks the provider, because the C API does not return the providers of a session.
 *
 * After an error in this file nothing more is written, and the program continues.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <pthread.h>
#include <sched.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))

/* Indices in the function table of ONNX Runtime. */
enum {
  CREATE_STATUS = 0, ERROR_MESSAGE = 2,
  CREATE_SESSION = 7, CREATE_FROM_ARRAY = 8, RUN = 9, CREATE_OPTIONS = 10, SET_WRITTEN = 11, CLONE_OPTIONS = 12, SET_MODE = 13,
  ENABLE_PATTERN = 16, DISABLE_PATTERN = 17, ENABLE_ARENA = 18, DISABLE_ARENA = 19, SET_LEVEL = 23, SET_INTRA = 24,
  SET_INTER = 25, TENSOR_DATA = 51, ELEMENT_TYPE = 60, DIMENSIONS_COUNT = 61, DIMENSIONS = 62, ELEMENTS_COUNT = 64,
  TYPE_AND_SHAPE = 65, MEMORY_NAME = 71, RELEASE_STATUS = 93, RELEASE_SESSION = 95, RELEASE_TYPE_AND_SHAPE = 99,
  RELEASE_OPTIONS = 100, ADD_ENTRY = 130, RUN_BOUND = 133, RELEASE_BINDING = 135, BIND_INPUT = 136, CLEAR_BOUND = 141,
  APPEND_CUDA = 152, APPEND_ROCM = 153, APPEND_OPENVINO = 154, APPEND_TENSORRT = 159, SLOTS_8 = 170,
  APPEND_TENSORRT_V2 = 170, MEMORY_INFO = 194, SLOTS_10 = 204, APPEND_CUDA_V2 = 204, APPEND_MIGRAPHX = 209, APPEND_NAMED = 216,
  APPEND_CANN = 220, RUN_ASYNC = 260, SLOTS_16 = 261, APPEND_OPENVINO_V2 = 275, APPEND_VITISAI = 276, APPEND_DEVICES = 304,
  SET_POLICY = 305, SET_POLICY_FUNCTION = 306, DEVICE_PROVIDER = 312, SLOTS_22 = 313
};

typedef void *Pointer;
typedef struct { void **(*api)(uint32_t); const char *(*version)(void); } Base;

/* The layout of the file with the counters, as in hook.py. */
enum { HEADER = 16, ROWS = 2048, FIELDS = 16, KEPT = 16384, CALL = 4, WHOLE = 200, SAMPLED = 64, MOST_TIDS = 16 };
enum { MOST_RETURNED = 8, MOST_BOUND = 32, MASK = 1 << 16, HASHED_BYTES = 1 << 16, LIBRARIES = 4, MESSAGE = 300, NOT_IMPLEMENTED = 9 };
enum { FORMAT_AT, ROWS_AT, CALLS_AT, OWN_NS, CALL_NS, LOST, PLAIN_NS };
enum {
  COUNT, TOTAL_NS, LEAST_NS, MOST_NS, FAILED, INSPECTED, LISTS, STRIDED, CHAINED, MASKS, ONES, IN_NS, IN_WALL_NS,
  BETWEEN_NS, BETWEEN_WALL_NS, KEY
};
#define LOG_BYTES (16 << 20)
#define VALUE_BYTES (64 << 20)

typedef struct { char *text; size_t length, room; } Buffer;

/* An output of the last call; an input with the same memory or content counts as this output. */
typedef struct { const void *data; size_t bytes; uint64_t hash; } Returned;

typedef struct Row { struct Row *next; uint64_t hash; int64_t key, row, alone[FIELDS]; } Row;

typedef struct Session {
  struct Session *next;
  Pointer session;
  int64_t id, of, count, pool_ns, pool_wall_ns;  /* of: its number before a fork */
  int active, placed, n_tids, tids[MOST_TIDS], n_returned;
  int64_t returned_by;  /* number of the call that returned them */
  Returned returned[MOST_RETURNED];
  Row *rows;
} Session;

typedef struct Binding { struct Binding *next; Pointer binding; int n; char *names[MOST_BOUND], *values[MOST_BOUND]; } Binding;

typedef struct Options {
  struct Options *next;
  Pointer options;
  int intra, inter, mode, level, arena, pattern, n_entries, n_providers, selects, writes;
  char entries[16][2][96], providers[8][40];
  unsigned lacking;  /* providers that could not be appended, one bit each */
  int used;          /* whether a session was created, or tried, with these options */
  int64_t start_ns, took_ns;
  void *caller;
  char message[MESSAGE];
} Options;

/* The creation of a session, or of its options, with the error if it failed. */
typedef struct { int64_t start_ns, took_ns, memory_bytes; const int *tids; int n_tids, counted, created; const char *error; } Creation;

typedef struct Change { struct Change *next; int n; char sha256[65], kind[9], key[96], value[96], what[200]; int64_t bytes; } Change;

typedef struct Text { struct Text *next; uint64_t hash; char *text; int64_t id; } Text;

typedef struct { const char *folder; int fd; int64_t bytes; } Log;

/* One ONNX Runtime library of this process. Each has its own table and files. */
typedef struct Library {
  Base base, *real;            /* returned to the program, and returned by the library */
  void *own[SLOTS_22];         /* original functions */
  void **table;                /* the changed table; 0 before */
  int minor, values_fd;
  int64_t value_bytes;
  const char *version, *home, *path;
  Log record, apply;
  int64_t *ints, n_sessions, n_keys, n_texts, creating;
  Session *sessions;
  Options *known_options;
  Binding *bindings;
  Change *changes;
  Text *texts[1024];
  char name[64], parent[64];
} Library;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static Library libraries[LIBRARIES];
static int n_libraries, off, most_values;
static int64_t n_threads;
static __thread Library *lib;   /* library that this thread is calling */
static __thread void *from;     /* return address of that call */
static __thread int64_t thread_number = -1;

static int64_t now_ns(clockid_t clock) {
  struct timespec t;
  clock_gettime(clock, &t);
  return t.tv_sec * 1000000000LL + t.tv_nsec;
}

/* Text. */

static void put(Buffer *b, const char *format, ...) {
  va_list arguments;
  for (;;) {
    va_start(arguments, format);
    int n = vsnprintf(b->text ? b->text + b->length : 0, b->text ? b->room - b->length : 0, format, arguments);
    va_end(arguments);
    if (n < 0) return;
    if (b->text && b->length + n < b->room) { b->length += n; return; }
    size_t room = 2 * (b->length + n + 128);
    char *text = realloc(b->text, room);
    if (!text) { off = 1; return; }
    b->text = text; b->room = room;
  }
}

static int is_utf8(const unsigned char *at) {
  while (*at) {
    int more = *at < 0x80 ? 0 : *at >= 0xc2 && *at < 0xe0 ? 1 : *at >= 0xe0 && *at < 0xf0 ? 2 : *at >= 0xf0 && *at < 0xf5 ? 3 : -1;
    if (more < 0) return 0;
    for (at++; more; more--, at++) if ((*at & 0xc0) != 0x80) return 0;
  }
  return 1;
}

static void put_text(Buffer *b, const char *text) {
  int utf8 = is_utf8((const unsigned char *)text);
  put(b, "\"");
  for (const unsigned char *at = (const unsigned char *)text; *at; at++) {
    if (*at == '"' || *at == '\\') put(b, "\\%c", *at);
    else if (*at < 32 || *at == 127 || (*at > 127 && !utf8)) put(b, "\\u%04x", *at);
    else put(b, "%c", *at);
  }
  put(b, "\"");
}

static uint64_t hashed(uint64_t hash, const void *data, size_t n) {
  for (const unsigned char *at = data; n--; at++) hash = (hash ^ *at) * 1099511628211ULL;
  return hash;
}
#define SEED 14695981039346656037ULL

static void write_line(Log *log, Buffer *b) {
  if (!off && log->fd >= 0 && b->text) {
    put(b, "\n");
    if (log->bytes + (int64_t)b->length <= LOG_BYTES) {
      log->bytes += b->length;
      if (write(log->fd, b->text, b->length) < 0) off = 1;
    } else if (lib->ints && log == &lib->record) {
      lib->ints[LOST]++;
    }
  }
  free(b->text);
}

static int64_t interned(const char *kind, const char *text, const char *more) {
  uint64_t hash = hashed(hashed(SEED, kind, strlen(kind) + 1), text, strlen(text));
  for (Text *each = lib->texts[hash % 1024]; each; each = each->next)
    if (each->hash == hash && !strcmp(each->text, text)) return each->id;
  Text *fresh = calloc(1, sizeof *fresh);
  if (!fresh || !(fresh->text = strdup(text))) { off = 1; return 0; }
  fresh->hash = hash; fresh->id = lib->n_texts++; fresh->next = lib->texts[hash % 1024];
  lib->texts[hash % 1024] = fresh;
  Buffer b = {0};
  int raw = !strcmp(kind, "frames") || !strcmp(kind, "signature");
  put(&b, "{\"e\":\"%s\",\"id\":%lld,\"v\":", kind, (long long)fresh->id);
  if (raw) put(&b, "%s", text); else put_text(&b, text);
  put(&b, "%s}", more);
  write_line(&lib->record, &b);
  return fresh->id;
}

/* SHA-256 of models passed as bytes, and of files with the size of a model to change. */

static const uint32_t K[64] = {
  0x428a2f98,0x71374491,0xb5c0fbcf,0xe9b5dba5,0x3956c25b,0x59f111f1,0x923f82a4,0xab1c5ed5,0xd807aa98,0x12835b01,0x243185be,
  0x550c7dc3,0x72be5d74,0x80deb1fe,0x9bdc06a7,0xc19bf174,0xe49b69c1,0xefbe4786,0x0fc19dc6,0x240ca1cc,0x2de92c6f,0x4a7484aa,
  0x5cb0a9dc,0x76f988da,0x983e5152,0xa831c66d,0xb00327c8,0xbf597fc7,0xc6e00bf3,0xd5a79147,0x06ca6351,0x14292967,0x27b70a85,
  0x2e1b2138,0x4d2c6dfc,0x53380d13,0x650a7354,0x766a0abb,0x81c2c92e,0x92722c85,0xa2bfe8a1,0xa81a664b,0xc24b8b70,0xc76c51a3,
  0xd192e819,0xd6990624,0xf40e3585,0x106aa070,0x19a4c116,0x1e376c08,0x2748774c,0x34b0bcb5,0x391c0cb3,0x4ed8aa4a,0x5b9cca4f,
  0x682e6ff3,0x748f82ee,0x78a5636f,0x84c87814,0x8cc70208,0x90befffa,0xa4506ceb,0xbef9a3f7,0xc67178f2};
#define ROTATED(x, n) ((x) >> (n) | (x) << (32 - (n)))

static void block(uint32_t h[8], const unsigned char *p) {
  uint32_t w[64], s[8];
  for (int i = 0; i < 16; i++) w[i] = (uint32_t)p[4 * i] << 24 | p[4 * i + 1] << 16 | p[4 * i + 2] << 8 | p[4 * i + 3];
  for (int i = 16; i < 64; i++)
    w[i] = w[i - 16] + w[i - 7] + (ROTATED(w[i - 15], 7) ^ ROTATED(w[i - 15], 18) ^ w[i - 15] >> 3) +
           (ROTATED(w[i - 2], 17) ^ ROTATED(w[i - 2], 19) ^ w[i - 2] >> 10);
  memcpy(s, h, sizeof s);
  for (int i = 0; i < 64; i++) {
    uint32_t one = s[7] + (ROTATED(s[4], 6) ^ ROTATED(s[4], 11) ^ ROTATED(s[4], 25)) + ((s[4] & s[5]) ^ (~s[4] & s[6])) + K[i] + w[i];
    uint32_t two = (ROTATED(s[0], 2) ^ ROTATED(s[0], 13) ^ ROTATED(s[0], 22)) + ((s[0] & s[1]) ^ (s[0] & s[2]) ^ (s[1] & s[2]));
    memmove(s + 1, s, 7 * sizeof *s);
    s[4] += one; s[0] = one + two;
  }
  for (int i = 0; i < 8; i++) h[i] += s[i];
}

static void sha256(const unsigned char *data, size_t n, char out[65]) {
  uint32_t h[8] = {0x6a09e667,0xbb67ae85,0x3c6ef372,0xa54ff53a,0x510e527f,0x9b05688c,0x1f83d9ab,0x5be0cd19};
  unsigned char last[128] = {0};
  size_t whole = n / 64 * 64, rest = n - whole, end = rest < 56 ? 64 : 128;
  for (size_t at = 0; at < whole; at += 64) block(h, data + at);
  memcpy(last, data + whole, rest);
  last[rest] = 0x80;
  for (int i = 0; i < 8; i++) last[end - 1 - i] = (uint64_t)n * 8 >> 8 * i;
  for (size_t at = 0; at < end; at += 64) block(h, last + at);
  for (int i = 0; i < 8; i++) sprintf(out + 8 * i, "%08x", h[i]);
}

static void file_sha256(const char *path, int64_t bytes, char out[65]) {
  out[0] = 0;
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return;
  void *data = mmap(0, bytes, PROT_READ, MAP_PRIVATE, fd, 0);
  if (data != MAP_FAILED) { sha256(data, bytes, out); munmap(data, bytes); }
  close(fd);
}

/* Threads. */

static int tasks(int *tids, int most) {
  DIR *folder = opendir("/proc/self/task");
  int n = 0;
  if (!folder) return 0;
  for (struct dirent *each; (each = readdir(folder)) && n < most;)
    if (each->d_name[0] != '.') tids[n++] = atoi(each->d_name);
  closedir(folder);
  return n;
}

static int64_t cpu_ns(const Session *s) {
  int64_t total = 0;
  for (int i = 0; i < s->n_tids; i++) {
    char path[64], text[64];
    snprintf(path, sizeof path, "/proc/self/task/%d/schedstat", s->tids[i]);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) continue;
    ssize_t n = read(fd, text, sizeof text - 1);
    close(fd);
    if (n > 0) { text[n] = 0; total += atoll(text); }
  }
  return total;
}

static void put_cpus(Buffer *b, int tid) {
  cpu_set_t set;
  CPU_ZERO(&set);
  put(b, "[");
  if (!sched_getaffinity(tid, sizeof set, &set))
    for (int cpu = 0, first = 1; cpu < CPU_SETSIZE; cpu++)
      if (CPU_ISSET(cpu, &set)) { put(b, first ? "%d" : ",%d", cpu); first = 0; }
  put(b, "]");
}

static int64_t resident_bytes(void) {
  char text[128];
  long long pages = 0;
  int fd = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
  ssize_t n = fd < 0 ? 0 : read(fd, text, sizeof text - 1);
  if (fd >= 0) close(fd);
  text[n > 0 ? n : 0] = 0;
  sscanf(text, "%*s %lld", &pages);
  return pages * sysconf(_SC_PAGESIZE);
}

static int64_t thread(void) {
  if (thread_number < 0) thread_number = __sync_fetch_and_add(&n_threads, 1);
  return thread_number;
}

/* The log and the counters of this process. */

static const char *VARIABLES[] = {
  "ORT_LOAD_CONFIG_FROM_MODEL", "ORT_INTRA_OP_NUM_THREADS", "ORT_INTER_OP_NUM_THREADS", "ORT_DISABLE_TELEMETRY",
  "OMP_NUM_THREADS", "OMP_WAIT_POLICY", "KMP_BLOCKTIME", "MALLOC_ARENA_MAX", 0};

static void open_log(Log *log) {
  char path[4200];
  snprintf(path, sizeof path, "%s/%s.log", log->folder, lib->name);
  log->fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0600);
  log->bytes = 0;
}

static void begin(void) {
  char path[4200], words[4096];
  snprintf(lib->name, sizeof lib->name, "%d-%lld", getpid(), (long long)now_ns(CLOCK_REALTIME));
  if (lib->apply.folder) {
    open_log(&lib->apply);
    Buffer b = {0};
    put(&b, "{\"e\":\"process\",\"format\":1,\"pid\":%d,\"home\":", getpid());
    put_text(&b, lib->home);
    put(&b, ",\"version\":"); put_text(&b, lib->version); put(&b, "}");
    write_line(&lib->apply, &b);
  }
  if (!lib->record.folder) return;
  open_log(&lib->record);
  Buffer b = {0};
  put(&b, "{\"e\":\"process\",\"format\":1,\"pid\":%d,\"parent\":\"%s\",\"ns\":%lld,\"python\":\"\",\"version\":", getpid(),
      lib->parent, (long long)now_ns(CLOCK_MONOTONIC));
  put_text(&b, lib->version);
  put(&b, ",\"home\":"); put_text(&b, lib->home);
  ssize_t n = readlink("/proc/self/exe", words, sizeof words - 1);
  words[n > 0 ? n : 0] = 0;
  put(&b, ",\"executable\":"); put_text(&b, words);
  put(&b, ",\"argv\":[");
  int fd = open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC);
  n = fd < 0 ? 0 : read(fd, words, sizeof words - 1);
  if (fd >= 0) close(fd);
  words[n > 0 ? n : 0] = 0;
  for (char *at = words; at < words + n; at += strlen(at) + 1) { if (at > words) put(&b, ","); put_text(&b, at); }
  put(&b, "],\"cpus\":"); put_cpus(&b, 0);
  put(&b, ",\"variables\":{");
  for (int i = 0, first = 1; VARIABLES[i]; i++) {
    const char *value = getenv(VARIABLES[i]);
    if (!value) continue;
    if (!first) put(&b, ",");
    put_text(&b, VARIABLES[i]); put(&b, ":"); put_text(&b, value);
    first = 0;
  }
  put(&b, "}}");
  write_line(&lib->record, &b);
  size_t size = 8 * (HEADER + ROWS * FIELDS + KEPT * CALL);
  snprintf(path, sizeof path, "%s/%s.calls", lib->record.folder, lib->name);
  fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (fd < 0 || posix_fallocate(fd, 0, size)) { off = 1; if (fd >= 0) close(fd); return; }
  lib->ints = mmap(0, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  close(fd);
  if (lib->ints == MAP_FAILED) { lib->ints = 0; off = 1; return; }
  lib->ints[FORMAT_AT] = 1;
  for (Session *each = lib->sessions; each; each = each->next) {
    memset(&b, 0, sizeof b);
    each->id = ++lib->n_sessions;
    put(&b, "{\"e\":\"inherited\",\"id\":%lld,\"of\":%lld,\"threads\":%d}", (long long)each->id, (long long)each->of, each->n_tids);
    write_line(&lib->record, &b);
    each->n_tids = 0;
  }
}

static void child(void) {
  /* The child writes its own files, with the sessions of its parent, from its first use of ONNX Runtime on. */
  pthread_mutex_init(&lock, 0);
  for (Library *each = libraries; each < libraries + n_libraries; each++) {
    if (each->record.fd >= 0) close(each->record.fd);
    if (each->apply.fd >= 0) close(each->apply.fd);
    if (each->values_fd >= 0) close(each->values_fd);
    each->record.fd = each->apply.fd = each->values_fd = -1;
    memset(each->texts, 0, sizeof each->texts);
    for (Session *s = each->name[0] ? each->sessions : 0; s; s = s->next) {
      s->of = s->id; s->rows = 0; s->count = s->active = s->placed = s->n_returned = 0; s->pool_ns = -1;
    }
    if (each->name[0]) strcpy(each->parent, each->name);
    each->ints = 0; each->name[0] = 0;
    each->n_sessions = each->n_keys = each->n_texts = each->creating = each->value_bytes = 0;
  }
}

static void started(void) { if (!lib->name[0] && !off) begin(); }

/* Settings. */

static Options *options_of(Pointer options, int create) {
  for (Options *each = lib->known_options; each; each = each->next) if (each->options == options) return each;
  if (!create) return 0;
  Options *fresh = calloc(1, sizeof *fresh);
  if (!fresh) { off = 1; return 0; }
  fresh->options = options; fresh->level = 99; fresh->arena = fresh->pattern = 1;
  fresh->next = lib->known_options;
  return lib->known_options = fresh;
}

static void set_entry(Options *o, const char *key, const char *value) {
  int n = 0;
  while (n < o->n_entries && strcmp(o->entries[n][0], key)) n++;
  if (n == 16 || strlen(key) > 95 || strlen(value) > 95) return;
  if (n == o->n_entries) o->n_entries++;
  strcpy(o->entries[n][0], key); strcpy(o->entries[n][1], value);
}

static void add_provider(Options *o, const char *name, int lacking) {
  int i = 0;
  while (i < o->n_providers && strcmp(o->providers[i], name)) i++;
  if (i == 8 || strlen(name) >= sizeof *o->providers) return;
  if (i == o->n_providers) strcpy(o->providers[o->n_providers++], name);
  o->lacking = (o->lacking & ~(1u << i)) | (unsigned)lacking << i;
}

/* Note a provider that a program appended, or tried to; returns the status. */
static Pointer appended(Pointer options, const char *name, int64_t start_ns, Pointer status) {
  pthread_mutex_lock(&lock);
  Options *o = name ? options_of(options, 1) : 0;
  if (o) add_provider(o, name, status != 0);
  if (o && status) {
    const char *message = ((const char *(*)(Pointer))lib->own[ERROR_MESSAGE])(status);
    snprintf(o->message, sizeof o->message, "%s", message ? message : "");
    o->start_ns = start_ns; o->took_ns = now_ns(CLOCK_MONOTONIC) - start_ns; o->caller = from;
  }
  pthread_mutex_unlock(&lock);
  return status;
}

static const char *level_name(int level) {
  return level == 0 ? "ORT_DISABLE_ALL" : level == 1 ? "ORT_ENABLE_BASIC" : level == 2 ? "ORT_ENABLE_EXTENDED" :
         level == 3 ? "ORT_ENABLE_LAYOUT" : "ORT_ENABLE_ALL";
}

static int64_t written_options(Pointer options) {
  Options usual = {.level = 99, .arena = 1, .pattern = 1};
  Options *o = options ? options_of(options, 0) : 0;
  Buffer b = {0};
  if (!o) o = &usual;
  put(&b, "{\"intra_op_num_threads\":%d,\"inter_op_num_threads\":%d,\"execution_mode\":\"%s\",", o->intra, o->inter,
      o->mode ? "ORT_PARALLEL" : "ORT_SEQUENTIAL");
  put(&b, "\"graph_optimization_level\":\"%s\",\"enable_cpu_mem_arena\":%s,\"enable_mem_pattern\":%s", level_name(o->level),
      o->arena ? "true" : "false", o->pattern ? "true" : "false");
  for (int i = 0; i < o->n_entries; i++) {
    put(&b, ","); put_text(&b, o->entries[i][0]); put(&b, ":"); put_text(&b, o->entries[i][1]);
  }
  put(&b, "}");
  int64_t id = b.text ? interned("options", b.text, "") : 0;
  free(b.text);
  return id;
}

/* Write the execution providers that a program appended, and those of its session, which also has the CPU provider; return
   their id. The latter are unknown if ONNX Runtime selects them by a policy. */
static int64_t written_providers(Pointer options, int created) {
  static const char *const CPU = "CPUExecutionProvider";
  Options *o = options ? options_of(options, 0) : 0;
  Buffer b = {0};
  int n = o ? o->n_providers : 0, cpu = 0, first = 1;
  if (o && o->selects) created = 0;
  put(&b, n ? "[[" : "[null");
  for (int i = 0; i < n; i++) { if (i) put(&b, ","); put_text(&b, o->providers[i]); }
  put(&b, n ? "],[" : ",[");
  for (int i = 0; created && i < n; i++) {
    if (o->lacking >> i & 1) continue;
    if (!first) put(&b, ",");
    put_text(&b, o->providers[i]);
    cpu |= !strcmp(o->providers[i], CPU);
    first = 0;
  }
  if (created && !cpu) { if (!first) put(&b, ","); put_text(&b, CPU); }
  put(&b, "]]");
  int64_t id = b.text ? interned("providers", b.text, "") : 0;
  free(b.text);
  return id;
}

typedef Pointer (*Set)(Pointer, int64_t);
typedef Pointer (*Plain)(Pointer);
typedef Pointer (*Entry)(Pointer, const char *, const char *);
typedef Pointer (*Clone)(Pointer, Pointer *);
typedef void (*Release)(Pointer);

#define UNDER_LOCK(statement) do { pthread_mutex_lock(&lock); statement; pthread_mutex_unlock(&lock); } while (0)
#define NOTED(function, slot, field, type, value)                                     \
  static Pointer function(Pointer options, type given) {                              \
    Pointer status = ((Pointer(*)(Pointer, type))lib->own[slot])(options, given);          \
    if (!status) UNDER_LOCK(Options *o = options_of(options, 1); if (o) o->field = value); \
    return status;                                                                    \
  }
#define SWITCHED(function, slot, field, value)                                        \
  static Pointer function(Pointer options) {                                          \
    Pointer status = ((Plain)lib->own[slot])(options);                                     \
    if (!status) UNDER_LOCK(Options *o = options_of(options, 1); if (o) o->field = value); \
    return status;                                                                    \
  }
#define APPENDED(function, slot, name)                                                            \
  static Pointer function(Pointer options, Pointer given) {                                       \
    int64_t start_ns = now_ns(CLOCK_MONOTONIC);                                                   \
    return appended(options, name, start_ns, ((Clone)lib->own[slot])(options, given));            \
  }
APPENDED(append_cuda, APPEND_CUDA, "CUDAExecutionProvider")
APPENDED(append_cuda_v2, APPEND_CUDA_V2, "CUDAExecutionProvider")
APPENDED(append_rocm, APPEND_ROCM, "ROCMExecutionProvider")
APPENDED(append_openvino, APPEND_OPENVINO, "OpenVINOExecutionProvider")
APPENDED(append_tensorrt, APPEND_TENSORRT, "TensorrtExecutionProvider")
APPENDED(append_tensorrt_v2, APPEND_TENSORRT_V2, "TensorrtExecutionProvider")
APPENDED(append_migraphx, APPEND_MIGRAPHX, "MIGraphXExecutionProvider")
APPENDED(append_cann, APPEND_CANN, "CANNExecutionProvider")
NOTED(set_intra, SET_INTRA, intra, int, given)
NOTED(set_inter, SET_INTER, inter, int, given)
NOTED(set_mode, SET_MODE, mode, int, given)
NOTED(set_level, SET_LEVEL, level, int, given)
NOTED(set_written, SET_WRITTEN, writes, const char *, given && *given)
SWITCHED(enable_pattern, ENABLE_PATTERN, pattern, 1)
SWITCHED(disable_pattern, DISABLE_PATTERN, pattern, 0)
SWITCHED(enable_arena, ENABLE_ARENA, arena, 1)
SWITCHED(disable_arena, DISABLE_ARENA, arena, 0)

static Pointer create_options(Pointer *out) {
  Pointer status = ((Pointer(*)(Pointer *))lib->own[CREATE_OPTIONS])(out);
  if (!status) UNDER_LOCK(options_of(*out, 1));
  return status;
}

static Pointer add_entry(Pointer options, const char *key, const char *value) {
  Pointer status = ((Entry)lib->own[ADD_ENTRY])(options, key, value);
  if (!status && key && value) UNDER_LOCK(Options *o = options_of(options, 1); if (o) set_entry(o, key, value));
  return status;
}

typedef const char *const *Names;

static Pointer append_named(Pointer options, const char *name, Names keys, Names values, size_t n) {
  typedef Pointer (*Append)(Pointer, const char *, Names, Names, size_t);
  int64_t start_ns = now_ns(CLOCK_MONOTONIC);
  return appended(options, name, start_ns, ((Append)lib->own[APPEND_NAMED])(options, name, keys, values, n));
}

#define APPENDED_BY_KEYS(function, slot, name)                                                                    \
  static Pointer function(Pointer options, Names keys, Names values, size_t n) {                                  \
    typedef Pointer (*Append)(Pointer, Names, Names, size_t);                                                     \
    int64_t start_ns = now_ns(CLOCK_MONOTONIC);                                                                   \
    return appended(options, name, start_ns, ((Append)lib->own[slot])(options, keys, values, n));                 \
  }
APPENDED_BY_KEYS(append_openvino_v2, APPEND_OPENVINO_V2, "OpenVINOExecutionProvider")
APPENDED_BY_KEYS(append_vitisai, APPEND_VITISAI, "VitisAIExecutionProvider")

static Pointer append_devices(Pointer options, Pointer env, Pointer const *devices, size_t n, Names keys, Names values, size_t n_keys) {
  typedef Pointer (*Append)(Pointer, Pointer, Pointer const *, size_t, Names, Names, size_t);
  int64_t start_ns = now_ns(CLOCK_MONOTONIC);
  Pointer status = ((Append)lib->own[APPEND_DEVICES])(options, env, devices, n, keys, values, n_keys);
  for (size_t i = 0; i < n; i++)
    appended(options, ((const char *(*)(Pointer))lib->own[DEVICE_PROVIDER])(devices[i]), start_ns, status);
  return status;
}

NOTED(set_policy, SET_POLICY, selects, int, 1)

static Pointer set_policy_function(Pointer options, Pointer function, Pointer state) {
  Pointer status = ((Pointer(*)(Pointer, Pointer, Pointer))lib->own[SET_POLICY_FUNCTION])(options, function, state);
  if (!status) UNDER_LOCK(Options *o = options_of(options, 1); if (o) o->selects = 1);
  return status;
}

static Pointer clone_options(Pointer options, Pointer *out) {
  Pointer status = ((Clone)lib->own[CLONE_OPTIONS])(options, out);
  if (!status) {
    pthread_mutex_lock(&lock);
    Options *from = options_of(options, 0), *to = options_of(*out, 1);
    if (from && to) { Options *next = to->next; *to = *from; to->options = *out; to->next = next; from->used = 1; }
    pthread_mutex_unlock(&lock);
  }
  return status;
}

/* Changes. */

static void read_changes(void) {
  char path[4200], line[1024];
  snprintf(path, sizeof path, "%s/native.txt", lib->apply.folder);
  FILE *file = fopen(path, "re");
  Change **last = &lib->changes;
  if (!file) return;
  while (fgets(line, sizeof line, file)) {
    Change *fresh = calloc(1, sizeof *fresh);
    long long bytes = 0;
    line[strcspn(line, "\n")] = 0;
    if (fresh && sscanf(line, "%d\t%64[0-9a-f]\t%lld\t%8[a-z]\t%95[^\t]\t%95[^\t]\t%199[^\t]", &fresh->n, fresh->sha256, &bytes,
                        fresh->kind, fresh->key, fresh->value, fresh->what) >= 4) {
      fresh->bytes = bytes; *last = fresh; last = &fresh->next;
    } else {
      free(fresh);
    }
  }
  fclose(file);
}

static Pointer set_one(Pointer options, const Change *change) {
  int value = atoi(change->value);
  if (!strcmp(change->kind, "entry")) return ((Entry)lib->own[ADD_ENTRY])(options, change->key, change->value);
  if (!strcmp(change->key, "intra_op_num_threads")) return ((Pointer(*)(Pointer, int))lib->own[SET_INTRA])(options, value);
  if (!strcmp(change->key, "inter_op_num_threads")) return ((Pointer(*)(Pointer, int))lib->own[SET_INTER])(options, value);
  if (!strcmp(change->key, "execution_mode")) return ((Pointer(*)(Pointer, int))lib->own[SET_MODE])(options, value);
  if (!strcmp(change->key, "graph_optimization_level")) return ((Pointer(*)(Pointer, int))lib->own[SET_LEVEL])(options, value);
  if (!strcmp(change->key, "enable_cpu_mem_arena")) return ((Plain)lib->own[value ? ENABLE_ARENA : DISABLE_ARENA])(options);
  if (!strcmp(change->key, "enable_mem_pattern")) return ((Plain)lib->own[value ? ENABLE_PATTERN : DISABLE_PATTERN])(options);
  return 0;
}

/* Return a copy of the options with the changes for a model, and log the changes; 0 if there are none. */
static Pointer changed_options(Pointer options, const char *path, const char *digest, int64_t bytes) {
  Buffer b = {0};
  Pointer copy = 0, status = 0;
  int n = -1;
  const char *file = path ? strrchr(path, '/') : 0;
  for (Change *each = lib->changes; each; each = each->next) if (!strcmp(each->sha256, digest)) n = each->n;
  if (n < 0) {
    put(&b, "{\"e\":\"session\",\"n\":-1,\"how\":\"unmatched\",\"name\":");
    put_text(&b, path ? (file ? file + 1 : path) : "bytes");
    put(&b, "}");
    write_line(&lib->apply, &b);
    return 0;
  }
  status = options ? ((Clone)lib->own[CLONE_OPTIONS])(options, &copy) : ((Pointer(*)(Pointer *))lib->own[CREATE_OPTIONS])(&copy);
  put(&b, "{\"e\":\"session\",\"n\":%d,\"how\":\"created\",\"what\":[", n);
  static const char *const UNCHANGED[][2] = {
    {"share", "not shared"}, {"provider", "execution provider not changed"}, {"model", "model not replaced"}};
  Buffer kept = {0};
  int first = 1;
  for (Change *each = lib->changes; each && !status && copy; each = each->next) {
    if (each->n != n || strcmp(each->sha256, digest)) continue;
    for (int i = 0; i < 3; i++)
      if (!strcmp(each->kind, UNCHANGED[i][0]))
        put(&kept, "%s\"%s: not a Python program\"", kept.length ? "," : "", UNCHANGED[i][1]);
    if (strcmp(each->kind, "option") && strcmp(each->kind, "entry")) continue;
    status = set_one(copy, each);
    if (status) break;
    if (!first) put(&b, ",");
    put_text(&b, each->what);
    first = 0;
  }
  put(&b, "],\"kept\":[%s]}", kept.text ? kept.text : "");
  free(kept.text);
  if (status) {
    ((Release)lib->own[RELEASE_STATUS])(status);
    if (copy) ((Release)lib->own[RELEASE_OPTIONS])(copy);
    free(b.text);
    return 0;
  }
  write_line(&lib->apply, &b);
  (void)bytes;
  return copy;
}

/* Sessions. */

static int64_t caller_frames(void *address) {
  Dl_info info;
  Buffer b = {0};
  int known = dladdr(address, &info);
  put(&b, "[[");
  put_text(&b, known && info.dli_fname ? info.dli_fname : "");
  put(&b, ",0,"); put_text(&b, known && info.dli_sname ? info.dli_sname : "");
  put(&b, "]]");
  int64_t id = b.text ? interned("frames", b.text, "") : 0;
  free(b.text);
  return id;
}

static Session *add_session(Pointer session, const char *model, Pointer options, void *caller, const Creation *how) {
  Session *fresh = calloc(1, sizeof *fresh);
  if (!fresh) { off = 1; return 0; }
  fresh->session = session; fresh->id = ++lib->n_sessions; fresh->pool_ns = -1;
  Buffer b = {0};
  int64_t model_id = interned("model", model, ""), options_id = written_options(options);
  int64_t asked = options ? options_id : interned("options", "null", "");
  int64_t providers = written_providers(options, how->created && !how->error), frames = caller_frames(caller);
  Options *o = options ? options_of(options, 0) : 0;
  put(&b, "{\"e\":\"session\",\"id\":%lld,\"ns\":%lld,\"took_ns\":%lld,\"failed\":\"%s\",\"loop\":false,\"writes_model\":%s,\"tids\":",
      (long long)fresh->id, (long long)how->start_ns, (long long)how->took_ns, how->error ? "OrtStatus" : "",
      o && o->writes ? "true" : "false");
  if (how->counted) {
    put(&b, "[");
    for (int i = 0; i < how->n_tids; i++) put(&b, i ? ",%d" : "%d", how->tids[i]);
    put(&b, "]");
    fresh->n_tids = how->n_tids < MOST_TIDS ? how->n_tids : MOST_TIDS;
    memcpy(fresh->tids, how->tids, fresh->n_tids * sizeof *how->tids);
  } else {
    put(&b, "null");
  }
  if (how->counted && how->created) put(&b, ",\"memory_bytes\":%lld", (long long)how->memory_bytes);
  if (how->error) { put(&b, ",\"message\":"); put_text(&b, how->error); }
  put(&b, ",\"thread\":%lld,\"model\":%lld,\"asked\":%lld,\"used\":%lld,\"providers\":%lld,\"frames\":%lld}",
      (long long)thread(), (long long)model_id, (long long)asked, (long long)options_id, (long long)providers,
      (long long)frames);
  write_line(&lib->record, &b);
  if (how->error) { free(fresh); return 0; }
  fresh->next = lib->sessions;
  return lib->sessions = fresh;
}

static void release_options(Pointer options) {
  pthread_mutex_lock(&lock);
  Options **at = &lib->known_options;
  while (*at && (*at)->options != options) at = &(*at)->next;
  Options *gone = *at;
  if (gone && gone->lacking && !gone->used && lib->record.folder && !off) {
    /* A program gives up if a provider cannot be appended, before it names a model. */
    Creation how = {.start_ns = gone->start_ns, .took_ns = gone->took_ns, .error = gone->message};
    started();
    add_session(0, "{}", options, gone->caller, &how);
  }
  if (gone) { *at = gone->next; free(gone); }
  pthread_mutex_unlock(&lock);
  ((Release)lib->own[RELEASE_OPTIONS])(options);
}

static Pointer create(int slot, Pointer env, const void *model, size_t n, Pointer options, Pointer *out) {
  void *caller = from;
  char digest[65] = "", *path = slot == CREATE_SESSION ? realpath(model, 0) : 0;
  int before[4096], after[4096], fresh[4096], n_before = 0, n_fresh = 0, counted = 0;
  int64_t began_ns = now_ns(CLOCK_THREAD_CPUTIME_ID), bytes = n, resident = 0;
  Pointer copy = 0, status;
  struct stat status_of = {0};
  Buffer b = {0};
  pthread_mutex_lock(&lock);
  started();
  if (path && !stat(path, &status_of)) bytes = status_of.st_size;
  if (!off) {
    int possible = slot != CREATE_SESSION;
    for (Change *each = lib->changes; each; each = each->next) possible |= !each->bytes || each->bytes == bytes;
    if (slot != CREATE_SESSION) sha256(model, n, digest);
    else if (path && lib->apply.folder && possible && bytes > 0) file_sha256(path, bytes, digest);
    if (path)
      { put(&b, "{\"path\":"); put_text(&b, path);
        put(&b, ",\"bytes\":%lld,\"mtime_ns\":%lld}", (long long)bytes,
            status_of.st_mtim.tv_sec * 1000000000LL + status_of.st_mtim.tv_nsec); }
    else if (slot == CREATE_SESSION)
      { put(&b, "{\"path\":"); put_text(&b, model); put(&b, "}"); }
    else put(&b, "{\"sha256\":\"%s\",\"bytes\":%lld}", digest, (long long)bytes);
    if (lib->apply.folder) copy = changed_options(options, path ? path : slot == CREATE_SESSION ? model : 0, digest, bytes);
    counted = ++lib->creating == 1;
    n_before = tasks(before, 4096);
    Options *o = options ? options_of(options, 0) : 0;
    if (o) o->used = 1;
    resident = resident_bytes();
  }
  pthread_mutex_unlock(&lock);
  int64_t own_ns = now_ns(CLOCK_THREAD_CPUTIME_ID) - began_ns, start_ns = now_ns(CLOCK_MONOTONIC);
  if (slot == CREATE_SESSION)
    status = ((Pointer(*)(Pointer, const void *, Pointer, Pointer *))lib->own[slot])(env, model, copy ? copy : options, out);
  else
    status = ((Pointer(*)(Pointer, const void *, size_t, Pointer, Pointer *))lib->own[slot])(env, model, n, copy ? copy : options, out);
  int64_t end_ns = now_ns(CLOCK_MONOTONIC);
  began_ns = now_ns(CLOCK_THREAD_CPUTIME_ID);
  pthread_mutex_lock(&lock);
  if (!off && lib->record.folder && b.text) {
    counted = counted && lib->creating == 1;
    int n_after = counted && !status ? tasks(after, 4096) : 0;
    for (int i = 0; i < n_after; i++) {
      int seen = 0;
      for (int j = 0; j < n_before; j++) seen |= before[j] == after[i];
      if (!seen) fresh[n_fresh++] = after[i];
    }
    const char *error = status ? ((const char *(*)(Pointer))lib->own[ERROR_MESSAGE])(status) : 0;
    char message[MESSAGE];
    snprintf(message, sizeof message, "%s", error ? error : "");
    Creation how = {start_ns, end_ns - start_ns, resident_bytes() - resident, fresh, n_fresh, counted, 1, status ? message : 0};
    add_session(status ? 0 : *out, b.text, options, caller, &how);
    if (lib->ints) lib->ints[OWN_NS] += own_ns + now_ns(CLOCK_THREAD_CPUTIME_ID) - began_ns;
  }
  if (lib->creating) lib->creating--;
  pthread_mutex_unlock(&lock);
  if (copy) ((Release)lib->own[RELEASE_OPTIONS])(copy);
  free(b.text); free(path);
  return status;
}

static Pointer create_session(Pointer env, const char *path, Pointer options, Pointer *out) {
  return create(CREATE_SESSION, env, path, 0, options, out);
}

static Pointer create_from_array(Pointer env, const void *data, size_t n, Pointer options, Pointer *out) {
  return create(CREATE_FROM_ARRAY, env, data, n, options, out);
}

static void release_session(Pointer session) {
  pthread_mutex_lock(&lock);
  for (Session **at = &lib->sessions; session && *at; at = &(*at)->next) {
    if ((*at)->session != session) continue;
    Session *gone = *at;
    Buffer b = {0};
    *at = gone->next;
    put(&b, "{\"e\":\"closed\",\"id\":%lld,\"ns\":%lld,\"rows\":[", (long long)gone->id, (long long)now_ns(CLOCK_MONOTONIC));
    for (Row *row = gone->rows; row;) {
      Row *next = row->next;
      int64_t *values = row->row && lib->ints ? lib->ints + HEADER + row->row * FIELDS : row->alone;
      put(&b, "[%lld", (long long)row->key);
      for (int i = 0; i < FIELDS - 1; i++) put(&b, ",%lld", (long long)values[i]);
      put(&b, next ? "]," : "]");
      free(row);
      row = next;
    }
    put(&b, "]}");
    write_line(&lib->record, &b);
    free(gone);
    break;
  }
  pthread_mutex_unlock(&lock);
  ((Release)lib->own[RELEASE_SESSION])(session);
}

/* Calls. */

static const char *TYPES[] = {
  "", "float32", "uint8", "int8", "uint16", "int16", "int32", "int64", "str", "bool", "float16", "float64", "uint32", "uint64",
  "complex64", "complex128", "bfloat16"};

static void put_value(Buffer *b, Pointer value) {
  Pointer info = 0, status = value ? ((Clone)lib->own[TYPE_AND_SHAPE])(value, &info) : 0;
  int type = 0;
  size_t n = 0;
  int64_t sizes[16];
  if (status) ((Release)lib->own[RELEASE_STATUS])(status);
  if (!info) { put(b, "\"\",null"); return; }
  ((Pointer(*)(Pointer, int *))lib->own[ELEMENT_TYPE])(info, &type);
  ((Pointer(*)(Pointer, size_t *))lib->own[DIMENSIONS_COUNT])(info, &n);
  put(b, "\"%s\",[", type > 0 && type < 17 ? TYPES[type] : "");
  if (n <= 16) {
    ((Pointer(*)(Pointer, int64_t *, size_t))lib->own[DIMENSIONS])(info, sizes, n);
    for (size_t i = 0; i < n; i++) put(b, i ? ",%lld" : "%lld", (long long)sizes[i]);
  }
  put(b, "]");
  ((Release)lib->own[RELEASE_TYPE_AND_SHAPE])(info);
}

static Row *row_of(Session *s, const char *text, void *caller, Pointer const *outputs, size_t n_outputs) {
  uint64_t hash = hashed(hashed(SEED, &caller, sizeof caller), text, strlen(text));
  for (Row *each = s->rows; each; each = each->next) if (each->hash == hash) return each;
  Row *fresh = calloc(1, sizeof *fresh);
  if (!fresh) { off = 1; return 0; }
  Buffer b = {0}, more = {0};
  if (s->n_tids && !s->placed) {
    Buffer cpus = {0};
    s->placed = 1;
    put(&cpus, "[");
    for (int i = 0; i < s->n_tids; i++) { if (i) put(&cpus, ","); put_cpus(&cpus, s->tids[i]); }
    put(&cpus, "]");
    int64_t id = cpus.text ? interned("cpus", cpus.text, "") : 0;
    free(cpus.text);
    put(&b, "{\"e\":\"placed\",\"id\":%lld,\"threads\":%d,\"cpus\":%lld}", (long long)s->id, s->n_tids, (long long)id);
    write_line(&lib->record, &b);
    memset(&b, 0, sizeof b);
  }
  put(&more, ",\"outputs\":[");
  for (size_t i = 0; outputs && i < n_outputs; i++) { put(&more, i ? ",[" : "["); put_value(&more, outputs[i]); put(&more, "]"); }
  put(&more, "]");
  int64_t signature = more.text ? interned("signature", text, more.text) : 0, frames = caller_frames(caller);
  free(more.text);
  fresh->hash = hash; fresh->key = ++lib->n_keys; fresh->alone[LEAST_NS] = INT64_MAX;
  if (lib->ints[ROWS_AT] < ROWS - 1) {
    fresh->row = ++lib->ints[ROWS_AT];
    lib->ints[HEADER + fresh->row * FIELDS + KEY] = fresh->key;
  }
  put(&b, "{\"e\":\"row\",\"key\":%lld,\"session\":%lld,\"frames\":%lld,\"signature\":%lld,\"shared\":%s}", (long long)fresh->key,
      (long long)s->id, (long long)frames, (long long)signature, fresh->row ? "false" : "true");
  write_line(&lib->record, &b);
  fresh->next = s->rows;
  return s->rows = fresh;
}

static Session *session_of(Pointer session, void *caller) {
  for (Session *each = lib->sessions; each; each = each->next) if (each->session == session) return each;
  Creation how = {.start_ns = now_ns(CLOCK_MONOTONIC)};  /* created by a function that is not wrapped */
  return add_session(session, "{}", 0, caller, &how);
}

/* Return the memory of a tensor on the CPU, its element type and its size; 0 for everything else. */
static const void *memory_of(Pointer value, int *type, size_t *elements, size_t *bytes) {
  static const char SIZES[] = {0, 4, 1, 1, 2, 2, 4, 8, 0, 1, 2, 8, 4, 8, 8, 16, 2};
  Pointer info = 0, memory = 0, data = 0, status;
  const char *device = 0;
  if (!value || lib->minor < 10) return 0;
  status = ((Clone)lib->own[TYPE_AND_SHAPE])(value, &info);
  if (status) ((Release)lib->own[RELEASE_STATUS])(status);
  if (!info) return 0;
  ((Pointer(*)(Pointer, int *))lib->own[ELEMENT_TYPE])(info, type);
  ((Pointer(*)(Pointer, size_t *))lib->own[ELEMENTS_COUNT])(info, elements);
  ((Release)lib->own[RELEASE_TYPE_AND_SHAPE])(info);
  *bytes = *type > 0 && *type < 17 ? *elements * SIZES[*type] : 0;
  if (!*bytes) return 0;
  status = ((Clone)lib->own[MEMORY_INFO])(value, &memory);
  if (!status) status = ((Pointer(*)(Pointer, const char **))lib->own[MEMORY_NAME])(memory, &device);
  if (!status && device && !strcmp(device, "Cpu")) status = ((Clone)lib->own[TENSOR_DATA])(value, &data);
  if (status) ((Release)lib->own[RELEASE_STATUS])(status);
  return data;
}

/* Inputs and outputs of calls, in the format of values.py. */

static const char *DTYPES[] = {
  0, "<f4", "|u1", "|i1", "<u2", "<i2", "<i4", "<i8", 0, "|b1", "<f2", "<f8", "<u4", "<u8", "<c8", "<c16", 0};

/* Append a tensor to the description and its bytes to the data; 0 if it is not a numeric tensor on the CPU. */
static int put_tensor(Buffer *head, Buffer *data, const char *input, Pointer value) {
  int type = 0;
  size_t elements = 0, bytes = 0;
  const void *memory = memory_of(value, &type, &elements, &bytes);
  Buffer b = {0};
  if (!memory || !DTYPES[type] || data->length + bytes > VALUE_BYTES) return 0;
  put(head, "[");
  if (input) { put_text(head, input); put(head, ","); }
  put_value(&b, value);  /* "float32",[1,2] */
  put(head, "\"%s\",%s]", DTYPES[type], b.text ? strchr(b.text, '[') : "[]");
  free(b.text);
  char *room = realloc(data->text, data->length + bytes + 1);
  if (!room) { off = 1; return 0; }
  data->text = room;
  memcpy(room + data->length, memory, bytes);
  data->length += bytes;
  return 1;
}

static void keep_values(int64_t key, const char *const *names, Pointer const *inputs, size_t n, Pointer const *outputs,
                        size_t n_outputs) {
  Buffer head = {0}, data = {0};
  int all = 1;
  put(&head, "{\"row\":%lld,\"inputs\":[", (long long)key);
  for (size_t i = 0; all && i < n; i++) { if (i) put(&head, ","); all = put_tensor(&head, &data, names[i], inputs[i]); }
  put(&head, "],\"outputs\":[");
  for (size_t i = 0; all && i < n_outputs; i++) { if (i) put(&head, ","); all = put_tensor(&head, &data, 0, outputs[i]); }
  put(&head, "]}\n");
  if (all && !off && lib->value_bytes + (int64_t)data.length <= VALUE_BYTES) {
    char path[4200];
    lib->value_bytes += data.length;
    snprintf(path, sizeof path, "%s/%s.values", lib->record.folder, lib->name);
    if (lib->values_fd < 0) lib->values_fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0600);
    const Buffer *parts[] = {&head, &data};
    for (int i = 0; i < 2; i++)
      for (size_t at = 0; at < parts[i]->length && !off;) {
        ssize_t written = write(lib->values_fd, parts[i]->text + at, parts[i]->length - at);
        if (written < 0) off = 1; else at += written;
      }
  }
  free(head.text); free(data.text);
}

/* State of a call between enter and leave. */
typedef struct {
  Session *session;
  void *caller;
  Buffer signature;
  int active, inspected, chained;
  int64_t count, began_ns, start_ns, pool_ns, masks, ones;
} Call;

/* Hashes words of eight bytes, which is faster than single bytes: every inspected input is hashed. */
static uint64_t content_hash(const unsigned char *data, size_t n) {
  uint64_t hash = SEED, word;
  for (; n >= 8; data += 8, n -= 8) { memcpy(&word, data, 8); hash = (hash ^ word) * 1099511628211ULL; hash ^= hash >> 29; }
  return hashed(hash, data, n);
}

static Returned content_of(Pointer value, int *type, size_t *elements) {
  Returned found = {0};
  found.data = memory_of(value, type, elements, &found.bytes);
  if (found.data) found.hash = content_hash(found.data, found.bytes < HASHED_BYTES ? found.bytes : HASHED_BYTES);
  return found;
}

static void inspect(Call *call, const char *const *names, Pointer const *inputs, size_t n) {
  Session *s = call->session;
  for (size_t i = 0; i < n; i++) {
    int type = 0;
    size_t elements = 0;
    Returned value = content_of(inputs[i], &type, &elements);
    if (!value.data) continue;
    for (int j = 0; s->returned_by == call->count - 1 && j < s->n_returned; j++)
      call->chained |= value.data == s->returned[j].data ||
                       (value.bytes >= 16 && value.bytes == s->returned[j].bytes && value.hash == s->returned[j].hash);
    int whole = (type >= 2 && type <= 7) || type == 9 || type == 12 || type == 13;
    if (!whole || !names[i] || !strcasestr(names[i], "mask") || elements > MASK) continue;
    const unsigned char *at = value.data;
    size_t size = value.bytes / elements;
    call->masks += elements;
    for (size_t j = 0; j < elements; j++, at += size) {
      int set = 0;
      for (size_t k = 0; k < size; k++) set |= at[k];
      call->ones += set != 0;
    }
  }
}

static void enter(Call *call, Pointer session, const char *method, const char *const *names, Pointer const *inputs, size_t n,
                  const Binding *bound) {
  memset(call, 0, sizeof *call);
  call->caller = from;
  call->pool_ns = -1;
  if (lib->record.folder && !off) {
    call->began_ns = now_ns(CLOCK_MONOTONIC);
    Buffer *b = &call->signature;
    put(b, "[\"%s\",[", method);
    for (size_t i = 0; i < n; i++) {
      put(b, i ? ",[" : "[");
      put_text(b, names[i] ? names[i] : "");
      put(b, ",");
      put_value(b, inputs[i]);
      put(b, "]");
    }
    pthread_mutex_lock(&lock);
    for (int i = 0; bound && i < bound->n; i++) {
      put(b, i ? ",[" : "[");
      put_text(b, bound->names[i]);
      put(b, ",%s]", bound->values[i]);
    }
    put(b, "]]");
    started();
    Session *s = lib->ints ? session_of(session, call->caller) : 0;
    if (s) {
      call->session = s;
      call->active = ++s->active;
      call->count = ++s->count;
      call->inspected = s->count <= WHOLE || !(s->count % SAMPLED);
      if (call->inspected) inspect(call, names, inputs, n);
      if (call->inspected || s->count % SAMPLED == 1) call->pool_ns = cpu_ns(s);
    }
    pthread_mutex_unlock(&lock);
  }
  call->start_ns = now_ns(CLOCK_MONOTONIC);
}

static void leave(Call *call, const char *const *names, Pointer const *inputs, size_t n, Pointer const *outputs,
                  size_t n_outputs, int failed) {
  int64_t end_ns = now_ns(CLOCK_MONOTONIC);
  Session *s = call->session;
  if (s) {
    pthread_mutex_lock(&lock);
    Session *still = lib->sessions;
    while (still && still != s) still = still->next;
    const char *text = call->signature.text;
    Row *row = still && text && !off ? row_of(s, text, call->caller, failed ? 0 : outputs, n_outputs) : 0;
    if (row) {
      int64_t took_ns = end_ns - call->start_ns, *values = row->row ? lib->ints + HEADER + row->row * FIELDS : row->alone;
      s->active--;
      if (!values[COUNT]) values[LEAST_NS] = INT64_MAX;
      values[COUNT]++;
      values[TOTAL_NS] += took_ns;
      if (took_ns < values[LEAST_NS]) values[LEAST_NS] = took_ns;
      if (took_ns > values[MOST_NS]) values[MOST_NS] = took_ns;
      values[FAILED] += failed;
      if (lib->ints[CALLS_AT] < KEPT) {
        int64_t *at = lib->ints + HEADER + ROWS * FIELDS + lib->ints[CALLS_AT] * CALL;
        at[0] = row->key; at[1] = call->start_ns; at[2] = took_ns; at[3] = thread() << 16 | call->active;
        lib->ints[CALLS_AT]++;
      }
      values[INSPECTED] += call->inspected;
      values[CHAINED] += call->chained;
      values[MASKS] += call->masks;
      values[ONES] += call->ones;
      int alone = call->active == 1 && !s->active && s->n_tids;
      if (call->pool_ns >= 0 && alone) {
        int64_t after_ns = cpu_ns(s);
        values[IN_NS] += after_ns - call->pool_ns;
        values[IN_WALL_NS] += took_ns;
        if (s->pool_ns >= 0 && call->pool_ns > s->pool_ns) values[BETWEEN_NS] += call->pool_ns - s->pool_ns;
        if (s->pool_ns >= 0) values[BETWEEN_WALL_NS] += call->start_ns - s->pool_wall_ns;
        s->pool_ns = after_ns; s->pool_wall_ns = now_ns(CLOCK_MONOTONIC);
      } else {
        s->pool_ns = -1;
      }
      if (!failed && n && values[COUNT] <= most_values) keep_values(row->key, names, inputs, n, outputs, n_outputs);
      int next = call->count < WHOLE || call->count % SAMPLED == SAMPLED - 1;  /* the next call will be inspected */
      s->n_returned = 0;
      s->returned_by = call->count;
      for (size_t i = 0; next && !failed && i < n_outputs && s->n_returned < MOST_RETURNED; i++) {
        int type = 0;
        size_t elements = 0;
        Returned value = content_of(outputs[i], &type, &elements);
        if (value.data) s->returned[s->n_returned++] = value;
      }
      lib->ints[OWN_NS] += call->start_ns - call->began_ns + now_ns(CLOCK_MONOTONIC) - end_ns;
    }
    pthread_mutex_unlock(&lock);
  }
  free(call->signature.text);
}

static Pointer run(Pointer session, Pointer run_options, const char *const *names, Pointer const *inputs, size_t n,
                   const char *const *output_names, size_t n_outputs, Pointer *outputs) {
  typedef Pointer (*Run)(Pointer, Pointer, const char *const *, Pointer const *, size_t, const char *const *, size_t, Pointer *);
  Call call;
  enter(&call, session, "run", names, inputs, n, 0);
  Pointer status = ((Run)lib->own[RUN])(session, run_options, names, inputs, n, output_names, n_outputs, outputs);
  leave(&call, names, inputs, n, outputs, n_outputs, status != 0);
  return status;
}

/* Asynchronous calls, which end in other threads. */

typedef void (*Callback)(void *, Pointer *, size_t, Pointer);
typedef struct { Library *library; Call call; Callback callback; void *data; } Pending;

static void ended(void *data, Pointer *outputs, size_t n_outputs, Pointer status) {
  Pending pending = *(Pending *)data;
  Library *before = lib;
  free(data);
  lib = pending.library;
  leave(&pending.call, 0, 0, 0, outputs, status ? 0 : n_outputs, status != 0);
  lib = before;
  pending.callback(pending.data, outputs, n_outputs, status);
}

static Pointer run_async(Pointer session, Pointer run_options, const char *const *names, Pointer const *inputs, size_t n,
                         const char *const *output_names, size_t n_outputs, Pointer *outputs, Callback callback, void *data) {
  typedef Pointer (*Run)(Pointer, Pointer, const char *const *, Pointer const *, size_t, const char *const *, size_t, Pointer *,
                         Callback, void *);
  Run next = (Run)lib->own[RUN_ASYNC];
  Pending *pending = callback && lib->record.folder && !off ? malloc(sizeof *pending) : 0;
  if (!pending)
    return next(session, run_options, names, inputs, n, output_names, n_outputs, outputs, callback, data);
  enter(&pending->call, session, "run_async", names, inputs, n, 0);
  pending->library = lib; pending->callback = callback; pending->data = data;
  Pointer status = next(session, run_options, names, inputs, n, output_names, n_outputs, outputs, ended, pending);
  if (status) { leave(&pending->call, 0, 0, 0, 0, 0, 1); free(pending); }
  return status;
}

/* Calls with bound inputs. */

static Binding *binding_of(Pointer binding, int create) {
  for (Binding *each = lib->bindings; each; each = each->next) if (each->binding == binding) return each;
  Binding *fresh = create ? calloc(1, sizeof *fresh) : 0;
  if (!fresh) return 0;
  fresh->binding = binding;
  fresh->next = lib->bindings;
  return lib->bindings = fresh;
}

static void clear(Binding *binding) {
  while (binding->n) { binding->n--; free(binding->names[binding->n]); free(binding->values[binding->n]); }
}

static Pointer bind_input(Pointer binding, const char *input, Pointer value) {
  Pointer status = ((Entry)lib->own[BIND_INPUT])(binding, input, value);
  if (status || !input || !lib->record.folder || off) return status;
  Buffer b = {0};
  put_value(&b, value);
  pthread_mutex_lock(&lock);
  Binding *bound = binding_of(binding, 1);
  int i = 0;
  while (bound && i < bound->n && strcmp(bound->names[i], input)) i++;
  if (bound && i < MOST_BOUND && b.text) {
    if (i == bound->n) { bound->names[i] = strdup(input); bound->n++; } else free(bound->values[i]);
    bound->values[i] = b.text;
  } else {
    free(b.text);
  }
  pthread_mutex_unlock(&lock);
  return status;
}

static void clear_bound(Pointer binding) {
  UNDER_LOCK(Binding *bound = binding_of(binding, 0); if (bound) clear(bound));
  ((Release)lib->own[CLEAR_BOUND])(binding);
}

static void release_binding(Pointer binding) {
  pthread_mutex_lock(&lock);
  for (Binding **at = &lib->bindings; *at; at = &(*at)->next)
    if ((*at)->binding == binding) { Binding *gone = *at; *at = gone->next; clear(gone); free(gone); break; }
  pthread_mutex_unlock(&lock);
  ((Release)lib->own[RELEASE_BINDING])(binding);
}

static Pointer run_bound(Pointer session, Pointer run_options, Pointer binding) {
  Call call;
  pthread_mutex_lock(&lock);
  const Binding *bound = binding_of(binding, 0);
  pthread_mutex_unlock(&lock);
  enter(&call, session, "run_with_iobinding", 0, 0, 0, bound);
  Pointer status = ((Pointer(*)(Pointer, Pointer, Pointer))lib->own[RUN_BOUND])(session, run_options, binding);
  leave(&call, 0, 0, 0, 0, 0, status != 0);
  return status;
}

/* Replacement of the function table. */

static int is_writable(uintptr_t address) {
  char line[512], rights[8];
  unsigned long from, to;
  int found = 0;
  FILE *maps = fopen("/proc/self/maps", "re");
  while (maps && fgets(line, sizeof line, maps))
    if (sscanf(line, "%lx-%lx %7s", &from, &to, rights) == 3 && from <= address && address < to) found = rights[1] == 'w';
  if (maps) fclose(maps);
  return found;
}

/* The functions in each library's table: they set lib, and call the functions above. */
#define ENTRY(n, type, function, parameters, arguments)       \
  static type function##_##n parameters {                     \
    Library *before = lib;                                    \
    lib = &libraries[n]; from = __builtin_return_address(0);  \
    type result = function arguments;                         \
    lib = before;                                             \
    return result;                                            \
  }
#define LEAVES(n, function)                                   \
  static void function##_##n(Pointer a) { Library *before = lib; lib = &libraries[n]; function(a); lib = before; }
#define TABLE(n)                                                                                                          \
  ENTRY(n, Pointer, create_session, (Pointer a, const char *b, Pointer c, Pointer *d), (a, b, c, d))                      \
  ENTRY(n, Pointer, create_from_array, (Pointer a, const void *b, size_t c, Pointer d, Pointer *e), (a, b, c, d, e))      \
  ENTRY(n, Pointer, run, (Pointer a, Pointer b, Names c, Pointer const *d, size_t e, Names f, size_t g, Pointer *h),      \
        (a, b, c, d, e, f, g, h))                                                                                         \
  ENTRY(n, Pointer, run_async, (Pointer a, Pointer b, Names c, Pointer const *d, size_t e, Names f, size_t g, Pointer *h, \
        Callback i, void *j), (a, b, c, d, e, f, g, h, i, j))                                                             \
  ENTRY(n, Pointer, run_bound, (Pointer a, Pointer b, Pointer c), (a, b, c))                                              \
  ENTRY(n, Pointer, bind_input, (Pointer a, const char *b, Pointer c), (a, b, c))                                         \
  ENTRY(n, Pointer, create_options, (Pointer *a), (a))                                                                    \
  ENTRY(n, Pointer, clone_options, (Pointer a, Pointer *b), (a, b))                                                       \
  ENTRY(n, Pointer, set_written, (Pointer a, const char *b), (a, b))                                                      \
  ENTRY(n, Pointer, set_mode, (Pointer a, int b), (a, b))                                                                 \
  ENTRY(n, Pointer, set_level, (Pointer a, int b), (a, b))                                                                \
  ENTRY(n, Pointer, set_intra, (Pointer a, int b), (a, b))                                                                \
  ENTRY(n, Pointer, set_inter, (Pointer a, int b), (a, b))                                                                \
  ENTRY(n, Pointer, enable_pattern, (Pointer a), (a))                                                                     \
  ENTRY(n, Pointer, disable_pattern, (Pointer a), (a))                                                                    \
  ENTRY(n, Pointer, enable_arena, (Pointer a), (a))                                                                       \
  ENTRY(n, Pointer, disable_arena, (Pointer a), (a))                                                                      \
  ENTRY(n, Pointer, add_entry, (Pointer a, const char *b, const char *c), (a, b, c))                                      \
  ENTRY(n, Pointer, append_cuda, (Pointer a, Pointer b), (a, b))                                                          \
  ENTRY(n, Pointer, append_cuda_v2, (Pointer a, Pointer b), (a, b))                                                        \
  ENTRY(n, Pointer, append_rocm, (Pointer a, Pointer b), (a, b))                                                          \
  ENTRY(n, Pointer, append_openvino, (Pointer a, Pointer b), (a, b))                                                      \
  ENTRY(n, Pointer, append_tensorrt, (Pointer a, Pointer b), (a, b))                                                      \
  ENTRY(n, Pointer, append_tensorrt_v2, (Pointer a, Pointer b), (a, b))                                                    \
  ENTRY(n, Pointer, append_migraphx, (Pointer a, Pointer b), (a, b))                                                      \
  ENTRY(n, Pointer, append_cann, (Pointer a, Pointer b), (a, b))                                                          \
  ENTRY(n, Pointer, append_named, (Pointer a, const char *b, Names c, Names d, size_t e), (a, b, c, d, e))                \
  ENTRY(n, Pointer, append_openvino_v2, (Pointer a, Names b, Names c, size_t d), (a, b, c, d))                            \
  ENTRY(n, Pointer, append_vitisai, (Pointer a, Names b, Names c, size_t d), (a, b, c, d))                                \
  ENTRY(n, Pointer, append_devices, (Pointer a, Pointer b, Pointer const *c, size_t d, Names e, Names f, size_t g),       \
        (a, b, c, d, e, f, g))                                                                                            \
  ENTRY(n, Pointer, set_policy, (Pointer a, int b), (a, b))                                                               \
  ENTRY(n, Pointer, set_policy_function, (Pointer a, Pointer b, Pointer c), (a, b, c))                                    \
  LEAVES(n, release_session) LEAVES(n, release_options) LEAVES(n, release_binding) LEAVES(n, clear_bound)                 \
  static void *const functions_##n[] = {                                                                                  \
    create_session_##n, create_from_array_##n, run_##n, run_async_##n, run_bound_##n, bind_input_##n, create_options_##n, \
    clone_options_##n, set_written_##n, set_mode_##n, set_level_##n, set_intra_##n, set_inter_##n, enable_pattern_##n, disable_pattern_##n, \
    enable_arena_##n, disable_arena_##n, add_entry_##n, append_cuda_##n, append_cuda_v2_##n, append_rocm_##n,              \
    append_openvino_##n, append_tensorrt_##n, append_tensorrt_v2_##n, append_migraphx_##n, append_cann_##n,                \
    append_named_##n, append_openvino_v2_##n, append_vitisai_##n, append_devices_##n, set_policy_##n,                     \
    set_policy_function_##n, release_session_##n, release_options_##n, release_binding_##n, clear_bound_##n};                                                                                                     \
  static void **own_api_##n(uint32_t number) { return own_api(&libraries[n], number); }                                   \
  static const char *own_version_##n(void) { return libraries[n].real->version(); }

static const int PLACES[] = {
  CREATE_SESSION, CREATE_FROM_ARRAY, RUN, RUN_ASYNC, RUN_BOUND, BIND_INPUT, CREATE_OPTIONS, CLONE_OPTIONS, SET_WRITTEN, SET_MODE, SET_LEVEL,
  SET_INTRA, SET_INTER, ENABLE_PATTERN, DISABLE_PATTERN, ENABLE_ARENA, DISABLE_ARENA, ADD_ENTRY, APPEND_CUDA, APPEND_CUDA_V2,
  APPEND_ROCM, APPEND_OPENVINO, APPEND_TENSORRT, APPEND_TENSORRT_V2, APPEND_MIGRAPHX, APPEND_CANN, APPEND_NAMED, APPEND_OPENVINO_V2,
  APPEND_VITISAI, APPEND_DEVICES, SET_POLICY, SET_POLICY_FUNCTION, RELEASE_SESSION, RELEASE_OPTIONS, RELEASE_BINDING, CLEAR_BOUND};

static void **own_api(Library *library, uint32_t number);
TABLE(0) TABLE(1) TABLE(2) TABLE(3)
static void *const *const FUNCTIONS[LIBRARIES] = {functions_0, functions_1, functions_2, functions_3};
static const Base BASES[LIBRARIES] = {
  {own_api_0, own_version_0}, {own_api_1, own_version_1}, {own_api_2, own_version_2}, {own_api_3, own_version_3}};

static void replace(void **api) {
  int slots = lib->minor >= 22 ? SLOTS_22 : lib->minor >= 16 ? SLOTS_16 : lib->minor >= 10 ? SLOTS_10 : SLOTS_8;  /* older tables are shorter */
  uintptr_t page = sysconf(_SC_PAGESIZE), start = (uintptr_t)api & ~(page - 1);
  size_t length = (uintptr_t)(api + slots) - start;
  int writable = is_writable((uintptr_t)api);
  memcpy(lib->own, api, slots * sizeof *api);
  if (!writable && mprotect((void *)start, length, PROT_READ | PROT_WRITE)) { off = 1; return; }
  for (size_t i = 0; i < sizeof PLACES / sizeof *PLACES; i++)
    if (PLACES[i] < slots) api[PLACES[i]] = FUNCTIONS[lib - libraries][i];
  if (!writable) mprotect((void *)start, length, PROT_READ);
}

static void **own_api(Library *library, uint32_t number) {
  void **api = library->real->api(number);
  pthread_mutex_lock(&lock);
  if (api && !library->table && !off) {
    Library *before = lib;
    lib = library;
    lib->table = api;  /* all API versions share one table */
    replace(api);
    started();
    lib = before;
  }
  pthread_mutex_unlock(&lock);
  return api;
}

typedef struct { char best[4096]; const char *caller; size_t folder; int rank; } Search;

/* Choose the library whose function the caller would have called: its own, one in its folder, else the first. */
static int look(struct dl_phdr_info *info, size_t size, void *data) {
  Search *search = data;
  const char *path = info->dlpi_name, *file = path ? strrchr(path, '/') : 0;
  (void)size;
  if (!file || !strstr(file, "onnxruntime") || strlen(path) >= sizeof search->best) return 0;
  void *library = dlopen(path, RTLD_LAZY | RTLD_NOLOAD);
  if (!library) return 0;
  void *found = dlsym(library, "OrtGetApiBase");
  Dl_info of;
  /* A library that only links to ONNX Runtime has no such function of its own. */
  int has = found && dladdr(found, &of) && of.dli_fname && !strcmp(of.dli_fname, path);
  dlclose(library);
  if (!has) return 0;
  int rank = 1;
  if (search->caller && !strncmp(path, search->caller, search->folder) && (size_t)(file - path) == search->folder) rank = 2;
  if (search->caller && !strcmp(path, search->caller)) rank = 3;
  if (rank > search->rank) { strcpy(search->best, path); search->rank = rank; }
  return 0;
}

/* Return the entry of a library, a new one at its first call; 0 if the library is not recorded or changed. */
static Library *library_of(Base *found, const char *path) {
  int number = 0, minor = 0;
  for (Library *each = libraries; each < libraries + n_libraries; each++) if (each->real == found) return each;
  const char *record = getenv("ORTUNE_RECORD"), *apply = getenv("ORTUNE_APPLY"), *values = getenv("ORTUNE_RECORD_VALUES");
  const char *version = found->version();
  int known = sscanf(version, "%d.%d", &number, &minor) == 2 && (number > 1 || minor >= 8);
  if (!known || !(record || apply) || n_libraries == LIBRARIES || strstr(path, "pybind")) return 0;
  Library *fresh = &libraries[n_libraries], *before = lib;
  char *folder = realpath(path, 0);  /* as in /proc/self/maps */
  if (folder) *strrchr(folder, '/') = 0;
  fresh->path = strdup(path);
  fresh->real = found; fresh->base = BASES[n_libraries]; fresh->version = version; fresh->home = folder ? folder : "";
  fresh->minor = number > 1 ? 1 << 20 : minor;
  fresh->record.folder = record; fresh->apply.folder = apply;
  fresh->record.fd = fresh->apply.fd = fresh->values_fd = -1;
  most_values = values ? atoi(values) : 0;
  lib = fresh;
  if (apply) read_changes();
  lib = before;
  if (!n_libraries++) pthread_atfork(0, 0, child);
  return fresh;
}

static void *in_library(const char *path, const char *function) {
  void *library = path && *path ? dlopen(path, RTLD_LAZY | RTLD_NOLOAD) : 0;
  return dlsym(library ? library : RTLD_NEXT, function);
}

/* Find the library that a caller would have got. */
static void search_library(Search *search, void *caller) {
  Dl_info info;
  if (dladdr(caller, &info) && info.dli_fname && strrchr(info.dli_fname, '/')) {
    search->caller = info.dli_fname;
    search->folder = strrchr(info.dli_fname, '/') - info.dli_fname;
  }
  dl_iterate_phdr(look, search);
}

EXPORT const Base *OrtGetApiBase(void) {
  Search search = {{0}, 0, 0, 0};
  search_library(&search, __builtin_return_address(0));
  Base *(*get)(void) = (Base * (*)(void)) in_library(search.best, "OrtGetApiBase");
  Base *found = get ? get() : 0;
  if (!found || !search.rank) return found;
  pthread_mutex_lock(&lock);
  Library *own = library_of(found, search.best);
  pthread_mutex_unlock(&lock);
  return own ? &own->base : found;
}

/* Functions outside of the table that append a provider. A build of ONNX Runtime exports those of the providers it has. */
static Pointer append_exported(Pointer options, uintptr_t given, const char *function, const char *name, void *caller) {
  Library *before = lib, *owner = 0;
  pthread_mutex_lock(&lock);
  for (Library *each = libraries; each < libraries + n_libraries && !owner; each++) { lib = each; if (options_of(options, 0)) owner = each; }
  pthread_mutex_unlock(&lock);
  lib = before;
  Search search = {{0}, 0, 0, 0};
  if (!owner) search_library(&search, caller);
  const char *path = owner ? owner->path : search.best;
  Pointer (*next)(Pointer, uintptr_t) = (Pointer(*)(Pointer, uintptr_t))in_library(path, function);
  int64_t start_ns = now_ns(CLOCK_MONOTONIC);
  Pointer status = 0;
  if (next) {
    status = next(options, given);
  } else {
    Base *(*get)(void) = (Base * (*)(void)) in_library(path, "OrtGetApiBase");
    void **api = get ? get()->api(1) : 0;
    if (api) status = ((Pointer(*)(int, const char *))api[CREATE_STATUS])(NOT_IMPLEMENTED, "this ONNX Runtime lacks the execution provider");
  }
  if (owner && owner->record.folder && !off) {
    lib = owner; from = caller;
    appended(options, name, start_ns, status);
    lib = before;
  }
  return status;
}

#define EXPORTED(end, name)                                                                        \
  EXPORT Pointer OrtSessionOptionsAppendExecutionProvider_##end(Pointer options, uintptr_t given) { \
    return append_exported(options, given, __func__, name, __builtin_return_address(0));            \
  }
EXPORTED(CPU, "CPUExecutionProvider")
EXPORTED(CUDA, "CUDAExecutionProvider")
EXPORTED(Tensorrt, "TensorrtExecutionProvider")
EXPORTED(ROCM, "ROCMExecutionProvider")
EXPORTED(MIGraphX, "MIGraphXExecutionProvider")
EXPORTED(OpenVINO, "OpenVINOExecutionProvider")
EXPORTED(Dnnl, "DnnlExecutionProvider")
EXPORTED(VITISAI, "VitisAIExecutionProvider")
EXPORTED(CANN, "CANNExecutionProvider")
EXPORTED(CoreML, "CoreMLExecutionProvider")
EXPORTED(Nnapi, "NnapiExecutionProvider")
EXPORTED(ACL, "ACLExecutionProvider")
EXPORTED(ArmNN, "ArmNNExecutionProvider")
EXPORTED(Tvm, "TvmExecutionProvider")
