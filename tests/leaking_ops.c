/* Operators that keep memory in ways that people report: each copies its input to its output.

   The API of ONNX Runtime is a table of functions whose order never changes; those that are used are named by their place.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct {
  const void* (*GetApi)(uint32_t version);
  const char* (*GetVersionString)(void);
} ApiBase;

typedef struct Op {
  uint32_t version;
  void* (*CreateKernel)(const struct Op*, const void* api, const void* info);
  const char* (*GetName)(const struct Op*);
  const char* (*GetProvider)(const struct Op*);
  int (*GetInputType)(const struct Op*, size_t);
  size_t (*GetInputCount)(const struct Op*);
  int (*GetOutputType)(const struct Op*, size_t);
  size_t (*GetOutputCount)(const struct Op*);
  void (*Compute)(void* kernel, void* context);
  void (*Destroy)(void* kernel);
  int (*GetInputCharacteristic)(const struct Op*, size_t);
  int (*GetOutputCharacteristic)(const struct Op*, size_t);
  void* later[16];
  const char* name;
  void (*keep)(const float*, size_t);
} Op;

enum {
  CreateCustomOpDomain = 26, CustomOpDomain_Add = 27, AddCustomOpDomain = 28, GetTensorMutableData = 51,
  GetDimensionsCount = 61, GetDimensions = 62, GetTensorShapeElementCount = 64, GetTensorTypeAndShape = 65,
  KernelContext_GetInput = 90, KernelContext_GetOutput = 91, ReleaseTensorTypeAndShapeInfo = 99
};

static void* const* api;

#define CALL(place, ...) ((void* (*)())api[place])(__VA_ARGS__)

/* What is kept must be written, or it takes no pages. */
static void* kept(size_t bytes) {
  void** block = malloc(bytes);
  memset(block, 1, bytes);
  return block;
}

/* One kilobyte for each call. */
static void leak(const float* x, size_t n) {
  static void* last;
  void** block = kept(1024);
  *block = last;
  last = block;
}

/* One kilobyte for each input that was not seen before, found again by a hash of the data. */
static void cache(const float* x, size_t n) {
  enum { SLOTS = 1 << 18 };
  static struct { uint64_t hash; void* value; }* table;
  const unsigned char* bytes = (const unsigned char*)x;
  uint64_t hash = 1469598103934665603u;
  size_t i;
  if (!table) table = calloc(SLOTS, sizeof *table);
  for (i = 0; i < n * sizeof(float); i++) hash = (hash ^ bytes[i]) * 1099511628211u;
  for (i = hash % SLOTS; table[i].value && table[i].hash != hash; i = (i + 1) % SLOTS) {}
  if (!table[i].value) {
    table[i].hash = hash;
    table[i].value = kept(1024);
  }
}

/* A buffer that grows to the largest input ever seen, 32 times its size, and stays. */
static void ratchet(const float* x, size_t n) {
  static char* buffer;
  static size_t size;
  if (32 * n * sizeof(float) > size) {
    free(buffer);
    size = 32 * n * sizeof(float);
    buffer = kept(size);
  }
}

/* In every fourth call two scratch buffers that are larger than all before, of which a few bytes stay: the first one
   leaves a hole that nothing later fits. */
static void fragment(const float* x, size_t n) {
  static size_t call;
  void *first, *second;
  size_t bytes = 1024 + 4 * ++call;
  if (call % 4 || bytes > 100 << 10) return;
  first = kept(bytes);
  second = kept(bytes);
  if (!realloc(first, 24) || !realloc(second, 24)) abort();
}

/* One kilobyte for each call, in a child process that was started by the first one. */
static void child(const float* x, size_t n) {
  static int request = -1;
  static int answer;
  char byte = 0;
  if (request < 0) {
    int there[2], back[2];
    if (pipe(there) || pipe(back)) abort();
    if (!fork()) {
      close(there[1]);
      while (read(there[0], &byte, 1) == 1) {
        leak(x, n);
        if (write(back[1], &byte, 1) != 1) break;
      }
      _exit(0);
    }
    close(there[0]);
    close(back[1]);
    request = there[1];
    answer = back[0];
  }
  if (write(request, &byte, 1) != 1 || read(answer, &byte, 1) != 1) abort();
}

/* One kilobyte for each call in ONNX Runtime 1.30 and newer. */
static int newer;
static void leak_since(const float* x, size_t n) {
  if (newer) leak(x, n);
}

/* 64 kilobytes for each kernel that is created, and so for each session. */
static void* session_memory;

static void nothing(const float* x, size_t n) {}

typedef struct { const Op* op; } Kernel;

static void* create(const Op* op, const void* table, const void* info) {
  Kernel* kernel = malloc(sizeof *kernel);
  kernel->op = op;
  if (!strcmp(op->name, "KeepPerSession")) {
    void** block = kept(64 << 10);
    *block = session_memory;
    session_memory = block;
  }
  return kernel;
}

static void compute(void* kernel, void* context) {
  void *input, *output, *info;
  float *x, *y;
  size_t n, rank;
  int64_t shape[8];
  CALL(KernelContext_GetInput, context, (size_t)0, &input);
  CALL(GetTensorTypeAndShape, input, &info);
  CALL(GetDimensionsCount, info, &rank);
  CALL(GetDimensions, info, shape, rank);
  CALL(GetTensorShapeElementCount, info, &n);
  ((void (*)(void*))api[ReleaseTensorTypeAndShapeInfo])(info);
  CALL(KernelContext_GetOutput, context, (size_t)0, shape, rank, &output);
  CALL(GetTensorMutableData, input, (void**)&x);
  CALL(GetTensorMutableData, output, (void**)&y);
  memcpy(y, x, n * sizeof(float));
  ((Kernel*)kernel)->op->keep(x, n);
}

static const char* name(const Op* op) { return op->name; }
static const char* provider(const Op* op) { return NULL; }
static int type(const Op* op, size_t i) { return 1; }
static size_t one(const Op* op) { return 1; }
static int required(const Op* op, size_t i) { return 0; }

#define OP(text, function) \
  { 8, create, name, provider, type, one, type, one, compute, free, required, required, {0}, text, function }

static const Op ops[] = {
    OP("Leak", leak), OP("CacheByInput", cache), OP("Ratchet", ratchet), OP("Fragment", fragment),
    OP("LeakInChild", child), OP("KeepPerSession", nothing), OP("LeakSince130", leak_since), OP("Copy", nothing),
};

__attribute__((visibility("default"))) void* RegisterCustomOps(void* options, const ApiBase* base) {
  void *domain, *status;
  size_t i;
  api = base->GetApi(8);
  newer = atoi(base->GetVersionString() + 2) >= 30;
  if ((status = CALL(CreateCustomOpDomain, "leaking", &domain))) return status;
  for (i = 0; i < sizeof ops / sizeof *ops; i++)
    if ((status = CALL(CustomOpDomain_Add, domain, &ops[i]))) return status;
  return CALL(AddCustomOpDomain, options, domain);
}
