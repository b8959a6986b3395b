#include "sys/disk.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include "base/temporary_folder.h"

namespace divvy::sys {
namespace {

namespace fs = std::filesystem;

class RealDisk : public ::testing::Test {
 protected:
  void SetUp() override { disk_ = open_disk(folder_); }
  TemporaryFolder folder_;
  std::unique_ptr<Disk> disk_;
};

TEST_F(RealDisk, AppendsCutsAndReads) {
  auto file = disk_->create("one");
  ASSERT_TRUE(file.has_value()) << file.error().message;
  ASSERT_TRUE((*file)->append("hello "));
  ASSERT_TRUE((*file)->append("world"));
  ASSERT_TRUE((*file)->sync());
  EXPECT_EQ(disk_->read("one").value(), "hello world");
  ASSERT_TRUE((*file)->truncate(5));
  ASSERT_TRUE((*file)->append("!"));
  EXPECT_EQ(disk_->read("one").value(), "hello!");
}

TEST_F(RealDisk, RenamesInPlaceOfWhatWasThere) {
  ASSERT_TRUE(disk_->create("old").value()->append("old"));
  ASSERT_TRUE(disk_->create("new").value()->append("new"));
  ASSERT_TRUE(disk_->rename("new", "old"));
  ASSERT_TRUE(disk_->sync_folder());
  EXPECT_EQ(disk_->read("old").value(), "new");
  EXPECT_EQ(disk_->read("new").error().code, ErrorCode::kNotFound);
  EXPECT_TRUE(disk_->remove("old"));
  EXPECT_TRUE(disk_->remove("old")) << "what is not there needs no removal";
}

TEST_F(RealDisk, FilesAreTheirOwnersOnly) {
  ASSERT_TRUE(disk_->create("secret").has_value());
  struct stat status{};
  ASSERT_EQ(::stat((folder_ / "secret").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777U, 0600U);
}

TEST_F(RealDisk, DoesNotFollowALinkThatSomebodyPutThere) {
  fs::create_symlink(folder_ / "elsewhere", folder_ / "ledger.new");
  EXPECT_FALSE(disk_->create("ledger.new").has_value());
  EXPECT_FALSE(fs::exists(folder_ / "elsewhere"));
}

TEST_F(RealDisk, SaysWhoMustOwnTheFolder) {
  // Nobody may make a file there, not even root.
  const auto file = open_disk("/sys")->create("ledger");
  ASSERT_FALSE(file.has_value());
  EXPECT_EQ(file.error().code, ErrorCode::kPermissionDenied) << file.error().message;
  EXPECT_NE(file.error().message.find("/sys/ledger"), std::string::npos);
  EXPECT_NE(file.error().message.find("--state-dir"), std::string::npos) << file.error().message;
}

}  // namespace
}  // namespace divvy::sys
