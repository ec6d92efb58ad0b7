#include "example.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { kMostOrders = 16, kMostRequests = 32, kMagic = 0x6e657470, kNoClass = -1 };

typedef struct Request {
  struct Comm* comm;
  char* data;
  size_t bytes; /* to send, or room */
  int done;
  struct Request *next, *next_waiting;
} Request;

typedef struct Region {
  char* data;
  size_t bytes;
  struct Region* next;
} Region;

/* One connection; goes with the second of its ends. */
typedef struct Pipe {
  Request *sends, *receives; /* not yet matched, the oldest first */
  int accepted, ends, closed;
  struct Pipe* next;     /* of a listener that has not accepted it */
  struct Pipe* next_all; /* of all there are: that of a handle whose connection was given up is no leak */
} Pipe;

typedef struct Comm {
  char kind; /* l, s, r */
  int id, requests;
  int inside; /* a call is */
  Pipe* pipe; /* of a listener: those that wait */
  Request* all;
  Region* regions;
  struct Comm* next; /* of listeners */
} Comm;

typedef struct {
  int magic, id, stage;
  Pipe* pipe;
} Handle;

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct {
  char function[24];
  int code, after, times;
} orders[kMostOrders];
static int order_count, inits, contexts, comms, registrations, errors, last_class = kNoClass, next_id, wide;
static char error[256];
static Comm* listeners;
static Pipe* pipes;
static Log logger;

/* Without the mutex held, as with it: a first error that is lost does no harm. */
static int broken(const char* what) {
  if (__atomic_fetch_add(&errors, 1, __ATOMIC_RELAXED) == 0) snprintf(error, sizeof error, "%s", what);
  if (logger != NULL) logger(2, ~0ul, "example.c", __LINE__, "rule broken: %s", what);
  return 3;
}

static int enter(int* inside, const char* function) {
  if (__atomic_exchange_n(inside, 1, __ATOMIC_SEQ_CST) != 0) broken(function);
  pthread_mutex_lock(&mutex);
  return 0;
}

static int leave(int* inside, int code) {
  pthread_mutex_unlock(&mutex);
  __atomic_store_n(inside, 0, __ATOMIC_SEQ_CST);
  return code;
}

/* -1: nothing was ordered of this call. */
static int ordered(const char* function) {
  int i;
  for (i = 0; i < order_count; ++i) {
    if (strcmp(orders[i].function, function) != 0 || orders[i].times == 0) continue;
    if (orders[i].after-- > 0) continue;
    --orders[i].times;
    orders[i].after = 0;
    return orders[i].code;
  }
  return -1;
}

void example_order(const char* function, int code, int after, int times) {
  pthread_mutex_lock(&mutex);
  if (order_count < kMostOrders) {
    snprintf(orders[order_count].function, sizeof orders[0].function, "%s", function);
    orders[order_count].code = code;
    orders[order_count].after = after;
    orders[order_count++].times = times;
  }
  pthread_mutex_unlock(&mutex);
}

void example_reset(void) {
  pthread_mutex_lock(&mutex);
  order_count = errors = 0;
  error[0] = '\0';
  pthread_mutex_unlock(&mutex);
}

int example_count(const char* what) {
  const struct {
    const char* name;
    const int* value;
  } all[] = {{"inits", &inits},   {"contexts", &contexts},       {"comms", &comms}, {"registrations", &registrations},
             {"errors", &errors}, {"traffic_class", &last_class}};
  size_t i;
  int value = -1;
  pthread_mutex_lock(&mutex);
  for (i = 0; i < sizeof all / sizeof all[0]; ++i) {
    if (strcmp(all[i].name, what) == 0) value = *all[i].value;
  }
  pthread_mutex_unlock(&mutex);
  return value;
}

const char* example_error(void) { return error; }

int example_init(Log log, Profile profile, int profiled) {
  int code;
  enter(&wide, "init at the same time as another call for the plugin");
  logger = log;
  ++inits;
  if (profiled && profile == NULL) broken("no profiler function");
  log(3, ~0ul, "example.c", __LINE__, "example is initialised, %d", 42);
  code = ordered("init");
  return leave(&wide, code > 0 ? code : 0);
}

int example_context(void** context, uint64_t id, int traffic_class) {
  enter(&wide, "a context at the same time as another call for the plugin");
  if (id == 0) broken("a communicator without an id");
  last_class = traffic_class;
  ++contexts;
  *context = &contexts;
  return leave(&wide, 0);
}

int example_finalize(void* context) {
  enter(&wide, "finalize at the same time as another call for the plugin");
  if (context != &contexts) broken("finalize of another context");
  --contexts;
  return leave(&wide, 0);
}

