#include "inject/ldcache.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "inject/driver_root_testing.h"

namespace divvy::inject {
namespace {

using testing::ldcache;

TEST(Ldcache, ReadsNamesAndPaths) {
  const auto libraries = parse_ldcache(
      ldcache({{"libcuda.so.1", "/usr/lib64/libcuda.so.1"}, {"libm.so.6", "/lib64/libm.so.6"}}));
  ASSERT_TRUE(libraries.has_value()) << libraries.error().message;
  ASSERT_EQ(libraries->size(), 2U);
  EXPECT_EQ((*libraries)[0].name, "libcuda.so.1");
  EXPECT_EQ((*libraries)[0].path, "/usr/lib64/libcuda.so.1");
  EXPECT_EQ((*libraries)[1].path, "/lib64/libm.so.6");
}

TEST(Ldcache, ReadsItBehindTheOldFormat) {
  std::string old = "ld.so-1.7.0";
  old += '\0';
  old += std::string("\1\0\0\0", 4);
  old.append(12, '\7');  // One old entry, which nobody needs
  old.append(4, '\0');   // Up to a multiple of eight
  const auto libraries = parse_ldcache(old + ldcache({{"a.so", "/a.so"}}));
  ASSERT_TRUE(libraries.has_value()) << libraries.error().message;
  ASSERT_EQ(libraries->size(), 1U);
  EXPECT_EQ((*libraries)[0].path, "/a.so");
}

TEST(Ldcache, ReadsThatOfThisMachine) {
  std::ifstream file("/etc/ld.so.cache", std::ios::binary);
  if (!file) GTEST_SKIP() << "this machine has no /etc/ld.so.cache";
  const std::string bytes{std::istreambuf_iterator<char>(file), {}};
  const auto libraries = parse_ldcache(bytes);
  ASSERT_TRUE(libraries.has_value()) << libraries.error().message;
  EXPECT_TRUE(std::ranges::any_of(*libraries, [](const CachedLibrary& library) {
    return library.name == "libc.so.6" && library.path.starts_with("/");
  }));
}

TEST(Ldcache, RefusesWhatIsCutShortAnywhere) {
  const std::string whole = ldcache({{"libcuda.so.1", "/usr/lib64/libcuda.so.1"}});
  for (std::size_t length = 0; length < whole.size(); ++length) {
    EXPECT_FALSE(parse_ldcache(whole.substr(0, length)).has_value()) << length;
  }
}

TEST(Ldcache, RefusesMoreEntriesThanThereAre) {
  std::string bytes = ldcache({{"a.so", "/a.so"}});
  bytes.replace(20, 4, "\xff\xff\xff\xff");
  const auto libraries = parse_ldcache(bytes);
  ASSERT_FALSE(libraries.has_value());
  EXPECT_EQ(libraries.error().code, ErrorCode::kDataLoss);
}

}  // namespace
}  // namespace divvy::inject
