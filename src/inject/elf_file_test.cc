#include "inject/elf_file.h"

#include <gtest/gtest.h>

#include "inject/driver_root_testing.h"

namespace divvy::inject {
namespace {

using testing::library_32;
using testing::library_64;

Result<SharedLibrary> read(const std::string& bytes) {
  return read_shared_library([&bytes](std::uint64_t offset, std::span<std::byte> into) {
    if (offset > bytes.size() || bytes.size() - offset < into.size()) return false;
    std::memcpy(into.data(), bytes.data() + offset, into.size());
    return true;
  });
}

TEST(ElfFile, TellsMachineAndName) {
  const auto wide = read(library_64("libcuda.so.1"));
  ASSERT_TRUE(wide.has_value()) << wide.error().message;
  EXPECT_EQ(wide->machine, Machine::kX86_64);
  EXPECT_EQ(wide->soname, "libcuda.so.1");
  const auto narrow = read(library_32("libcuda.so.1"));
  ASSERT_TRUE(narrow.has_value()) << narrow.error().message;
  EXPECT_EQ(narrow->machine, Machine::kI386);
  EXPECT_EQ(narrow->soname, "libcuda.so.1");
  EXPECT_EQ(read(library_64("x", EM_AARCH64))->machine, Machine::kAarch64);
  EXPECT_EQ(read(library_64("x", EM_S390))->machine, Machine::kOther);
  EXPECT_EQ(read(library_64(""))->soname, "");
}

TEST(ElfFile, ReadsALibraryOfThisMachine) {
  const auto library = read_shared_library(std::filesystem::path("/lib64/ld-linux-x86-64.so.2"));
  if (!library) GTEST_SKIP() << library.error().message;
  EXPECT_EQ(library->machine, Machine::kX86_64);
  EXPECT_EQ(library->soname, "ld-linux-x86-64.so.2");
}

TEST(ElfFile, RefusesWhatIsCutShortAnywhere) {
  for (const std::string& whole : {library_64("libcuda.so.1"), library_32("libcuda.so.1")}) {
    for (std::size_t length = 0; length < whole.size(); ++length) {
      EXPECT_FALSE(read(whole.substr(0, length)).has_value()) << length;
    }
  }
}

TEST(ElfFile, RefusesWhatIsNoLibrary) {
  EXPECT_FALSE(read("#!/bin/sh\necho no library\n").has_value());
  std::string program = library_64("x");
  program[EI_NIDENT] = ET_EXEC;
  EXPECT_FALSE(read(program).has_value());
  EXPECT_FALSE(read_shared_library(std::filesystem::path("/no/such/file")).has_value());
  EXPECT_FALSE(read_shared_library(std::filesystem::path("/tmp")).has_value());
}

}  // namespace
}  // namespace divvy::inject
