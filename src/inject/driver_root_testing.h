// A file system with a driver in it, in a temporary folder, for tests: what a distribution's
// package would install, as small as it can be. Gone with the object.
#pragma once

#include <elf.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "base/temporary_folder.h"

namespace divvy::inject::testing {

template <typename Header, typename Segment, typename Dynamic>
std::string elf_library(std::uint16_t machine, unsigned char elf_class, const std::string& soname) {
  Header header{};
  std::memcpy(header.e_ident, ELFMAG, SELFMAG);
  header.e_ident[EI_CLASS] = elf_class;
  header.e_ident[EI_DATA] = ELFDATA2LSB;
  header.e_ident[EI_VERSION] = EV_CURRENT;
  header.e_type = ET_DYN;
  header.e_machine = machine;
  header.e_phoff = sizeof header;
  header.e_phentsize = sizeof(Segment);
  header.e_phnum = 2;
  const std::string strings = std::string(1, '\0') + soname + std::string(1, '\0');
  const auto dynamic_at = sizeof header + 2 * sizeof(Segment);
  Dynamic dynamic[4]{};
  const auto strings_at = dynamic_at + sizeof dynamic;
  // Loaded at another address than the file's offsets, as real ones are in part.
  constexpr std::size_t kAddress = 0x1000;
  dynamic[0].d_tag = DT_STRTAB;
  dynamic[0].d_un.d_ptr = static_cast<decltype(dynamic[0].d_un.d_ptr)>(kAddress + strings_at);
  dynamic[1].d_tag = DT_STRSZ;
  dynamic[1].d_un.d_val = static_cast<decltype(dynamic[1].d_un.d_val)>(strings.size());
  dynamic[2].d_tag = soname.empty() ? DT_DEBUG : DT_SONAME;
  dynamic[2].d_un.d_val = 1;
  Segment segments[2]{};
  segments[0].p_type = PT_LOAD;
  segments[0].p_vaddr = kAddress;
  segments[0].p_filesz = static_cast<decltype(segments[0].p_filesz)>(strings_at + strings.size());
  segments[1].p_type = PT_DYNAMIC;
  segments[1].p_offset = static_cast<decltype(segments[1].p_offset)>(dynamic_at);
  segments[1].p_filesz = sizeof dynamic;
  std::string bytes;
  bytes.append(reinterpret_cast<const char*>(&header), sizeof header);
  bytes.append(reinterpret_cast<const char*>(segments), sizeof segments);
  bytes.append(reinterpret_cast<const char*>(dynamic), sizeof dynamic);
  return bytes + strings;
}

inline std::string library_64(const std::string& soname, std::uint16_t machine = EM_X86_64) {
  return elf_library<Elf64_Ehdr, Elf64_Phdr, Elf64_Dyn>(machine, ELFCLASS64, soname);
}

inline std::string library_32(const std::string& soname) {
  return elf_library<Elf32_Ehdr, Elf32_Phdr, Elf32_Dyn>(EM_386, ELFCLASS32, soname);
}

// A cache of the dynamic linker with these names and paths.
inline std::string ldcache(const std::vector<std::pair<std::string, std::string>>& libraries) {
  std::string entries;
  std::string strings;
  const auto put = [](std::string& to, std::uint32_t value) {
    to.append(reinterpret_cast<const char*>(&value), sizeof value);
  };
  const std::size_t start = 48 + 24 * libraries.size();
  for (const auto& [name, path] : libraries) {
    put(entries, 0x0303);
    for (const std::string& text : {name, path}) {
      put(entries, static_cast<std::uint32_t>(start + strings.size()));
      strings += text + std::string(1, '\0');
    }
    entries.append(12, '\0');
  }
  std::string bytes = "glibc-ld.so.cache1.1";
  put(bytes, static_cast<std::uint32_t>(libraries.size()));
  put(bytes, static_cast<std::uint32_t>(strings.size()));
  bytes += '\2';  // Little-endian
  bytes.append(48 - bytes.size(), '\0');
  return bytes + entries + strings;
}

class FakeRoot {
 public:
  [[nodiscard]] const std::filesystem::path& folder() const { return folder_; }
  [[nodiscard]] std::filesystem::path at(const std::filesystem::path& inside) const {
    return folder_ / inside.relative_path();
  }

  // As a package manager does it: what was there is removed first.
  void file(const std::filesystem::path& inside, const std::string& text = "x") const {
    std::filesystem::create_directories(at(inside).parent_path());
    std::filesystem::remove(at(inside));
    std::ofstream(at(inside), std::ios::binary) << text;
  }
  void link(const std::filesystem::path& inside, const std::filesystem::path& target) const {
    std::filesystem::create_directories(at(inside).parent_path());
    std::filesystem::remove(at(inside));
    std::filesystem::create_symlink(target, at(inside));
  }
  [[nodiscard]] std::string read(const std::filesystem::path& inside) const {
    std::ifstream file(at(inside), std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  // A library and the link by which programs find it.
  void library(const std::filesystem::path& folder, const std::string& name,
               const std::string& soname, const std::string& bytes) const {
    file(folder / name, bytes);
    if (!soname.empty() && soname != name) link(folder / soname, name);
  }
  // The libraries that CUDA programs need, in one folder.
  void compute_libraries(const std::filesystem::path& folder, const std::string& version,
                         bool is_64 = true) const {
    for (const char* start : {"libcuda.so", "libnvidia-ml.so", "libnvidia-ptxjitcompiler.so"}) {
      const std::string soname = fmt::format("{}.1", start);
      library(folder, fmt::format("{}.{}", start, version), soname,
              is_64 ? library_64(soname) : library_32(soname));
    }
    const std::string soname = "libnvidia-gpucomp.so." + version;
    library(folder, soname, soname, is_64 ? library_64(soname) : library_32(soname));
  }
  void loaded(const std::string& version) const {
    file("/sys/module/nvidia/version", version + "\n");
  }
  void devices() const {
    for (const char* name : {"nvidiactl", "nvidia-uvm", "nvidia-uvm-tools", "nvidia0", "nvidia1"}) {
      file(std::filesystem::path("/dev") / name);
    }
  }

 private:
  TemporaryFolder folder_;
};

}  // namespace divvy::inject::testing
