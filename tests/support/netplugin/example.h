/* A network for the tests: messages between parts of one process, offered as a net plugin by one file for each version of NCCL's
   interface. It holds its user to the interface's rules, and goes wrong on order. */
#include <stddef.h>
#include <stdint.h>

typedef void (*Log)(int level, unsigned long subsystems, const char* file, int line, const char* format, ...);
typedef int (*Profile)(void** event, int kind, void* parent, int64_t plugin, void* data);

/* Functions of the interface, by what all versions have in common. */
int example_init(Log log, Profile profile, int profiled);
int example_context(void** context, uint64_t id, int traffic_class);
int example_finalize(void* context);
int example_devices(int* count);
int example_properties(int device, char** name, char** path, uint64_t* guid, int* speed, int* port, int* memory);
size_t example_largest(void);
int example_listen(int device, void* handle, void** comm);
int example_connect(int device, void* handle, int traffic_class, void** comm);
int example_accept(void* listener, void** comm);
int example_reg(void* comm, void* data, size_t bytes, int kind, void** registration);
int example_dereg(void* comm, void* registration);
int example_send(void* comm, void* data, size_t bytes, int tag, void* registration, void** request);
int example_receive(void* comm, int n, void** data, size_t bytes, int* tags, void** registrations, void** request);
int example_test(void* request, int* done, int* bytes);
int example_close_send(void* comm);
int example_close_receive(void* comm);
int example_close_listen(void* comm);

/* For tests, which find them by name. */

/* After `after` more calls of `function` ("isend"), `times` of them return `code`; with code 0 they say: ask again. */
void example_order(const char* function, int code, int after, int times);
/* How many there are of: inits, contexts, comms, registrations, errors; or what was last told: traffic_class. */
int example_count(const char* what);
/* The first rule that was broken; "" for none. */
const char* example_error(void);
/* Forgets orders and errors. */
void example_reset(void);
