#include "inject/cdi_files.h"

#include <gtest/gtest.h>

#include "inject/driver_root_testing.h"

namespace divvy::inject {
namespace {

namespace fs = std::filesystem;
using testing::FakeRoot;

CdiSpec spec(const std::string& value) {
  return {.kind = "divvy.dev/slice",
          .devices = {{"web", {.env = {"A=" + value}, .device_nodes = {}, .mounts = {}}}},
          .edits = {}};
}

class CdiFilesTest : public ::testing::Test {
 protected:
  FakeRoot root_;
  fs::path folder_ = root_.at("/etc/cdi");
  CdiFiles files_{root_.at("/list")};
  fs::path web_ = folder_ / cdi_file_name("divvy.dev/slice", "web");
};

TEST_F(CdiFilesTest, NamesFilesAsRuntimesExpectThem) {
  EXPECT_EQ(cdi_file_name("divvy.dev/gpu"), "divvy.dev-gpu.json");
  EXPECT_EQ(cdi_file_name("divvy.dev/slice", "web"), "divvy.dev-slice_web.json");
}

TEST_F(CdiFilesTest, WritesReplacesAndRemoves) {
  ASSERT_TRUE(files_.write(web_, spec("1")).has_value());
  EXPECT_EQ(root_.read("/etc/cdi/divvy.dev-slice_web.json"), to_json(spec("1")));
  ASSERT_TRUE(files_.write(web_, spec("2")).has_value());
  EXPECT_EQ(root_.read("/etc/cdi/divvy.dev-slice_web.json"), to_json(spec("2")));
  EXPECT_EQ(files_.ours(), std::set<fs::path>{web_});
  ASSERT_TRUE(files_.remove(web_).has_value());
  EXPECT_TRUE(fs::is_empty(folder_));
  EXPECT_TRUE(files_.ours().empty());
}

TEST_F(CdiFilesTest, LeavesWhatIsTheSameAlone) {
  ASSERT_TRUE(files_.write(web_, spec("1")).has_value());
  const auto before = fs::last_write_time(web_);
  fs::last_write_time(web_, before - std::chrono::hours(1));
  ASSERT_TRUE(files_.write(web_, spec("1")).has_value());
  EXPECT_EQ(fs::last_write_time(web_), before - std::chrono::hours(1));
}

TEST_F(CdiFilesTest, TouchesNothingOfOthers) {
  root_.file("/etc/cdi/nvidia.yaml", "kind: nvidia.com/gpu\n");
  root_.file("/etc/cdi/divvy.dev-slice_old.json", to_json(spec("other daemon's")));
  ASSERT_TRUE(files_.write(web_, spec("1")).has_value());
  ASSERT_TRUE(files_.keep_only({}).has_value());
  EXPECT_FALSE(fs::exists(web_));
  EXPECT_EQ(root_.read("/etc/cdi/nvidia.yaml"), "kind: nvidia.com/gpu\n");
  EXPECT_TRUE(fs::exists(folder_ / "divvy.dev-slice_old.json"));
}

TEST_F(CdiFilesTest, DoesNotReplaceAFileThatIsNotDivvys) {
  root_.file("/etc/cdi/divvy.dev-slice_web.json", "somebody's notes");
  const Status written = files_.write(web_, spec("1"));
  ASSERT_FALSE(written.has_value());
  EXPECT_EQ(written.error().code, ErrorCode::kAlreadyExists);
  EXPECT_EQ(root_.read("/etc/cdi/divvy.dev-slice_web.json"), "somebody's notes");
  EXPECT_TRUE(files_.ours().empty());
}

TEST_F(CdiFilesTest, DoesNotRemoveWhatSomebodyPutInItsPlace) {
  ASSERT_TRUE(files_.write(web_, spec("1")).has_value());
  root_.file("/etc/cdi/divvy.dev-slice_web.json", "somebody's notes");
  ASSERT_TRUE(files_.remove(web_).has_value());
  EXPECT_EQ(root_.read("/etc/cdi/divvy.dev-slice_web.json"), "somebody's notes");
}

TEST_F(CdiFilesTest, CleansUpInAFolderThatItUsedBefore) {
  const fs::path before = root_.at("/old") / "divvy.dev-slice_web.json";
  ASSERT_TRUE(files_.write(before, spec("1")).has_value());
  ASSERT_TRUE(files_.write(web_, spec("1")).has_value());
  ASSERT_TRUE(files_.keep_only({web_}).has_value());
  EXPECT_FALSE(fs::exists(before));
  EXPECT_TRUE(fs::exists(web_));
}

TEST_F(CdiFilesTest, FollowsNoDamagedList) {
  root_.file("/precious", to_json(spec("1")));
  root_.file("/list", root_.at("/precious").string() + "\nrelative\n\n../divvy.dev-x.json\n");
  ASSERT_TRUE(files_.keep_only({}).has_value());
  EXPECT_TRUE(fs::exists(root_.at("/precious")));
}

TEST_F(CdiFilesTest, SaysWhereItMayNotWrite) {
  root_.file("/etc", "a file in the place of the folder");
  const Status written = files_.write(web_, spec("1"));
  ASSERT_FALSE(written.has_value());
  EXPECT_NE(written.error().message.find(folder_.string()), std::string::npos);
}

}  // namespace
}  // namespace divvy::inject
