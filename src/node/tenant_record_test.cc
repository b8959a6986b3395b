#include "node/tenant_record.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <fstream>

#include "model/testing.h"

namespace divvy::node {
namespace {

class State : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (std::filesystem::temp_directory_path() / "divvy-state-XXXXXX").string();
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  StateFile file() const { return StateFile(folder_ / "tenants.json"); }
  void write(const std::string& text) const { std::ofstream(folder_ / "tenants.json") << text; }

  std::filesystem::path folder_;
};

TenantRecord record() {
  TenantRecord one;
  one.id = model::TenantId(7);
  one.name = "train-7";
  one.command = "python \"train\".py";
  one.uid = 1000;
  one.gid = 100;
  one.root = {4242, 99'999};
  one.since_unix = 1'700'000'000;
  one.slices = {
      model::Slice::create(model::test_uuid(1), gib(10), Share(300), model::ShareKind::kCap)
          .value()};
  one.tenant_class = TenantClass::kLatency;
  one.mode = GpuMode::kMps;
  return one;
}

TEST_F(State, ComesBackAsItWasWritten) {
  ASSERT_TRUE(file().save({.next_id = model::TenantId(8), .tenants = {record()}}));
  const auto loaded = file().load();
  ASSERT_TRUE(loaded.has_value()) << loaded.error().message;
  EXPECT_EQ(loaded->next_id, model::TenantId(8));
  ASSERT_EQ(loaded->tenants.size(), 1U);
  const TenantRecord& one = loaded->tenants[0];
  EXPECT_EQ(one.name, "train-7");
  EXPECT_EQ(one.command, "python \"train\".py");
  EXPECT_EQ(one.root, (ProcessName{4242, 99'999}));
  EXPECT_EQ(one.slices, record().slices);
  EXPECT_EQ(one.tenant_class, TenantClass::kLatency);
  EXPECT_EQ(one.mode, GpuMode::kMps);
  EXPECT_FALSE(std::filesystem::exists(folder_ / "tenants.json.new"));
}

TEST_F(State, IsEmptyWhereThereIsNoFile) {
  const auto loaded = file().load();
  ASSERT_TRUE(loaded.has_value());
  EXPECT_TRUE(loaded->tenants.empty());
}

TEST_F(State, ForgetsWhoRanBeforeTheLastBootButNoHeldSlice) {
  TenantRecord held = record();
  held.root = {};
  held.name = "web";
  ASSERT_TRUE(file().save({.next_id = model::TenantId(9), .tenants = {record(), held}}));
  std::ifstream saved(folder_ / "tenants.json");
  std::string text{std::istreambuf_iterator<char>(saved), {}};
  text.replace(text.find(boot_id()), boot_id().size(), "another");
  write(text);
  const auto loaded = file().load();
  ASSERT_TRUE(loaded.has_value()) << loaded.error().message;
  EXPECT_EQ(loaded->next_id, model::TenantId(9));
  ASSERT_EQ(loaded->tenants.size(), 1U);
  EXPECT_EQ(loaded->tenants[0].name, "web");
}

TEST_F(State, SaysWhichFileIsDamaged) {
  for (const char* text : {"", "{", "[]", "{}", R"({"format":2})", "\xff\xfe"}) {
    write(text);
    const auto loaded = file().load();
    ASSERT_FALSE(loaded.has_value()) << text;
    EXPECT_EQ(loaded.error().code, ErrorCode::kDataLoss);
    EXPECT_NE(loaded.error().message.find("tenants.json"), std::string::npos);
  }
}

TEST_F(State, SaysThatItCannotBeWritten) {
  const Status saved = StateFile("/nonexistent/folder/tenants.json").save({});
  ASSERT_FALSE(saved.has_value());
  EXPECT_NE(saved.error().message.find("/nonexistent"), std::string::npos);
}

TEST_F(State, OnAFullDiskStaysAsItWas) {
  ASSERT_TRUE(file().save({.next_id = model::TenantId(8), .tenants = {record()}}));
  std::filesystem::create_symlink("/dev/full", folder_ / "tenants.json.new");
  const Status saved = file().save({.next_id = model::TenantId(9), .tenants = {}});
  ASSERT_FALSE(saved.has_value());
  EXPECT_EQ(saved.error().code, ErrorCode::kIo);
  EXPECT_NE(saved.error().message.find("free some space"), std::string::npos);
  EXPECT_EQ(file().load()->tenants.size(), 1U);
  std::filesystem::remove(folder_ / "tenants.json.new");
  ASSERT_TRUE(file().save({.next_id = model::TenantId(9), .tenants = {}}));
  EXPECT_EQ(file().load()->next_id, model::TenantId(9));
}

TEST(Process, IsNamedByItsNumberAndBirth) {
  const auto born = start_ticks(::getpid());
  ASSERT_TRUE(born.has_value());
  EXPECT_TRUE(open_process(ProcessName{::getpid(), *born}).has_value());
  EXPECT_FALSE(open_process(ProcessName{::getpid(), *born + 1}).has_value());
  EXPECT_FALSE(start_ticks(0x3ffffffe).has_value());
  EXPECT_EQ(open_process(0x3ffffffe).error().code, ErrorCode::kNotFound);
  EXPECT_EQ(owner_of(::getpid()), ::getuid());
}

}  // namespace
}  // namespace divvy::node
