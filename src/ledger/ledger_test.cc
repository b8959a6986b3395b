#include "ledger/ledger.h"

#include <gtest/gtest.h>

#include <thread>

#include "base/log.h"
#include "base/temporary_folder.h"
#include "ledger/ledger_testing.h"

namespace divvy::ledger {
namespace {

using Sync = Journal::Sync;
const model::Cordon kCordon{"fan is loud", true, 1'700'000'000};

std::unique_ptr<Ledger> open(sys::Disk& disk, const std::string& boot = "boot") {
  auto ledger = Ledger::open(disk, boot);
  EXPECT_TRUE(ledger.has_value()) << ledger.error().message;
  return *std::move(ledger);
}

// As the daemons of before there was a ledger wrote it.
constexpr const char* kFirstStateFile =
    R"({"format":1,"boot":"boot","nextId":8,"tenants":[{"id":7,"name":"train-7",)"
    R"("command":"python","uid":1000,"gid":100,"pid":4242,"startTicks":99,"since":1700000000,)"
    R"("class":"latency","mode":"mps","slices":[{"gpu":"GPU-00000000-0000-4000-8000-000000000001",)"
    R"("memory":1073741824,"share":300,"capped":true}]}]})";

TEST(Ledger, RemembersAcrossAKill) {
  sys::FakeDisk disk;
  TenantRecord one = test_tenant(7, 300);
  one.tenant_class = model::JobClass::kLatency;
  one.mode = GpuMode::kMps;
  one.command = "caf\xc3\xa9 \xff \" \\ \n";
  {
    const auto ledger = open(disk);
    EXPECT_EQ(ledger->next_id(), model::TenantId(1));
    ASSERT_TRUE(ledger->grant(one));
    ASSERT_TRUE(ledger->grant(test_tenant(8)));
    ASSERT_TRUE(ledger->grant(test_tenant(9)));
    ASSERT_TRUE(ledger->release(model::TenantId(9), Sync::kLater));
    ASSERT_TRUE(ledger->change(test_tenant(8, 500)));
    ASSERT_TRUE(ledger->set_cordon(model::test_uuid(4), kCordon));
    disk.kill_process();
  }
  const auto ledger = open(disk);
  EXPECT_EQ(ledger->next_id(), model::TenantId(10));
  ASSERT_EQ(ledger->tenants().size(), 2U);
  EXPECT_EQ(ledger->tenants().at(model::TenantId(7)), one);
  EXPECT_EQ(ledger->tenants().at(model::TenantId(8)), test_tenant(8, 500));
  EXPECT_EQ(ledger->cordons(),
            (std::map<model::GpuUuid, model::Cordon>{{model::test_uuid(4), kCordon}}));
}

TEST(Ledger, AGrantCostsOneSync) {
  sys::FakeDisk disk;
  const auto ledger = open(disk);
  const std::uint64_t before = disk.syncs();
  ASSERT_TRUE(ledger->grant(test_tenant(1)));
  EXPECT_EQ(disk.syncs() - before, 1U);
  ASSERT_TRUE(ledger->release(model::TenantId(1), Sync::kLater));
  EXPECT_EQ(disk.syncs() - before, 1U) << "the process is gone, so nobody has to wait";
}

TEST(Ledger, RefusesWhatCouldNotBeReplayed) {
  sys::FakeDisk disk;
  const auto ledger = open(disk);
  ASSERT_TRUE(ledger->grant(test_tenant(1, 700)));
  const std::uint64_t before = disk.operations();
  EXPECT_FALSE(ledger->grant(test_tenant(1, 100))) << "it is there already";
  EXPECT_FALSE(ledger->grant(test_tenant(2, 400))) << "more than a GPU";
  EXPECT_FALSE(ledger->change(test_tenant(3, 100))) << "nobody to change";
  EXPECT_FALSE(ledger->release(model::TenantId(3), Sync::kNow));
  EXPECT_EQ(disk.operations(), before);
  EXPECT_TRUE(ledger->change(test_tenant(1, 1000))) << "its own share does not count against it";
  EXPECT_FALSE(ledger->trouble());
}

TEST(Ledger, DropsTenantsWithAProcessAfterABoot) {
  sys::FakeDisk disk;
  TenantRecord by_name = test_tenant(2);
  by_name.holder = model::Holder::kSlice;
  by_name.root = {};
  {
    const auto ledger = open(disk, "boot 1");
    ASSERT_TRUE(ledger->grant(test_tenant(1)));
    ASSERT_TRUE(ledger->grant(by_name));
    ASSERT_TRUE(ledger->set_cordon(model::test_uuid(1), kCordon));
  }
  const auto ledger = open(disk, "boot 2");
  ASSERT_EQ(ledger->tenants().size(), 1U);
  EXPECT_EQ(ledger->tenants().at(model::TenantId(2)), by_name);
  EXPECT_EQ(ledger->cordons().size(), 1U);
  EXPECT_EQ(ledger->next_id(), model::TenantId(3));
}

TEST(Ledger, AnUncordonedGpuStaysUncordoned) {
  sys::FakeDisk disk;
  {
    const auto ledger = open(disk);
    ASSERT_TRUE(ledger->set_cordon(model::test_uuid(1), kCordon));
    ASSERT_TRUE(ledger->set_cordon(model::test_uuid(1), std::nullopt));
    ASSERT_TRUE(ledger->set_cordon(model::test_uuid(2), std::nullopt)) << "it never was";
  }
  EXPECT_TRUE(open(disk)->cordons().empty());
}

TEST(Ledger, OnAFullDiskRefusesNewKeepsOldAndSaysSoOnce) {
  const LogCapture log;
  sys::FakeDisk disk;
  const auto ledger = open(disk);
  ASSERT_TRUE(ledger->grant(test_tenant(1)));
  ASSERT_TRUE(ledger->grant(test_tenant(2)));
  disk.set_space(disk.content(kLedgerFile).size() + 10);
  for (std::uint64_t id = 3; id < 10; ++id) {
    const Status refused = ledger->grant(test_tenant(id));
    ASSERT_FALSE(refused.has_value());
    EXPECT_EQ(refused.error().code, ErrorCode::kIo);
    EXPECT_NE(refused.error().message.find("free some space"), std::string::npos);
  }
  EXPECT_TRUE(ledger->trouble());
  EXPECT_FALSE(ledger->release(model::TenantId(1), Sync::kLater)) << "not on the disk yet";
  EXPECT_EQ(ledger->tenants().size(), 1U);
  EXPECT_EQ(read_back(disk).tenants.size(), 2U);

  disk.set_space(std::nullopt);
  ASSERT_TRUE(ledger->grant(test_tenant(10))) << "by itself";
  EXPECT_FALSE(ledger->trouble());
  EXPECT_EQ(read_back(disk).tenants, ledger->tenants()) << "and the release was written too";
  int said = 0;
  for (const std::string& line : log.lines()) {
    if (line.find("ledger cannot be written") != std::string::npos) ++said;
  }
  EXPECT_EQ(said, 1);
  EXPECT_TRUE(log.contains("ledger can be written again"));
}

TEST(Ledger, OpensOnAFullDisk) {
  const LogCapture quiet;
  sys::FakeDisk disk;
  {
    ASSERT_TRUE(open(disk)->grant(test_tenant(1)));
  }
  disk.set_space(0);
  {
    const auto ledger = open(disk);
    EXPECT_EQ(ledger->tenants().size(), 1U);
    EXPECT_FALSE(ledger->grant(test_tenant(2)));
  }
  const auto ledger = open(disk);
  EXPECT_EQ(ledger->tenants().size(), 1U);
  disk.set_space(std::nullopt);
  EXPECT_TRUE(ledger->grant(test_tenant(2)));
}

TEST(Ledger, AReleaseThatCouldNotBeWrittenIsWrittenAtTheEnd) {
  const LogCapture quiet;
  sys::FakeDisk disk;
  {
    const auto ledger = open(disk);
    ASSERT_TRUE(ledger->grant(test_tenant(1)));
    disk.set_space(0);
    EXPECT_FALSE(ledger->release(model::TenantId(1), Sync::kNow));
    disk.set_space(std::nullopt);
  }
  EXPECT_TRUE(read_back(disk).tenants.empty());
}

TEST(Ledger, CompactsItsJournal) {
  sys::FakeDisk disk;
  const auto ledger = Ledger::open(disk, "boot", 10'000).value();
  for (std::uint64_t id = 1; id < 500; ++id) {
    ASSERT_TRUE(ledger->grant(test_tenant(id)));
    ASSERT_TRUE(ledger->release(model::TenantId(id), Sync::kLater));
    EXPECT_LT(disk.content(kLedgerFile).size(), 11'000U);
  }
  EXPECT_EQ(ledger->next_id(), model::TenantId(500));
  EXPECT_EQ(read_back(disk).next_id, model::TenantId(500));
}

TEST(Ledger, CutsATornEndAndSaysSo) {
  const LogCapture log;
  sys::FakeDisk disk;
  {
    ASSERT_TRUE(open(disk)->grant(test_tenant(1)));
  }
  disk.put(kLedgerFile, disk.content(kLedgerFile) + "half a rec");
  EXPECT_EQ(open(disk)->tenants().size(), 1U);
  EXPECT_TRUE(log.contains("end of the ledger cut"));
}

TEST(Ledger, DamageIsNamedWithPlaceAndRemedyAndLeftAlone) {
  sys::FakeDisk disk;
  {
    const auto ledger = open(disk);
    ASSERT_TRUE(ledger->grant(test_tenant(1)));
    ASSERT_TRUE(ledger->grant(test_tenant(2)));
  }
  std::string bytes = disk.content(kLedgerFile);
  bytes[bytes.find("train-1")] ^= 1;
  disk.put(kLedgerFile, bytes);
  const auto ledger = Ledger::open(disk, "boot");
  ASSERT_FALSE(ledger.has_value());
  EXPECT_EQ(ledger.error().code, ErrorCode::kDataLoss);
  EXPECT_NE(ledger.error().message.find("/fake/ledger is damaged at byte "), std::string::npos);
  EXPECT_NE(ledger.error().message.find("divvy ledger verify"), std::string::npos);
  EXPECT_NE(ledger.error().message.find("move the file away"), std::string::npos);
  EXPECT_EQ(disk.content(kLedgerFile), bytes);
}

TEST(Ledger, RecordsThatMakeNoSenseAreDamage) {
  const std::string begin = encode(LedgerBegins{"boot", model::TenantId(1)});
  const std::string grant = encode(TenantGranted{test_tenant(1)});
  const auto with = [&](std::string_view old, std::string_view replacement) {
    std::string text = grant;
    text.replace(text.find(old), old.size(), replacement);
    return text;
  };
  for (const std::string& record :
       {std::string("{}"), std::string("nonsense"), std::string("[1]"), begin, grant,
        std::string(R"({"release":5})"), std::string(R"({"explode":5})"),
        std::string(R"({"release":1,"grant":2})"), std::string(R"({"uncordon":"GPU-1"})"),
        with("\"share\":100", "\"share\":1001"), with("\"share\":100", "\"share\":0"),
        with("\"id\":1", "\"id\":0"), with("\"pid\":4001", "\"pid\":-1"),
        with("\"pid\":4001", "\"pid\":\"4001\""), with("\"capped\"", "\"colour\""),
        with("train-1", "../etc"), with("\"uid\"", "\"extra\":1,\"uid\"")}) {
    sys::FakeDisk disk;
    {
      auto opened = Journal::open(disk, std::string(kLedgerFile));
      ASSERT_TRUE(opened->journal.replace(std::vector<std::string>{begin, grant}));
      ASSERT_TRUE(opened->journal.append(record, Sync::kNow));
    }
    const auto ledger = Ledger::open(disk, "boot");
    ASSERT_FALSE(ledger.has_value()) << record;
    EXPECT_NE(ledger.error().message.find("record 3 makes no sense"), std::string::npos)
        << ledger.error().message;
  }
}

TEST(Ledger, TakesOverTheFileOfDaemonsBeforeIt) {
  const LogCapture quiet;
  sys::FakeDisk disk;
  disk.put("tenants.json", kFirstStateFile);
  {
    const auto ledger = open(disk);
    ASSERT_EQ(ledger->tenants().size(), 1U);
    const TenantRecord& record = ledger->tenants().at(model::TenantId(7));
    EXPECT_EQ(record.root, (sys::ProcessName{4242, 99}));
    EXPECT_EQ(record.tenant_class, model::JobClass::kLatency);
    EXPECT_EQ(record.slices[0].kind(), model::ShareKind::kCap);
    EXPECT_EQ(ledger->next_id(), model::TenantId(8));
    EXPECT_FALSE(disk.has("tenants.json"));
    ASSERT_TRUE(ledger->release(model::TenantId(7), Sync::kNow));
  }
  // One that comes back is not believed a second time.
  disk.put("tenants.json", kFirstStateFile);
  EXPECT_TRUE(open(disk)->tenants().empty());
  EXPECT_FALSE(disk.has("tenants.json"));
}

TEST(Ledger, KeepsTheFirstFileUntilItsContentsAreWritten) {
  const LogCapture quiet;
  sys::FakeDisk disk;
  disk.put("tenants.json", kFirstStateFile);
  disk.set_space(std::string_view(kFirstStateFile).size());
  EXPECT_EQ(open(disk)->tenants().size(), 1U);
  EXPECT_TRUE(disk.has("tenants.json"));
  const auto ledger = open(disk);
  disk.set_space(std::nullopt);
  ASSERT_TRUE(ledger->grant(test_tenant(8)));
  EXPECT_FALSE(disk.has("tenants.json"));
  EXPECT_EQ(read_back(disk).tenants.size(), 2U);
}

TEST(Ledger, ForgetsTheFirstFilesTenantsAfterABoot) {
  const LogCapture quiet;
  sys::FakeDisk disk;
  disk.put("tenants.json", kFirstStateFile);
  const auto ledger = open(disk, "another boot");
  EXPECT_TRUE(ledger->tenants().empty());
  EXPECT_EQ(ledger->next_id(), model::TenantId(8));
}

TEST(Ledger, SaysThatTheFirstFileIsDamaged) {
  for (const char* text : {"", "{", "[]", "{}", R"({"format":2})", "\xff\xfe"}) {
    sys::FakeDisk disk;
    disk.put("tenants.json", text);
    const auto ledger = Ledger::open(disk, "boot");
    ASSERT_FALSE(ledger.has_value()) << text;
    EXPECT_EQ(ledger.error().code, ErrorCode::kDataLoss);
    EXPECT_NE(ledger.error().message.find("tenants.json"), std::string::npos);
    EXPECT_TRUE(disk.has("tenants.json"));
  }
}

TEST(Ledger, ManyMayGrantAtOnceAndShareTheSyncs) {
  const TemporaryFolder folder;
  const auto disk = sys::open_disk(folder);
  constexpr std::uint64_t kThreads = 4;
  constexpr std::uint64_t kGrants = 25;
  {
    const auto ledger = Ledger::open(*disk, "boot", 8000).value();
    std::vector<std::thread> threads;
    for (std::uint64_t thread = 0; thread < kThreads; ++thread) {
      threads.emplace_back([&ledger, thread] {
        for (std::uint64_t i = 0; i < kGrants; ++i) {
          const std::uint64_t id = 1 + thread * kGrants + i;
          EXPECT_TRUE(ledger->grant(test_tenant(id, 10, thread)));
          if (i % 5 == 0) {
            EXPECT_TRUE(ledger->set_cordon(model::test_uuid(id), kCordon));
          }
          if (i % 2 == 0) {
            EXPECT_TRUE(ledger->release(model::TenantId(id), Sync::kLater));
          }
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
  }
  const auto ledger = Ledger::open(*disk, "boot").value();
  EXPECT_EQ(ledger->tenants().size(), kThreads * (kGrants / 2));
  EXPECT_EQ(ledger->cordons().size(), kThreads * 5);
}

TEST(Ledger, WrongPermissionsAreSaidAtTheStart) {
  const LogCapture quiet;
  const auto disk = sys::open_disk("/sys");
  const auto ledger = Ledger::open(*disk, "boot");
  ASSERT_FALSE(ledger.has_value());
  EXPECT_EQ(ledger.error().code, ErrorCode::kPermissionDenied);
  EXPECT_NE(ledger.error().message.find("--state-dir"), std::string::npos);
}

}  // namespace
}  // namespace divvy::ledger
