#include "base/trusted_path.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <string>

#include "base/temporary_folder.h"

namespace divvy {
namespace {

namespace fs = std::filesystem;

constexpr uid_t kOther = 65'534;

class TrustedFolder : public ::testing::Test {
 protected:
  void SetUp() override { fs::create_directories(base_ / "a/b"); }

  static void give_away(const fs::path& path) {
    if (::geteuid() != 0) GTEST_SKIP() << "needs root to be two users";
    ASSERT_EQ(::lchown(path.c_str(), kOther, kOther), 0);
  }
  static ErrorCode refusal(const fs::path& path) {
    const Status checked = check_trusted_folder(path);
    EXPECT_FALSE(checked.has_value());
    return checked ? ErrorCode::kInternal : checked.error().code;
  }

  TemporaryFolder base_;
};

TEST_F(TrustedFolder, IsOneThatOnlyItsUserCanChange) {
  EXPECT_TRUE(check_trusted_folder(base_ / "a/b").has_value());
  EXPECT_TRUE(check_trusted_folder(base_ / "a/./b/../b/").has_value());
}

TEST_F(TrustedFolder, IsNotOneOfAnotherUserNorBelowOne) {
  give_away(base_ / "a");
  EXPECT_EQ(refusal(base_ / "a"), ErrorCode::kPermissionDenied);
  EXPECT_EQ(refusal(base_ / "a/b"), ErrorCode::kPermissionDenied);
}

TEST_F(TrustedFolder, IsNotOneThatEverybodyWritesTo) {
  ASSERT_EQ(::chmod((base_ / "a").c_str(), 0777), 0);
  EXPECT_EQ(refusal(base_ / "a"), ErrorCode::kPermissionDenied);
  EXPECT_EQ(refusal(base_ / "a/b"), ErrorCode::kPermissionDenied);
}

TEST_F(TrustedFolder, MayLieInAStickyFolderButNotBeOne) {
  ASSERT_EQ(::chmod((base_ / "a").c_str(), 01777), 0);
  EXPECT_TRUE(check_trusted_folder(base_ / "a/b").has_value());
  EXPECT_EQ(refusal(base_ / "a"), ErrorCode::kPermissionDenied);
}

TEST_F(TrustedFolder, IsFoundBehindOwnLinksAndNotBehindThoseOfOthers) {
  fs::create_directory_symlink(base_ / "a", base_ / "own");
  fs::create_directory_symlink("a/b", base_ / "relative");
  EXPECT_TRUE(check_trusted_folder(base_ / "own/b").has_value());
  EXPECT_TRUE(check_trusted_folder(base_ / "relative").has_value());
  fs::create_directory_symlink(base_ / "a", base_ / "theirs");
  give_away(base_ / "theirs");
  EXPECT_EQ(refusal(base_ / "theirs/b"), ErrorCode::kPermissionDenied);
}

TEST_F(TrustedFolder, HasToBeThere) {
  EXPECT_EQ(refusal(base_ / "none"), ErrorCode::kNotFound);
  fs::create_directory_symlink("loop", base_ / "loop");
  EXPECT_EQ(refusal(base_ / "loop"), ErrorCode::kIo);
}

}  // namespace
}  // namespace divvy