int example_devices(int* count) {
  int code;
  enter(&wide, "devices at the same time as another call for the plugin");
  *count = 2;
  code = ordered("devices");
  if (code == 0) *count = 0;
  return leave(&wide, code > 0 ? code : 0);
}

int example_properties(int device, char** name, char** path, uint64_t* guid, int* speed, int* port, int* memory) {
  static char names[2][8] = {"left", "right"};
  int code;
  enter(&wide, "getProperties at the same time as another call for the plugin");
  *name = names[device];
  *path = NULL;
  *guid = 7;
  *speed = 100000;
  *port = device + 1;
  code = ordered("getProperties");
  *memory = code == 0 ? 2 : 3;
  return leave(&wide, code > 0 ? code : 0);
}

size_t example_largest(void) {
  size_t largest = (size_t)1 << 40;
  pthread_mutex_lock(&mutex);
  if (ordered("largest") >= 0) largest = 4096;
  pthread_mutex_unlock(&mutex);
  return largest;
}

static Comm* make(char kind, Pipe* pipe) {
  Comm* comm = calloc(1, sizeof *comm);
  comm->kind = kind;
  comm->pipe = pipe;
  if (pipe != NULL) ++pipe->ends;
  ++comms;
  return comm;
}

static void let_go(Pipe* pipe) {
  Pipe** at = &pipes;
  if (--pipe->ends > 0) return;
  while (*at != pipe) at = &(*at)->next_all;
  *at = pipe->next_all;
  free(pipe);
}

int example_listen(int device, void* handle, void** comm) {
  Handle* it = handle;
  Comm* made;
  int code;
  pthread_mutex_lock(&mutex);
  code = ordered("listen");
  if (code <= 0 && device >= 0 && device < 2) {
    made = make('l', NULL);
    made->id = ++next_id;
    made->next = listeners;
    listeners = made;
    memset(it, 0, sizeof *it);
    it->magic = kMagic;
    it->id = made->id;
    *comm = made;
    code = 0;
  }
  pthread_mutex_unlock(&mutex);
  return code;
}

/* Asked twice at least; what it has done so far is in the handle. */
int example_connect(int device, void* handle, int traffic_class, void** comm) {
  Handle* it = handle;
  Comm* listener;
  int code;
  pthread_mutex_lock(&mutex);
  code = ordered("connect");
  last_class = traffic_class;
  *comm = NULL;
  if (code == -1 && (it->magic != kMagic || device < 0 || device > 1)) code = broken("a handle that no listener has made");
  if (code == -1 && it->stage == 0) {
    for (listener = listeners; listener != NULL && listener->id != it->id; listener = listener->next) {
    }
    if (listener == NULL) {
      code = 2;
    } else {
      it->pipe = calloc(1, sizeof *it->pipe);
      it->pipe->ends = 2; /* the listener, until it accepts, and the handle, until it is connected */
      it->pipe->next_all = pipes;
      pipes = it->pipe;
      it->pipe->next = listener->pipe;
      listener->pipe = it->pipe;
      it->stage = 1;
    }
  } else if (code == -1 && it->pipe->accepted) {
    *comm = make('s', it->pipe);
    let_go(it->pipe);
  } else if (code == -1 && it->pipe->closed) {
    code = 6;
  }
  pthread_mutex_unlock(&mutex);
  return code > 0 ? code : 0;
}

int example_accept(void* from, void** comm) {
  Comm* listener = from;
  int code;
  enter(&listener->inside, "two threads in one listener");
  code = ordered("accept");
  *comm = NULL;
  if (code == -1 && listener->pipe != NULL) {
    Pipe* pipe = listener->pipe;
    listener->pipe = pipe->next;
    pipe->accepted = 1;
    *comm = make('r', pipe);
    let_go(pipe);
  }
  return leave(&listener->inside, code > 0 ? code : 0);
}

int example_reg(void* to, void* data, size_t bytes, int kind, void** registration) {
  Comm* comm = to;
  Region* region;
  int code;
  enter(&comm->inside, "two threads in one connection: regMr");
  code = ordered("regMr");
  if (code == -1 && comm->kind == 's') code = ordered("regMr of a sender");
  if (kind != 1) code = broken("memory of another kind than the host's");
  if (code <= 0) {
    region = calloc(1, sizeof *region);
    region->data = data;
    region->bytes = bytes;
    region->next = comm->regions;
    comm->regions = region;
    ++registrations;
    *registration = region;
  }
  return leave(&comm->inside, code > 0 ? code : 0);
}

