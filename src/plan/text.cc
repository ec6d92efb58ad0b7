// The text form; docs/programs.md describes it.
#include "plan/text.h"

#include <fmt/core.h>
#include <algorithm>
#include <charconv>
#include <iterator>
#include <limits>

#include "plan/build.h"

namespace ronde {
namespace {

constexpr std::string_view kHeader = "ronde-schedule";
constexpr std::string_view kBuffers[] = {"none", "input", "output", "scratch"};

// ---- writing

std::string peer_text(const Peer& peer) {
  return peer.link == 0 ? fmt::format(" {}", peer.rank) : fmt::format(" {}/{}", peer.rank, peer.link);
}

/// True where reading the Moves in order makes the same table and the same indices again, so that the table need not be written
/// out.
bool table_follows(const Program& program) {
  std::vector<Peer> table;
  const auto same = [&](uint32_t first, uint32_t count) {
    if (uint64_t{first} + count > program.peers.size()) return false;
    return count == 0 || intern_peers(table, std::span(program.peers).subspan(first, count)) == first;
  };
  for (const auto& lane : program.lanes) {
    for (const Move& m : lane) {
      if (!same(m.in_first, m.in_count) || !same(m.out_first, m.out_count)) return false;
    }
  }
  return table == program.peers;
}

class Writer {
 public:
  explicit Writer(const Program& program) : program_(program), follows_(table_follows(program)) {}

  std::string run() {
    text_ = fmt::format("program rank {} channel {} blocks {} scratch {}\n", program_.rank, program_.channel, program_.blocks,
                        program_.scratch_blocks);
    if (!follows_) {
      table_ = program_.peers;
      text_ += "peers";
      for (const Peer& peer : program_.peers) text_ += peer_text(peer);
      text_ += '\n';
    }
    for (const auto& lane : program_.lanes) {
      text_ += "lane\n";
      for (const Move& m : lane) move(m);
    }
    return std::move(text_);
  }

 private:
  /// Names the peers where the table would give the same indices back, else the indices themselves.
  void peers(const char* side, uint32_t first, uint32_t count) {
    if (count == 0 && first == 0) return;
    text_ += fmt::format(" {}", side);
    if (uint64_t{first} + count <= program_.peers.size()) {
      const std::span<const Peer> list = std::span(program_.peers).subspan(first, count);
      if (count > 0 && intern_peers(table_, list) == first) {
        for (const Peer& peer : list) text_ += peer_text(peer);
        return;
      }
    }
    text_ += fmt::format(" @{}+{}", first, count);
  }

  void block(const char* side, Buf buf, uint32_t index, uint32_t at) {
    if (buf == Buf::none && index == 0 && at == 0) return;
    text_ += fmt::format(" {} {} {}", side, kBuffers[buf > Buf::scratch ? 0 : static_cast<size_t>(buf)], index);
  }

  void move(const Move& m) {
    text_ += "  move";
    peers("in", m.in_first, m.in_count);
    block("src", m.src, m.src_block, m.src_at);
    if (m.src_at != 0) text_ += fmt::format(" at {}", m.src_at);
    block("dst", m.dst, m.dst_block, 0);
    peers("out", m.out_first, m.out_count);
    if (m.n_blocks != 1) text_ += fmt::format(" blocks {}", m.n_blocks);
    if (m.flags & kMoveFinal) text_ += " final";
    if (m.flags & kMoveNoLend) text_ += " nolend";
    text_ += '\n';
  }

  const Program& program_;
  bool follows_;
  std::vector<Peer> table_;
  std::string text_;
};

// ---- reading

/// The words of one line, taken from the front.
class Line {
 public:
  /// `prefix` comes before the number in errors, and must outlive the Line.
  Line(std::string_view text, size_t number, std::string_view prefix)
      : rest_(text.substr(0, text.find('#'))), number_(number), prefix_(prefix) {
    skip();
  }

  bool empty() const { return rest_.empty(); }
  size_t number() const { return number_; }
  std::string place() const { return fmt::format("{}{}", prefix_, number_); }
  /// The next word, empty at the end of the line.
  std::string_view peek() const { return rest_.substr(0, std::min(rest_.find_first_of(" \t\r"), rest_.size())); }
  bool take(std::string_view word) {
    if (empty() || peek() != word) return false;
    drop();
    return true;
  }
  void drop() {
    rest_.remove_prefix(peek().size());
    skip();
  }
  Error expected(std::string_view what) const {
    const std::string found = empty() ? "the end of the line" : fmt::format("\"{}\"", printable(peek()));
    return fail(Code::invalid_argument, fmt::format("{}: found {}, expected {}", place(), found, what));
  }

