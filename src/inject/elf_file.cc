#include "inject/elf_file.h"

#include <elf.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>
#include <vector>

#include "base/unique_fd.h"

namespace divvy::inject {
namespace {

// Far more than any library has; a file that says otherwise is not read on.
constexpr std::size_t kMostSegments = 256;
constexpr std::size_t kMostDynamicEntries = 4096;
constexpr std::size_t kLongestName = 255;

tl::unexpected<Error> damaged(std::string_view what) {
  return err(ErrorCode::kDataLoss, "the ELF file is damaged: {}", what);
}

Machine machine_from(std::uint16_t number) {
  switch (number) {
    case EM_X86_64:
      return Machine::kX86_64;
    case EM_386:
      return Machine::kI386;
    case EM_AARCH64:
      return Machine::kAarch64;
    case EM_ARM:
      return Machine::kArm;
    default:
      return Machine::kOther;
  }
}

template <typename T>
std::optional<T> read_value(const ReadAt& read_at, std::uint64_t offset) {
  T value{};
  if (!read_at(offset, std::as_writable_bytes(std::span(&value, 1)))) return std::nullopt;
  return value;
}

template <typename T>
std::optional<std::vector<T>> read_values(const ReadAt& read_at, std::uint64_t offset,
                                          std::size_t count) {
  std::vector<T> values(count);
  if (!read_at(offset, std::as_writable_bytes(std::span(values)))) return std::nullopt;
  return values;
}

struct Elf32 {
  using Header = Elf32_Ehdr;
  using Segment = Elf32_Phdr;
  using Dynamic = Elf32_Dyn;
};
struct Elf64 {
  using Header = Elf64_Ehdr;
  using Segment = Elf64_Phdr;
  using Dynamic = Elf64_Dyn;
};

// Where in the file the byte is that will be at this address in memory.
template <typename Segment>
std::optional<std::uint64_t> offset_of(const std::vector<Segment>& segments,
                                       std::uint64_t address) {
  for (const Segment& segment : segments) {
    if (segment.p_type != PT_LOAD || address < segment.p_vaddr) continue;
    const std::uint64_t within = address - segment.p_vaddr;
    if (within < segment.p_filesz) return segment.p_offset + within;
  }
  return std::nullopt;
}

std::optional<std::string> read_name(const ReadAt& read_at, std::uint64_t offset,
                                     std::uint64_t most) {
  std::string name;
  for (std::uint64_t i = 0; i < std::min<std::uint64_t>(most, kLongestName + 1); ++i) {
    const auto letter = read_value<char>(read_at, offset + i);
    if (!letter) return std::nullopt;
    if (*letter == '\0') return name;
    name += *letter;
  }
  return std::nullopt;
}

template <typename Elf>
Result<SharedLibrary> read_as(const ReadAt& read_at) {
  using Segment = typename Elf::Segment;
  using Dynamic = typename Elf::Dynamic;
  const auto header = read_value<typename Elf::Header>(read_at, 0);
  if (!header) return damaged("it ends within its header");
  if (header->e_type != ET_DYN) return err(ErrorCode::kDataLoss, "this is no shared library");
  if (header->e_phentsize != sizeof(Segment) || header->e_phnum > kMostSegments) {
    return damaged("its segments are not of the size that they have to be");
  }
  const auto segments = read_values<Segment>(read_at, header->e_phoff, header->e_phnum);
  if (!segments) return damaged("it ends within its list of segments");

  SharedLibrary library{.machine = machine_from(header->e_machine), .soname = {}};
  const auto dynamic = std::ranges::find(*segments, std::uint32_t{PT_DYNAMIC}, &Segment::p_type);
  if (dynamic == segments->end()) return library;
  const std::size_t count = dynamic->p_filesz / sizeof(Dynamic);
  if (count > kMostDynamicEntries) return damaged("its dynamic section is too long");
  const auto entries = read_values<Dynamic>(read_at, dynamic->p_offset, count);
  if (!entries) return damaged("it ends within its dynamic section");
  std::optional<std::uint64_t> name;
  std::uint64_t strings = 0;
  std::uint64_t strings_size = 0;
  for (const Dynamic& entry : *entries) {
    if (entry.d_tag == DT_NULL) break;
    if (entry.d_tag == DT_SONAME) name = entry.d_un.d_val;
    if (entry.d_tag == DT_STRTAB) strings = entry.d_un.d_ptr;
    if (entry.d_tag == DT_STRSZ) strings_size = entry.d_un.d_val;
  }
  if (!name) return library;
  const auto table = offset_of(*segments, strings);
  if (!table || *name >= strings_size) return damaged("its name lies outside of its strings");
  auto soname = read_name(read_at, *table + *name, strings_size - *name);
  if (!soname) return damaged("its name has no end");
  library.soname = *std::move(soname);
  return library;
}

}  // namespace

Result<SharedLibrary> read_shared_library(const ReadAt& read_at) {
  unsigned char ident[EI_NIDENT];
  if (!read_at(0, std::as_writable_bytes(std::span(ident))) ||
      std::memcmp(ident, ELFMAG, SELFMAG) != 0) {
    return err(ErrorCode::kDataLoss, "this is no ELF file");
  }
  if (ident[EI_DATA] != ELFDATA2LSB) {
    return err(ErrorCode::kDataLoss, "this ELF file is of a big-endian machine");
  }
  if (ident[EI_CLASS] == ELFCLASS64) return read_as<Elf64>(read_at);
  if (ident[EI_CLASS] == ELFCLASS32) return read_as<Elf32>(read_at);
  return damaged("it is neither of 32 nor of 64 bits");
}

Result<SharedLibrary> read_shared_library(const std::filesystem::path& file) {
  const UniqueFd fd(::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd) {
    return err(ErrorCode::kIo, "{} could not be opened: {}", file.string(), std::strerror(errno));
  }
  return with_context(read_shared_library([&fd](std::uint64_t offset, std::span<std::byte> into) {
                        if (offset > static_cast<std::uint64_t>(INT64_MAX)) return false;
                        const ssize_t got =
                            ::pread(fd.get(), into.data(), into.size(), static_cast<off_t>(offset));
                        return got == static_cast<ssize_t>(into.size());
                      }),
                      file.string());
}

}  // namespace divvy::inject
