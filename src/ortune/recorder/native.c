/* Records, and changes, how a program that is not Python uses ONNX Runtime.
 *
 * It is compiled as a library and loaded by LD_PRELOAD. Its OrtGetApiBase comes before that of ONNX Runtime, finds that one,
 * and writes own functions into the table that it gives out. The first fields of that table never change their places, so
 * no version and no header of ONNX Runtime is needed. ORTUNE_RECORD and ORTUNE_APPLY name the folders; the files are those
 * of hook.py and apply_hook.py, which describe them. Python's onnxruntime does not use the table.
 *
 * After an error of its own it writes nothing more, and the program goes on.
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

/* Places in the table of ONNX Runtime. */
enum {
  CREATE_SESSION = 7, CREATE_FROM_ARRAY = 8, RUN = 9, CREATE_OPTIONS = 10, CLONE_OPTIONS = 12, SET_MODE = 13,
  ENABLE_PATTERN = 16, DISABLE_PATTERN = 17, ENABLE_ARENA = 18, DISABLE_ARENA = 19, SET_LEVEL = 23, SET_INTRA = 24,
  SET_INTER = 25, ELEMENT_TYPE = 60, DIMENSIONS_COUNT = 61, DIMENSIONS = 62, TYPE_AND_SHAPE = 65, RELEASE_STATUS = 93,
  RELEASE_SESSION = 95, RELEASE_TYPE_AND_SHAPE = 99, RELEASE_OPTIONS = 100, ADD_ENTRY = 130, SLOTS = 131
};

typedef void *Pointer;
typedef struct { void **(*api)(uint32_t); const char *(*version)(void); } Base;

/* The layout of the file with the counters, as in hook.py. */
enum { HEADER = 16, ROWS = 2048, FIELDS = 16, KEPT = 16384, CALL = 4, WHOLE = 200, SAMPLED = 64, MOST_TIDS = 16 };
enum { FORMAT_AT, ROWS_AT, CALLS_AT, OWN_NS, CALL_NS, LOST, PLAIN_NS };
enum {
  COUNT, TOTAL_NS, LEAST_NS, MOST_NS, FAILED, INSPECTED, LISTS, STRIDED, CHAINED, MASKS, ONES, IN_NS, IN_WALL_NS,
  BETWEEN_NS, BETWEEN_WALL_NS, KEY
};
#define LOG_BYTES (16 << 20)

typedef struct Row { struct Row *next; uint64_t hash; int64_t key, row, own[FIELDS]; } Row;

typedef struct Session {
  struct Session *next;
  Pointer session;
  int64_t id, count, pool_ns, pool_wall_ns;
  int active, placed, n_tids, tids[MOST_TIDS];
  Row *rows;
} Session;

typedef struct Options {
  struct Options *next;
  Pointer options;
  int intra, inter, mode, level, arena, pattern, n_entries;
  char entries[16][2][96];
} Options;

typedef struct Change { struct Change *next; int n; char sha256[65], kind[9], key[96], value[96], what[200]; int64_t bytes; } Change;

typedef struct Text { struct Text *next; uint64_t hash; char *text; int64_t id; } Text;

typedef struct { const char *folder; int fd; int64_t bytes; } Log;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static void *own[SLOTS];     /* of ONNX Runtime, before the change */
static void **table;         /* the one that was changed */
static const char *version = "", *home = "";
static Log record = {0, -1, 0}, apply = {0, -1, 0};
static int off;
static int64_t *ints, n_sessions, n_keys, n_texts, n_threads, creating;
static Session *sessions;
static Options *known_options;
static Change *changes;
static Text *texts[1024];
static char name[64];
static __thread int64_t thread_number = -1;

static int64_t now_ns(clockid_t clock) {
  struct timespec t;
  clock_gettime(clock, &t);
  return t.tv_sec * 1000000000LL + t.tv_nsec;
}

/* Text. */

typedef struct { char *text; size_t length, room; } Buffer;

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
    } else if (ints && log == &record) {
      ints[LOST]++;
    }
  }
  free(b->text);
}