  template <class T>
  Result<T> number_of(std::string_view what) {
    RONDE_TRY(T value, parse<T>(peek(), what));
    drop();
    return value;
  }
  /// keyword, then a number.
  template <class T>
  Result<T> field(std::string_view keyword) {
    if (!take(keyword)) return expected(fmt::format("\"{}\"", keyword));
    return number_of<T>(fmt::format("a number after \"{}\"", keyword));
  }
  template <class T>
  Result<T> parse(std::string_view word, std::string_view what) const {
    T value{};
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
    if (error != std::errc() || end != word.data() + word.size()) {
      return expected(
          fmt::format("{}, from {} to {}", what, int64_t{std::numeric_limits<T>::min()}, std::numeric_limits<T>::max()));
    }
    return value;
  }
  Result<> end() const {
    if (!empty()) return expected("the end of the line");
    return {};
  }

 private:
  static std::string printable(std::string_view word) {
    std::string text;
    for (char c : word.substr(0, 40)) text += c >= 0x20 && c < 0x7f ? c : '?';
    return text;
  }
  void skip() { rest_.remove_prefix(std::min(rest_.find_first_not_of(" \t\r"), rest_.size())); }

  std::string_view rest_;
  size_t number_;
  std::string_view prefix_;
};

class Reader {
 public:
  Reader(std::string_view text, std::string_view prefix) : text_(text), prefix_(prefix) {}

  /// One Schedule and nothing after it.
  Result<Schedule> single() {
    next();
    RONDE_TRY(Schedule schedule, one());
    if (!line_.empty()) return line_.expected("\"program\", \"peers\", \"lane\" or \"move\"");
    return schedule;
  }

  Result<std::vector<PlacedSchedule>> all() {
    std::vector<PlacedSchedule> list;
    next();
    do {
      const size_t line = line_.number();
      RONDE_TRY(Schedule schedule, one());
      list.push_back({std::move(schedule), line});
    } while (!line_.empty());
    return list;
  }

 private:
  /// From the present line to the end of the text or the header of another Schedule.
  Result<Schedule> one() {
    schedule_ = {};
    RONDE_TRY(header());
    RONDE_TRY(collective());
    while (next()) {
      Line& line = line_;
      if (line.peek() == kHeader) break;
      if (line.take("program")) {
        RONDE_TRY(program());
      } else if (schedule_.world.empty()) {
        return line.expected("\"program\"");
      } else if (line.take("peers")) {
        RONDE_TRY(peer_table());
      } else if (line.take("lane")) {
        RONDE_TRY(line.end());
        current().lanes.emplace_back();
      } else if (line.take("move")) {
        RONDE_TRY(move());
      } else {
        return line.expected("\"program\", \"peers\", \"lane\" or \"move\"");
      }
    }
    return std::move(schedule_);
  }

  /// Goes to the next line that has words; false at the end of the text.
  bool next() {
    while (!text_.empty()) {
      const size_t end = std::min(text_.find('\n'), text_.size());
      line_ = Line(text_.substr(0, end), ++number_, prefix_);
      text_.remove_prefix(std::min(end + 1, text_.size()));
      if (!line_.empty()) return true;
    }
    line_ = Line("", number_ + 1, prefix_);
    return false;
  }

  Program& current() { return schedule_.world.back(); }

  Result<> header() {
    if (!line_.take(kHeader)) return line_.expected("\"ronde-schedule\"");
    if (!line_.take("1")) return line_.expected("version \"1\", the only one there is");
    return line_.end();
  }

  Result<> collective() {
    next();
    if (!line_.take("collective")) return line_.expected("\"collective\"");
    std::string names;
    int found = -1;
    for (int c = 0; c < kColls && found < 0; ++c) {
      if (line_.take(name_of(static_cast<Coll>(c)))) found = c;
      names += fmt::format("{}{}", c == 0 ? "" : ", ", name_of(static_cast<Coll>(c)));
    }
    if (found < 0) return line_.expected("one of " + names);
    schedule_.spec.coll = static_cast<Coll>(found);
    RONDE_TRY(schedule_.spec.ranks, line_.field<int>("ranks"));
    if (!line_.empty()) {
      RONDE_TRY(schedule_.spec.root, line_.field<int>("root"));
    }
    return line_.end();
  }

  Result<> program() {
    Program program;
    RONDE_TRY(program.rank, line_.field<int>("rank"));
    RONDE_TRY(program.channel, line_.field<int>("channel"));
    RONDE_TRY(program.blocks, line_.field<uint32_t>("blocks"));
    RONDE_TRY(program.scratch_blocks, line_.field<uint32_t>("scratch"));
    RONDE_TRY(line_.end());
    schedule_.world.push_back(std::move(program));
    return {};
  }

