/* Loads the libraries that its arguments name, and makes and ends a communicator of one rank with each, twice. */
#include <dlfcn.h>
#include <nccl.h>
#include <stdio.h>

typedef ncclResult_t (*InitAll)(ncclComm_t*, int, const int*);
typedef ncclResult_t (*Destroy)(ncclComm_t);

int main(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    void* library = dlopen(argv[i], RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) {
      printf("%s\n", dlerror());
      return 1;
    }
    InitAll init;
    Destroy destroy;
    *(void**)&init = dlsym(library, "ncclCommInitAll");
    *(void**)&destroy = dlsym(library, "ncclCommDestroy");
    for (int k = 0; k < 2; ++k) {
      ncclComm_t comm = NULL;
      if (init(&comm, 1, NULL) != ncclSuccess || destroy(comm) != ncclSuccess) return 2;
    }
  }
  return 0;
}