static int64_t interned(const char *kind, const char *text, const char *more) {
  uint64_t hash = hashed(hashed(SEED, kind, strlen(kind) + 1), text, strlen(text));
  for (Text *each = texts[hash % 1024]; each; each = each->next)
    if (each->hash == hash && !strcmp(each->text, text)) return each->id;
  Text *fresh = calloc(1, sizeof *fresh);
  if (!fresh || !(fresh->text = strdup(text))) { off = 1; return 0; }
  fresh->hash = hash; fresh->id = n_texts++; fresh->next = texts[hash % 1024];
  texts[hash % 1024] = fresh;
  Buffer b = {0};
  int raw = !strcmp(kind, "frames") || !strcmp(kind, "signature");
  put(&b, "{\"e\":\"%s\",\"id\":%lld,\"v\":", kind, (long long)fresh->id);
  if (raw) put(&b, "%s", text); else put_text(&b, text);
  put(&b, "%s}", more);
  write_line(&record, &b);
  return fresh->id;
}

/* SHA-256 of models from bytes, and of files that a change may be for. */

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
  snprintf(path, sizeof path, "%s/%s.log", log->folder, name);
  log->fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0600);
  log->bytes = 0;
}

static void begin(void) {
  char path[4200], words[4096];
  snprintf(name, sizeof name, "%d-%lld", getpid(), (long long)now_ns(CLOCK_REALTIME));
  if (apply.folder) {
    open_log(&apply);
    Buffer b = {0};
    put(&b, "{\"e\":\"process\",\"format\":1,\"pid\":%d,\"home\":", getpid());
    put_text(&b, home);
    put(&b, ",\"version\":"); put_text(&b, version); put(&b, "}");
    write_line(&apply, &b);
  }
  if (!record.folder) return;
  open_log(&record);
  Buffer b = {0};
  put(&b, "{\"e\":\"process\",\"format\":1,\"pid\":%d,\"parent\":\"\",\"ns\":%lld,\"python\":\"\",\"version\":", getpid(),
      (long long)now_ns(CLOCK_MONOTONIC));
  put_text(&b, version);
  put(&b, ",\"home\":"); put_text(&b, home);
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
  write_line(&record, &b);
  size_t size = 8 * (HEADER + ROWS * FIELDS + KEPT * CALL);
  snprintf(path, sizeof path, "%s/%s.calls", record.folder, name);
  fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (fd < 0 || posix_fallocate(fd, 0, size)) { off = 1; if (fd >= 0) close(fd); return; }
  ints = mmap(0, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  close(fd);
  if (ints == MAP_FAILED) { ints = 0; off = 1; return; }
  ints[FORMAT_AT] = 1;
}

static void child(void) {
  /* What the parent wrote is the parent's; the child begins when it uses ONNX Runtime. */
  if (record.fd >= 0) close(record.fd);
  if (apply.fd >= 0) close(apply.fd);
  record.fd = apply.fd = -1;
  pthread_mutex_init(&lock, 0);
  memset(texts, 0, sizeof texts);
  ints = 0; sessions = 0; name[0] = 0;
  n_sessions = n_keys = n_texts = creating = 0;
}

static void started(void) { if (!name[0] && !off) begin(); }

/* Settings. */

static Options *options_of(Pointer options, int create) {
  for (Options *each = known_options; each; each = each->next) if (each->options == options) return each;
  if (!create) return 0;
  Options *fresh = calloc(1, sizeof *fresh);
  if (!fresh) { off = 1; return 0; }
  fresh->options = options; fresh->level = 99; fresh->arena = fresh->pattern = 1;
  fresh->next = known_options;
  return known_options = fresh;
}

static void set_entry(Options *o, const char *key, const char *value) {
  int n = 0;
  while (n < o->n_entries && strcmp(o->entries[n][0], key)) n++;
  if (n == 16 || strlen(key) > 95 || strlen(value) > 95) return;
  if (n == o->n_entries) o->n_entries++;
  strcpy(o->entries[n][0], key); strcpy(o->entries[n][1], value);
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

typedef Pointer (*Set)(Pointer, int64_t);
typedef Pointer (*Plain)(Pointer);
typedef Pointer (*Entry)(Pointer, const char *, const char *);
typedef Pointer (*Clone)(Pointer, Pointer *);
typedef void (*Release)(Pointer);

#define UNDER_LOCK(statement) do { pthread_mutex_lock(&lock); statement; pthread_mutex_unlock(&lock); } while (0)
#define NOTED(function, slot, field, type, value)                                     \
  static Pointer function(Pointer options, type given) {                              \
    Pointer status = ((Pointer(*)(Pointer, type))own[slot])(options, given);          \
    if (!status) UNDER_LOCK(Options *o = options_of(options, 1); if (o) o->field = value); \
    return status;                                                                    \
  }
#define SWITCHED(function, slot, field, value)                                        \
  static Pointer function(Pointer options) {                                          \
    Pointer status = ((Plain)own[slot])(options);                                     \
    if (!status) UNDER_LOCK(Options *o = options_of(options, 1); if (o) o->field = value); \
    return status;                                                                    \
  }
NOTED(set_intra, SET_INTRA, intra, int, given)
NOTED(set_inter, SET_INTER, inter, int, given)
NOTED(set_mode, SET_MODE, mode, int, given)
NOTED(set_level, SET_LEVEL, level, int, given)
SWITCHED(enable_pattern, ENABLE_PATTERN, pattern, 1)
SWITCHED(disable_pattern, DISABLE_PATTERN, pattern, 0)
SWITCHED(enable_arena, ENABLE_ARENA, arena, 1)
SWITCHED(disable_arena, DISABLE_ARENA, arena, 0)

static Pointer create_options(Pointer *out) {
  Pointer status = ((Pointer(*)(Pointer *))own[CREATE_OPTIONS])(out);
  if (!status) UNDER_LOCK(options_of(*out, 1));
  return status;
}

static Pointer add_entry(Pointer options, const char *key, const char *value) {
  Pointer status = ((Entry)own[ADD_ENTRY])(options, key, value);
  if (!status && key && value) UNDER_LOCK(Options *o = options_of(options, 1); if (o) set_entry(o, key, value));
  return status;
}

static Pointer clone_options(Pointer options, Pointer *out) {
  Pointer status = ((Clone)own[CLONE_OPTIONS])(options, out);
  if (!status) {
    pthread_mutex_lock(&lock);
    Options *from = options_of(options, 0), *to = options_of(*out, 1);
    if (from && to) { Options *next = to->next; *to = *from; to->options = *out; to->next = next; }
    pthread_mutex_unlock(&lock);
  }
  return status;
}

static void release_options(Pointer options) {
  pthread_mutex_lock(&lock);
  for (Options **at = &known_options; *at; at = &(*at)->next)
    if ((*at)->options == options) { Options *gone = *at; *at = gone->next; free(gone); break; }
  pthread_mutex_unlock(&lock);
  ((Release)own[RELEASE_OPTIONS])(options);
}

/* Changes. */

static void read_changes(void) {
  char path[4200], line[1024];
  snprintf(path, sizeof path, "%s/native.txt", apply.folder);
  FILE *file = fopen(path, "re");
  Change **last = &changes;
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
  if (!strcmp(change->kind, "entry")) return ((Entry)own[ADD_ENTRY])(options, change->key, change->value);
  if (!strcmp(change->key, "intra_op_num_threads")) return ((Pointer(*)(Pointer, int))own[SET_INTRA])(options, value);
  if (!strcmp(change->key, "inter_op_num_threads")) return ((Pointer(*)(Pointer, int))own[SET_INTER])(options, value);
  if (!strcmp(change->key, "execution_mode")) return ((Pointer(*)(Pointer, int))own[SET_MODE])(options, value);
  if (!strcmp(change->key, "graph_optimization_level")) return ((Pointer(*)(Pointer, int))own[SET_LEVEL])(options, value);
  if (!strcmp(change->key, "enable_cpu_mem_arena")) return ((Plain)own[value ? ENABLE_ARENA : DISABLE_ARENA])(options);
  if (!strcmp(change->key, "enable_mem_pattern")) return ((Plain)own[value ? ENABLE_PATTERN : DISABLE_PATTERN])(options);
  return 0;
}

/* Return a copy of the options with the changes for a model, and say what was done; 0 if there are none. */
static Pointer changed_options(Pointer options, const char *path, const char *digest, int64_t bytes) {
  Buffer b = {0};
  Pointer copy = 0, status = 0;
  int n = -1;
  const char *file = path ? strrchr(path, '/') : 0;
  for (Change *each = changes; each; each = each->next) if (!strcmp(each->sha256, digest)) n = each->n;
  if (n < 0) {
    put(&b, "{\"e\":\"session\",\"n\":-1,\"how\":\"unmatched\",\"name\":");
    put_text(&b, path ? (file ? file + 1 : path) : "bytes");
    put(&b, "}");
    write_line(&apply, &b);
    return 0;
  }
  status = options ? ((Clone)own[CLONE_OPTIONS])(options, &copy) : ((Pointer(*)(Pointer *))own[CREATE_OPTIONS])(&copy);
  put(&b, "{\"e\":\"session\",\"n\":%d,\"how\":\"created\",\"what\":[", n);
  int first = 1, share = 0, provider = 0;
  for (Change *each = changes; each && !status && copy; each = each->next) {
    if (each->n != n || strcmp(each->sha256, digest)) continue;
    if (!strcmp(each->kind, "share")) { share = 1; continue; }
    if (!strcmp(each->kind, "provider")) { provider = 1; continue; }
    if (strcmp(each->kind, "option") && strcmp(each->kind, "entry")) continue;
    status = set_one(copy, each);
    if (status) break;
    if (!first) put(&b, ",");
    put_text(&b, each->what);
    first = 0;
  }
  put(&b, "],\"kept\":[%s%s%s]}", share ? "\"not shared: not a Python program\"" : "", share && provider ? "," : "",
      provider ? "\"execution provider not changed: not a Python program\"" : "");
  if (status) {
    ((Release)own[RELEASE_STATUS])(status);
    if (copy) ((Release)own[RELEASE_OPTIONS])(copy);
    free(b.text);
    return 0;
  }
  write_line(&apply, &b);
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

static Session *add_session(Pointer session, const char *model, Pointer options, int64_t start_ns, int64_t took_ns,
                            const int *tids, int n_tids, int counted, int failed, void *caller) {
  Session *fresh = calloc(1, sizeof *fresh);
  if (!fresh) { off = 1; return 0; }
  fresh->session = session; fresh->id = ++n_sessions; fresh->pool_ns = -1;
  Buffer b = {0};
  int64_t model_id = interned("model", model, ""), options_id = written_options(options);
  int64_t asked = options ? options_id : interned("options", "null", "");
  int64_t providers = interned("providers", "[null,[]]", ""), frames = caller_frames(caller);
  put(&b, "{\"e\":\"session\",\"id\":%lld,\"ns\":%lld,\"took_ns\":%lld,\"failed\":\"%s\",\"loop\":false,\"tids\":",
      (long long)fresh->id, (long long)start_ns, (long long)took_ns, failed ? "OrtStatus" : "");
  if (counted) {
    put(&b, "[");
    for (int i = 0; i < n_tids; i++) put(&b, i ? ",%d" : "%d", tids[i]);
    put(&b, "]");
    fresh->n_tids = n_tids < MOST_TIDS ? n_tids : MOST_TIDS;
    memcpy(fresh->tids, tids, fresh->n_tids * sizeof *tids);
  } else {
    put(&b, "null");
  }
  put(&b, ",\"thread\":%lld,\"model\":%lld,\"asked\":%lld,\"used\":%lld,\"providers\":%lld,\"frames\":%lld}",
      (long long)thread(), (long long)model_id, (long long)asked, (long long)options_id, (long long)providers,
      (long long)frames);
  write_line(&record, &b);
  if (failed) { free(fresh); return 0; }
  fresh->next = sessions;
  return sessions = fresh;
}

static Pointer create(int slot, Pointer env, const void *model, size_t n, Pointer options, Pointer *out, void *caller) {
  char digest[65] = "", *path = slot == CREATE_SESSION ? realpath(model, 0) : 0;
  int before[4096], after[4096], fresh[4096], n_before = 0, n_fresh = 0, counted = 0;
  int64_t began_ns = now_ns(CLOCK_THREAD_CPUTIME_ID), bytes = n;
  Pointer copy = 0, status;
  struct stat status_of = {0};
  Buffer b = {0};
  pthread_mutex_lock(&lock);
  started();
  if (path && !stat(path, &status_of)) bytes = status_of.st_size;
  if (!off) {
    int possible = slot != CREATE_SESSION;
    for (Change *each = changes; each; each = each->next) possible |= !each->bytes || each->bytes == bytes;
    if (slot != CREATE_SESSION) sha256(model, n, digest);
    else if (path && apply.folder && possible && bytes > 0) file_sha256(path, bytes, digest);
    if (path)
      { put(&b, "{\"path\":"); put_text(&b, path);
        put(&b, ",\"bytes\":%lld,\"mtime_ns\":%lld}", (long long)bytes,
            status_of.st_mtim.tv_sec * 1000000000LL + status_of.st_mtim.tv_nsec); }
    else if (slot == CREATE_SESSION)
      { put(&b, "{\"path\":"); put_text(&b, model); put(&b, "}"); }
    else put(&b, "{\"sha256\":\"%s\",\"bytes\":%lld}", digest, (long long)bytes);
    if (apply.folder) copy = changed_options(options, path ? path : slot == CREATE_SESSION ? model : 0, digest, bytes);
    counted = ++creating == 1;
    n_before = tasks(before, 4096);
  }
  pthread_mutex_unlock(&lock);
  int64_t own_ns = now_ns(CLOCK_THREAD_CPUTIME_ID) - began_ns, start_ns = now_ns(CLOCK_MONOTONIC);
  if (slot == CREATE_SESSION)
    status = ((Pointer(*)(Pointer, const void *, Pointer, Pointer *))own[slot])(env, model, copy ? copy : options, out);
  else
    status = ((Pointer(*)(Pointer, const void *, size_t, Pointer, Pointer *))own[slot])(env, model, n, copy ? copy : options, out);
  int64_t end_ns = now_ns(CLOCK_MONOTONIC);
  began_ns = now_ns(CLOCK_THREAD_CPUTIME_ID);
  pthread_mutex_lock(&lock);
  if (!off && record.folder && b.text) {
    counted = counted && creating == 1;
    int n_after = counted && !status ? tasks(after, 4096) : 0;
    for (int i = 0; i < n_after; i++) {
      int seen = 0;
      for (int j = 0; j < n_before; j++) seen |= before[j] == after[i];
      if (!seen) fresh[n_fresh++] = after[i];
    }
    add_session(status ? 0 : *out, b.text, options, start_ns, end_ns - start_ns, fresh, n_fresh, counted, status != 0, caller);
    if (ints) ints[OWN_NS] += own_ns + now_ns(CLOCK_THREAD_CPUTIME_ID) - began_ns;
  }
  if (creating) creating--;
  pthread_mutex_unlock(&lock);
  if (copy) ((Release)own[RELEASE_OPTIONS])(copy);
  free(b.text); free(path);
  return status;
}

static Pointer create_session(Pointer env, const char *path, Pointer options, Pointer *out) {
  return create(CREATE_SESSION, env, path, 0, options, out, __builtin_return_address(0));
}

static Pointer create_from_array(Pointer env, const void *data, size_t n, Pointer options, Pointer *out) {
  return create(CREATE_FROM_ARRAY, env, data, n, options, out, __builtin_return_address(0));
}

static void release_session(Pointer session) {
  pthread_mutex_lock(&lock);
  for (Session **at = &sessions; session && *at; at = &(*at)->next) {
    if ((*at)->session != session) continue;
    Session *gone = *at;
    Buffer b = {0};
    *at = gone->next;
    put(&b, "{\"e\":\"closed\",\"id\":%lld,\"ns\":%lld,\"rows\":[", (long long)gone->id, (long long)now_ns(CLOCK_MONOTONIC));
    for (Row *row = gone->rows; row;) {
      Row *next = row->next;
      int64_t *values = row->row && ints ? ints + HEADER + row->row * FIELDS : row->own;
      put(&b, "[%lld", (long long)row->key);
      for (int i = 0; i < FIELDS - 1; i++) put(&b, ",%lld", (long long)values[i]);
      put(&b, next ? "]," : "]");
      free(row);
      row = next;
    }
    put(&b, "]}");
    write_line(&record, &b);
    free(gone);
    break;
  }
  pthread_mutex_unlock(&lock);
  ((Release)own[RELEASE_SESSION])(session);
}

/* Calls. */

static const char *TYPES[] = {
  "", "float32", "uint8", "int8", "uint16", "int16", "int32", "int64", "str", "bool", "float16", "float64", "uint32", "uint64",
  "complex64", "complex128", "bfloat16"};

static void put_value(Buffer *b, Pointer value) {
  Pointer info = 0, status = value ? ((Clone)own[TYPE_AND_SHAPE])(value, &info) : 0;
  int type = 0;
  size_t n = 0;
  int64_t sizes[16];
  if (status) ((Release)own[RELEASE_STATUS])(status);
  if (!info) { put(b, "\"\",null"); return; }
  ((Pointer(*)(Pointer, int *))own[ELEMENT_TYPE])(info, &type);
  ((Pointer(*)(Pointer, size_t *))own[DIMENSIONS_COUNT])(info, &n);
  put(b, "\"%s\",[", type > 0 && type < 17 ? TYPES[type] : "");
  if (n <= 16) {
    ((Pointer(*)(Pointer, int64_t *, size_t))own[DIMENSIONS])(info, sizes, n);
    for (size_t i = 0; i < n; i++) put(b, i ? ",%lld" : "%lld", (long long)sizes[i]);
  }
  put(b, "]");
  ((Release)own[RELEASE_TYPE_AND_SHAPE])(info);
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
    write_line(&record, &b);
    memset(&b, 0, sizeof b);
  }
  put(&more, ",\"outputs\":[");
  for (size_t i = 0; outputs && i < n_outputs; i++) { put(&more, i ? ",[" : "["); put_value(&more, outputs[i]); put(&more, "]"); }
  put(&more, "]");
  int64_t signature = more.text ? interned("signature", text, more.text) : 0, frames = caller_frames(caller);
  free(more.text);
  fresh->hash = hash; fresh->key = ++n_keys; fresh->own[LEAST_NS] = INT64_MAX;
  if (ints[ROWS_AT] < ROWS - 1) {
    fresh->row = ++ints[ROWS_AT];
    ints[HEADER + fresh->row * FIELDS + KEY] = fresh->key;
  }
  put(&b, "{\"e\":\"row\",\"key\":%lld,\"session\":%lld,\"frames\":%lld,\"signature\":%lld,\"shared\":%s}", (long long)fresh->key,
      (long long)s->id, (long long)frames, (long long)signature, fresh->row ? "false" : "true");
  write_line(&record, &b);
  fresh->next = s->rows;
  return s->rows = fresh;
}

static Session *session_of(Pointer session, void *caller) {
  for (Session *each = sessions; each; each = each->next) if (each->session == session) return each;
  /* One from before a fork, or that another function created. */
  return add_session(session, "{}", 0, now_ns(CLOCK_MONOTONIC), 0, 0, 0, 0, 0, caller);
}

static Pointer run(Pointer session, Pointer run_options, const char *const *names, Pointer const *inputs, size_t n,
                   const char *const *output_names, size_t n_outputs, Pointer *outputs) {
  typedef Pointer (*Run)(Pointer, Pointer, const char *const *, Pointer const *, size_t, const char *const *, size_t, Pointer *);
  void *caller = __builtin_return_address(0);
  int64_t began_ns = 0, pool_ns = -1, start_ns, end_ns;
  int active = 0, inspected = 0;
  Session *s = 0;
  if (record.folder && !off) {
    began_ns = now_ns(CLOCK_MONOTONIC);
    pthread_mutex_lock(&lock);
    started();
    s = ints ? session_of(session, caller) : 0;
    if (s) {
      active = ++s->active;
      s->count++;
      inspected = s->count <= WHOLE || !(s->count % SAMPLED);
      if (inspected || s->count % SAMPLED == 1) pool_ns = cpu_ns(s);
    }
    pthread_mutex_unlock(&lock);
  }
  start_ns = now_ns(CLOCK_MONOTONIC);
  Pointer status = ((Run)own[RUN])(session, run_options, names, inputs, n, output_names, n_outputs, outputs);
  end_ns = now_ns(CLOCK_MONOTONIC);
  if (!s) return status;
  Buffer b = {0};
  put(&b, "[\"run\",[");
  for (size_t i = 0; i < n; i++) {
    put(&b, i ? ",[" : "[");
    put_text(&b, names[i] ? names[i] : "");
    put(&b, ",");
    put_value(&b, inputs[i]);
    put(&b, "]");
  }
  put(&b, "]]");
  pthread_mutex_lock(&lock);
  Session *still = sessions;
  while (still && still != s) still = still->next;
  Row *row = still && b.text && !off ? row_of(s, b.text, caller, status ? 0 : outputs, n_outputs) : 0;
  if (row) {
    int64_t took_ns = end_ns - start_ns, *values = row->row ? ints + HEADER + row->row * FIELDS : row->own;
    s->active--;
    if (!values[COUNT]) values[LEAST_NS] = INT64_MAX;
    values[COUNT]++;
    values[TOTAL_NS] += took_ns;
    if (took_ns < values[LEAST_NS]) values[LEAST_NS] = took_ns;
    if (took_ns > values[MOST_NS]) values[MOST_NS] = took_ns;
    values[FAILED] += status != 0;
    if (ints[CALLS_AT] < KEPT) {
      int64_t *at = ints + HEADER + ROWS * FIELDS + ints[CALLS_AT] * CALL;
      at[0] = row->key; at[1] = start_ns; at[2] = took_ns; at[3] = thread() << 16 | active;
      ints[CALLS_AT]++;
    }
    values[INSPECTED] += inspected;
    int alone = active == 1 && !s->active && s->n_tids;
    if (pool_ns >= 0 && alone) {
      int64_t after_ns = cpu_ns(s);
      values[IN_NS] += after_ns - pool_ns;
      values[IN_WALL_NS] += took_ns;
      if (s->pool_ns >= 0 && pool_ns > s->pool_ns) values[BETWEEN_NS] += pool_ns - s->pool_ns;
      if (s->pool_ns >= 0) values[BETWEEN_WALL_NS] += start_ns - s->pool_wall_ns;
      s->pool_ns = after_ns; s->pool_wall_ns = now_ns(CLOCK_MONOTONIC);
    } else {
      s->pool_ns = -1;
    }
    ints[OWN_NS] += start_ns - began_ns + now_ns(CLOCK_MONOTONIC) - end_ns;
  }
  pthread_mutex_unlock(&lock);
  free(b.text);
  return status;
}

/* The door. */

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

static void replace(void **api) {
  static const struct { int slot; void *function; } NEW[] = {
    {CREATE_SESSION, create_session}, {CREATE_FROM_ARRAY, create_from_array}, {RUN, run}, {CREATE_OPTIONS, create_options},
    {CLONE_OPTIONS, clone_options}, {SET_MODE, set_mode}, {ENABLE_PATTERN, enable_pattern}, {DISABLE_PATTERN, disable_pattern},
    {ENABLE_ARENA, enable_arena}, {DISABLE_ARENA, disable_arena}, {SET_LEVEL, set_level}, {SET_INTRA, set_intra},
    {SET_INTER, set_inter}, {RELEASE_SESSION, release_session}, {RELEASE_OPTIONS, release_options}, {ADD_ENTRY, add_entry}};
  uintptr_t page = sysconf(_SC_PAGESIZE), from = (uintptr_t)api & ~(page - 1);
  size_t length = (uintptr_t)(api + SLOTS) - from;
  int writable = is_writable((uintptr_t)api);
  memcpy(own, api, sizeof own);
  if (!writable && mprotect((void *)from, length, PROT_READ | PROT_WRITE)) { off = 1; return; }
  for (size_t i = 0; i < sizeof NEW / sizeof *NEW; i++) api[NEW[i].slot] = NEW[i].function;
  if (!writable) mprotect((void *)from, length, PROT_READ);
}

static Base *real_base;  /* of the library that is followed */

static void **own_api(uint32_t number) {
  void **api = real_base->api(number);
  pthread_mutex_lock(&lock);
  if (api && !table && !off) {
    table = api;  /* all versions share one */
    replace(api);
    started();
  }
  pthread_mutex_unlock(&lock);
  return api;
}

static const char *own_version(void) { return real_base->version(); }

typedef struct { char best[4096]; const char *caller; size_t folder; int rank; } Search;

/* Choose the library that the caller would have got: itself, one next to it, else the first. */
static int look(struct dl_phdr_info *info, size_t size, void *data) {
  Search *search = data;
  const char *path = info->dlpi_name, *file = path ? strrchr(path, '/') : 0;
  (void)size;
  if (!file || !strstr(file, "onnxruntime") || strlen(path) >= sizeof search->best) return 0;
  void *library = dlopen(path, RTLD_LAZY | RTLD_NOLOAD);
  if (!library) return 0;
  void *found = dlsym(library, "OrtGetApiBase");
  Dl_info of;
  /* A library that only needs ONNX Runtime finds the function in another one. */
  int has = found && dladdr(found, &of) && of.dli_fname && !strcmp(of.dli_fname, path);
  dlclose(library);
  if (!has) return 0;
  int rank = 1;
  if (search->caller && !strncmp(path, search->caller, search->folder) && (size_t)(file - path) == search->folder) rank = 2;
  if (search->caller && !strcmp(path, search->caller)) rank = 3;
  if (rank > search->rank) { strcpy(search->best, path); search->rank = rank; }
  return 0;
}

EXPORT const Base *OrtGetApiBase(void) {
  static Base own_base = {own_api, own_version};
  Search search = {{0}, 0, 0, 0};
  Dl_info info;
  int number = 0, minor = 0;
  if (dladdr(__builtin_return_address(0), &info) && info.dli_fname && strrchr(info.dli_fname, '/')) {
    search.caller = info.dli_fname;
    search.folder = strrchr(info.dli_fname, '/') - info.dli_fname;
  }
  dl_iterate_phdr(look, &search);
  void *library = search.rank ? dlopen(search.best, RTLD_LAZY | RTLD_NOLOAD) : 0;
  Base *(*get)(void) = (Base * (*)(void)) dlsym(library ? library : RTLD_NEXT, "OrtGetApiBase");
  Base *found = get ? get() : 0;
  if (!found || !search.rank) return found;
  pthread_mutex_lock(&lock);
  if (!real_base && !strstr(search.best, "pybind")) {
    record.folder = getenv("ORTUNE_RECORD");
    apply.folder = getenv("ORTUNE_APPLY");
    version = found->version();
    /* Older tables are shorter. */
    int known = sscanf(version, "%d.%d", &number, &minor) == 2 && (number > 1 || minor >= 8);
    if (known && (record.folder || apply.folder)) {
      real_base = found;
      char *folder = realpath(search.best, 0);  /* as the system maps it */
      if (folder) { *strrchr(folder, '/') = 0; home = folder; }
      if (apply.folder) read_changes();
      pthread_atfork(0, 0, child);
    }
  }
  pthread_mutex_unlock(&lock);
  return found == real_base ? &own_base : found;
}