  Result<> peer_table() {
    if (!current().peers.empty() || !current().lanes.empty())
      return line_.expected("\"peers\" once, before the first lane of its Program");
    RONDE_TRY(current().peers, peer_list());
    return line_.end();
  }

  static bool numeral(std::string_view word) { return !word.empty() && (word[0] == '-' || (word[0] >= '0' && word[0] <= '9')); }

  Result<std::vector<Peer>> peer_list() {
    std::vector<Peer> list;
    while (numeral(line_.peek())) {
      const std::string_view word = line_.peek();
      const size_t slash = word.find('/');
      constexpr std::string_view what = "a peer, RANK or RANK/LINK";
      Peer peer;
      RONDE_TRY(peer.rank, line_.parse<int32_t>(word.substr(0, slash), what));
      if (slash != std::string_view::npos) {
        RONDE_TRY(peer.link, line_.parse<uint32_t>(word.substr(slash + 1), what));
      }
      line_.drop();
      list.push_back(peer);
    }
    return list;
  }

  /// A list of peers, or its place in the table.
  Result<> operand_peers(std::string_view side, uint32_t& first, uint16_t& count) {
    if (!line_.take(side)) return {};
    const std::string_view word = line_.peek();
    if (!word.empty() && word[0] == '@') {
      const size_t plus = std::min(word.find('+'), word.size());
      constexpr std::string_view what = "a place in the table of peers, @FIRST+COUNT";
      RONDE_TRY(first, line_.parse<uint32_t>(word.substr(1, plus - 1), what));
      RONDE_TRY(count, line_.parse<uint16_t>(word.substr(std::min(plus + 1, word.size())), what));
      line_.drop();
      return {};
    }
    RONDE_TRY(const std::vector<Peer> list, peer_list());
    if (list.empty()) return line_.expected(fmt::format("peers after \"{}\", RANK or RANK/LINK", side));
    if (list.size() > std::numeric_limits<uint16_t>::max()) return line_.expected("65535 peers at most before it");
    first = intern_peers(current().peers, list);
    count = static_cast<uint16_t>(list.size());
    return {};
  }

  Result<> operand_block(std::string_view side, Buf& buf, uint32_t& block) {
    if (!line_.take(side)) return {};
    size_t b = 0;
    while (b < std::size(kBuffers) && !line_.take(kBuffers[b])) ++b;
    if (b == std::size(kBuffers)) return line_.expected("\"input\", \"output\", \"scratch\" or \"none\"");
    buf = static_cast<Buf>(b);
    RONDE_TRY(block, line_.number_of<uint32_t>("a block's number"));
    return {};
  }

  Result<> move() {
    if (current().lanes.empty())
      return fail(Code::invalid_argument, fmt::format("{}: found \"move\", expected \"lane\" before it", line_.place()));
    Move m;
    RONDE_TRY(operand_peers("in", m.in_first, m.in_count));
    RONDE_TRY(operand_block("src", m.src, m.src_block));
    if (line_.take("at")) {
      RONDE_TRY(m.src_at, line_.number_of<uint16_t>("the number of arrivals before src"));
    }
    RONDE_TRY(operand_block("dst", m.dst, m.dst_block));
    RONDE_TRY(operand_peers("out", m.out_first, m.out_count));
    if (line_.peek() == "blocks") {
      RONDE_TRY(m.n_blocks, line_.field<uint32_t>("blocks"));
    }
    if (line_.take("final")) m.flags |= kMoveFinal;
    if (line_.take("nolend")) m.flags |= kMoveNoLend;
    if (!line_.empty()) {
      return line_.expected(
          "the end of the line; a move is [in PEERS] [src BUFFER BLOCK [at N]] [dst BUFFER BLOCK] [out PEERS] "
          "[blocks N] [final] [nolend], in this order");
    }
    current().lanes.back().push_back(m);
    return {};
  }

  std::string_view text_;
  std::string_view prefix_;
  size_t number_ = 0;
  Line line_{"", 0, prefix_};
  Schedule schedule_;
};

}  // namespace

std::string to_text(const Schedule& schedule) {
  std::string text = fmt::format("ronde-schedule 1\ncollective {} ranks {}", name_of(schedule.spec.coll), schedule.spec.ranks);
  if (has_root(schedule.spec.coll) || schedule.spec.root != 0) text += fmt::format(" root {}", schedule.spec.root);
  text += '\n';
  for (const Program& program : schedule.world) text.append("\n").append(Writer(program).run());
  return text;
}

Result<Schedule> from_text(std::string_view text) { return Reader(text, "line ").single(); }

Result<std::vector<PlacedSchedule>> schedules_from_text(std::string_view text, std::string_view path) {
  const std::string prefix = fmt::format("{}:", path);
  return Reader(text, prefix).all();
}

}  // namespace ronde
