#include "abi/elf.h"

#include <elf.h>

#include <algorithm>
#include <cstring>
#include <span>

#include "abi/shell.h"

namespace ronde::test {
namespace {

template <class T>
std::span<const T> table(const std::string& file, uint64_t offset, uint64_t bytes) {
  if (offset + bytes > file.size()) return {};
  return {reinterpret_cast<const T*>(file.data() + offset), bytes / sizeof(T)};
}

std::string text_at(const std::string& file, const Elf64_Shdr& strings, uint64_t offset) {
  return file.data() + strings.sh_offset + offset;  // string tables end with a 0
}

bool is_exported(const Elf64_Sym& symbol) {
  const unsigned visibility = ELF64_ST_VISIBILITY(symbol.st_other);
  return symbol.st_shndx != SHN_UNDEF && symbol.st_shndx != SHN_ABS && ELF64_ST_BIND(symbol.st_info) != STB_LOCAL &&
         visibility != STV_HIDDEN && visibility != STV_INTERNAL;
}

std::string kind_of(const Elf64_Sym& symbol) {
  if (ELF64_ST_TYPE(symbol.st_info) != STT_FUNC) return "D";
  return ELF64_ST_BIND(symbol.st_info) == STB_WEAK ? "W" : "T";
}

class Reader {
 public:
  explicit Reader(const std::string& file) : file_(file), header_(*reinterpret_cast<const Elf64_Ehdr*>(file.data())) {
    sections_ = table<Elf64_Shdr>(file, header_.e_shoff, uint64_t{header_.e_shnum} * sizeof(Elf64_Shdr));
  }

  Library read() {
    for (const Elf64_Phdr& part : table<Elf64_Phdr>(file_, header_.e_phoff, uint64_t{header_.e_phnum} * sizeof(Elf64_Phdr))) {
      if (part.p_type == PT_LOAD) library_.loaded_bytes += part.p_filesz;
    }
    for (const Elf64_Shdr& section : sections_) {
      if (section.sh_type == SHT_DYNAMIC) dynamic(section);
      if (section.sh_type == SHT_DYNSYM) symbols(section);
      if (section.sh_type == SHT_RELA) relocations(section);
    }
    const auto by_name = [](const std::string& a, const std::string& b) { return a.substr(2) < b.substr(2); };
    std::sort(library_.exports.begin(), library_.exports.end(), by_name);
    return std::move(library_);
  }

 private:
  void dynamic(const Elf64_Shdr& section) {
    const Elf64_Shdr& strings = sections_[section.sh_link];
    for (const Elf64_Dyn& entry : table<Elf64_Dyn>(file_, section.sh_offset, section.sh_size)) {
      if (entry.d_tag == DT_SONAME) library_.soname = text_at(file_, strings, entry.d_un.d_val);
      if (entry.d_tag == DT_NEEDED) library_.needed.push_back(text_at(file_, strings, entry.d_un.d_val));
      if (entry.d_tag == DT_FLAGS_1) library_.flags_1 = entry.d_un.d_val;
      if (entry.d_tag == DT_VERDEF) library_.defines_versions = true;
    }
  }

  void symbols(const Elf64_Shdr& section) {
    for (const Elf64_Sym& symbol : table<Elf64_Sym>(file_, section.sh_offset, section.sh_size)) {
      if (is_exported(symbol)) {
        library_.exports.push_back(kind_of(symbol) + " " + text_at(file_, sections_[section.sh_link], symbol.st_name));
      }
    }
  }

  void relocations(const Elf64_Shdr& section) {
    const Elf64_Shdr& symbols = sections_[section.sh_link];
    if (symbols.sh_type != SHT_DYNSYM) return;
    const auto symbol_table = table<Elf64_Sym>(file_, symbols.sh_offset, symbols.sh_size);
    for (const Elf64_Rela& entry : table<Elf64_Rela>(file_, section.sh_offset, section.sh_size)) {
      const Elf64_Sym& symbol = symbol_table[ELF64_R_SYM(entry.r_info)];
      if (is_exported(symbol)) library_.self_bound.push_back(text_at(file_, sections_[symbols.sh_link], symbol.st_name));
    }
  }

  const std::string& file_;
  const Elf64_Ehdr& header_;
  std::span<const Elf64_Shdr> sections_;
  Library library_;
};

}  // namespace

std::optional<Library> read_library(const std::string& path) {
  const std::string file = contents(path);
  if (file.size() < sizeof(Elf64_Ehdr) || std::memcmp(file.data(), ELFMAG, SELFMAG) != 0) return std::nullopt;
  return Reader(file).read();
}

}  // namespace ronde::test
