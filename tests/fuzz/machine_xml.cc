#include "fuzz/target.h"
#include "topo/xml.h"

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto read = ronde::topo::from_xml(ronde::fuzz::text_of(data, size), "input");
  if (read.ok()) ronde::fuzz::plan(read->machine);
  return 0;
}
