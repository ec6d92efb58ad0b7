/* Both public headers with nothing before them, and once more to see that they may be repeated. */
/* clang-format off */
#include <nccl.h>
#include <ronde.h>
#include <nccl.h>
#include <ronde.h>
/* clang-format on */

static cudaStream_t stream;
static rondeChoice_t choice;

int main(void) { return stream != NULL || choice.size != 0; }
