/* An example tuner plugin, one for each version of the interface: what they have in common. It does what the file says that
 * NCCL_TUNER_CONFIG_FILE names, by lines of: log PATH              appends to the file what it is told and asked init CODE init
 * returns CODE get CODE              getCollInfo returns CODE set ALGO PROTO COST   writes COST (a number, nan, inf) into the
 * table, by NCCL's numbers channels N say WORD              init writes WORD by the log function odd                   of a
 * process's contexts only each second one does what the set lines say
 */
#ifndef EXAMPLE_H_
#define EXAMPLE_H_

#include <stddef.h>
#include <stdint.h>

typedef void (*Log)(int level, unsigned long flags, const char* file, int line, const char* format, ...);

/* `told` is what init was given, as text for the log. */
int example_init(void** context, const char* told, Log log);
int example_get(void* context, const char* asked, float** table, int algorithms, int protocols, int* channels);
int example_end(void* context);

#endif