int example_dereg(void* to, void* registration) {
  Comm* comm = to;
  Region** at;
  int code = 3;
  enter(&comm->inside, "two threads in one connection: deregMr");
  for (at = &comm->regions; *at != NULL && *at != registration; at = &(*at)->next) {
  }
  if (*at == NULL) {
    code = broken("deregMr of what is not registered there");
  } else {
    Region* gone = *at;
    *at = gone->next;
    free(gone);
    --registrations;
    code = 0;
  }
  return leave(&comm->inside, code);
}

static int match(Pipe* pipe) {
  while (pipe->sends != NULL && pipe->receives != NULL) {
    Request *sent = pipe->sends, *received = pipe->receives;
    if (sent->bytes > received->bytes) return broken("a message that is longer than its room");
    memcpy(received->data, sent->data, sent->bytes);
    received->bytes = sent->bytes;
    sent->done = received->done = 1;
    pipe->sends = sent->next_waiting;
    pipe->receives = received->next_waiting;
  }
  return 0;
}

static int begin(Comm* comm, char kind, const char* function, void* data, size_t bytes, int tag, Region* region, void** out) {
  Request *request, **end;
  const int code = ordered(function);
  *out = NULL;
  if (code >= 0) return code;
  if (comm->kind != kind || tag != 0) return broken("a request of a connection of the other direction, or with a tag");
  if (region == NULL || (char*)data < region->data || (char*)data + bytes > region->data + region->bytes) {
    return broken("a message outside of the registered memory");
  }
  if (comm->requests == kMostRequests) return broken("more than 32 requests");
  request = calloc(1, sizeof *request);
  request->comm = comm;
  request->data = data;
  request->bytes = bytes;
  request->next = comm->all;
  comm->all = request;
  ++comm->requests;
  end = kind == 's' ? &comm->pipe->sends : &comm->pipe->receives;
  while (*end != NULL) end = &(*end)->next_waiting;
  *end = request;
  *out = request;
  return match(comm->pipe);
}

int example_send(void* to, void* data, size_t bytes, int tag, void* registration, void** request) {
  Comm* comm = to;
  enter(&comm->inside, "two threads in one connection: isend");
  return leave(&comm->inside, begin(comm, 's', "isend", data, bytes, tag, registration, request));
}

int example_receive(void* to, int n, void** data, size_t bytes, int* tags, void** registrations_, void** request) {
  Comm* comm = to;
  if (n != 1) return broken("receives in groups");
  enter(&comm->inside, "two threads in one connection: irecv");
  return leave(&comm->inside, begin(comm, 'r', "irecv", data[0], bytes, tags[0], registrations_[0], request));
}

static void end_request(Request* request) {
  Request** at = &request->comm->all;
  while (*at != request) at = &(*at)->next;
  *at = request->next;
  --request->comm->requests;
  free(request);
}

int example_test(void* of, int* done, int* bytes) {
  Request* request = of;
  Comm* comm = request->comm;
  int code;
  enter(&comm->inside, "two threads in one connection: test");
  code = ordered("test");
  *done = 0;
  if (code == -1 && request->done) {
    *done = 1;
    if (bytes != NULL) *bytes = (int)request->bytes;
    end_request(request);
  } else if (code == -1 && comm->pipe->closed) {
    code = 6;
  }
  return leave(&comm->inside, code > 0 ? code : 0);
}

static int close_end(Comm* comm, char kind) {
  enter(&comm->inside, "two threads in one connection: close");
  if (comm->kind != kind) broken("closed as what it is not");
  if (comm->regions != NULL) broken("closed with memory registered");
  comm->pipe->closed = 1;
  if (kind == 's') comm->pipe->sends = NULL;
  if (kind == 'r') comm->pipe->receives = NULL;
  while (comm->all != NULL) end_request(comm->all);
  let_go(comm->pipe);
  --comms;
  pthread_mutex_unlock(&mutex);
  free(comm);
  return 0;
}

int example_close_send(void* comm) { return close_end(comm, 's'); }
int example_close_receive(void* comm) { return close_end(comm, 'r'); }

int example_close_listen(void* of) {
  Comm *comm = of, **at;
  enter(&comm->inside, "two threads in one listener: close");
  for (at = &listeners; *at != comm; at = &(*at)->next) {
  }
  *at = comm->next;
  while (comm->pipe != NULL) {
    Pipe* pipe = comm->pipe;
    comm->pipe = pipe->next;
    pipe->closed = 1;
    let_go(pipe);
  }
  --comms;
  pthread_mutex_unlock(&mutex);
  free(comm);
  return 0;
}
