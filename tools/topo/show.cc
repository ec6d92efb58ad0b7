#include <langinfo.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <clocale>
#include <cstring>

#include "tools/topo/channel_sets.h"
#include "tools/topo/commands.h"
#include "tools/topo/input.h"
#include "tools/topo/json.h"
#include "tools/topo/svg.h"
#include "tools/topo/tree.h"

namespace ronde::topo::tool {
namespace {

/// Fits standard output: colours and width on terminals alone, UTF-8 where the locale has it.
Look look_of(const ShowOptions& options) {
  std::setlocale(LC_CTYPE, "");
  Look look;
  look.unicode = std::strcmp(nl_langinfo(CODESET), "UTF-8") == 0;
  const bool terminal = isatty(STDOUT_FILENO) == 1;
  look.colour = options.colour == "always" || (options.colour == "auto" && terminal);
  winsize size{};
  if (options.width > 0) {
    look.width = options.width;
  } else if (terminal && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0) {
    look.width = size.ws_col;
  }
  return look;
}

}  // namespace

int show(const ShowOptions& options) {
  const auto reading = read_input(options.input);
  if (!reading.ok()) return failed(reading.error());
  const Machine& machine = reading->machine;
  std::vector<ChannelSet> sets;
  if (options.channels || !options.svg.empty()) sets = channel_sets(machine);
  Result<> written;
  if (!options.svg.empty()) {
    written = write_output(options.svg, drawing(machine, sets));
  } else {
    std::string text = overview(machine, look_of(options), options.all);
    if (options.channels) text.append("\n").append(channels_text(machine, sets));
    written = write_output("", options.json ? to_json(*reading, sets) : text);
  }
  if (!written.ok()) return failed(written.error());
  say_notes(reading->notes);
  return kDone;
}

}  // namespace ronde::topo::tool
