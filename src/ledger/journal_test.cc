#include "ledger/journal.h"

#include <gtest/gtest.h>

#include "sys/fake_disk.h"

namespace divvy::ledger {
namespace {

constexpr std::string_view kName = "book";
using Sync = Journal::Sync;

Journal open(sys::FakeDisk& disk) {
  auto opened = Journal::open(disk, std::string(kName));
  EXPECT_TRUE(opened.has_value());
  return std::move(opened->journal);
}

Journal fresh(sys::FakeDisk& disk, const std::vector<std::string>& snapshot = {"snapshot"}) {
  Journal journal = open(disk);
  EXPECT_TRUE(journal.replace(snapshot));
  return journal;
}

std::vector<std::string> payloads(const JournalScan& scan) {
  std::vector<std::string> result;
  for (const JournalRecord& record : scan.records) result.emplace_back(record.payload);
  return result;
}

std::vector<std::string> payloads(const sys::FakeDisk& disk) {
  const std::string bytes = disk.content(kName);
  return payloads(scan_journal(bytes));
}

using Texts = std::vector<std::string>;

TEST(Journal, GivesBackWhatWasWritten) {
  sys::FakeDisk disk;
  Journal journal = fresh(disk, {"a", "b"});
  ASSERT_TRUE(journal.append("c", Sync::kNow));
  ASSERT_TRUE(journal.append(std::string(100'000, 'd'), Sync::kLater));
  const std::string bytes = disk.content(kName);
  const JournalScan scan = scan_journal(bytes);
  EXPECT_EQ(payloads(scan), (Texts{"a", "b", "c", std::string(100'000, 'd')}));
  EXPECT_EQ(scan.snapshot_records, 2U);
  EXPECT_EQ(scan.good_bytes, bytes.size());
  EXPECT_EQ(scan.torn_bytes, 0U);
  EXPECT_FALSE(scan.damage);
}

TEST(Journal, CountsItsRecordsOverReplacements) {
  sys::FakeDisk disk;
  Journal journal = fresh(disk, {"a"});
  ASSERT_TRUE(journal.append("b", Sync::kNow));
  ASSERT_TRUE(journal.replace(Texts{"a+b"}));
  ASSERT_TRUE(journal.append("c", Sync::kNow));
  const std::string bytes = disk.content(kName);
  const JournalScan scan = scan_journal(bytes);
  EXPECT_EQ(payloads(scan), (Texts{"a+b", "c"}));
  EXPECT_EQ(scan.records.back().sequence, 4U);
}

TEST(Journal, ATornEndIsRecognisedAtEveryByte) {
  sys::FakeDisk disk;
  Journal journal = fresh(disk);
  ASSERT_TRUE(journal.append("first", Sync::kNow));
  const std::size_t good = disk.content(kName).size();
  ASSERT_TRUE(journal.append("second", Sync::kNow));
  const std::string whole = disk.content(kName);
  for (std::size_t size = good; size < whole.size(); ++size) {
    for (const std::size_t zeros : {std::size_t{0}, whole.size() - size, std::size_t{5000}}) {
      const std::string bytes = whole.substr(0, size) + std::string(zeros, '\0');
      const JournalScan scan = scan_journal(bytes);
      ASSERT_FALSE(scan.damage) << size << ": " << scan.damage->reason;
      EXPECT_EQ(payloads(scan), (Texts{"snapshot", "first"}));
      EXPECT_EQ(scan.good_bytes, good);
      EXPECT_EQ(scan.torn_bytes, bytes.size() - good);
    }
  }
}

TEST(Journal, DamageBeforeTheLastRecordIsNeverCutOff) {
  sys::FakeDisk disk;
  Journal journal = fresh(disk);
  ASSERT_TRUE(journal.append("first", Sync::kNow));
  ASSERT_TRUE(journal.append("second", Sync::kNow));
  const std::size_t last = disk.content(kName).size();
  ASSERT_TRUE(journal.append("third", Sync::kNow));
  std::string bytes = disk.content(kName);
  for (std::size_t at = 0; at < last; ++at) {
    for (const unsigned char flip : {0x01, 0x80, 0xff}) {
      const char before = bytes[at];
      bytes[at] = static_cast<char>(static_cast<unsigned char>(before) ^ flip);
      const JournalScan scan = scan_journal(bytes);
      ASSERT_TRUE(scan.damage) << "byte " << at;
      EXPECT_LE(scan.damage->offset, at);
      bytes[at] = before;
    }
  }
}

TEST(Journal, RecordsThatWereNeverSyncedMayBeLostInAnyOrder) {
  sys::FakeDisk disk;
  Journal journal = fresh(disk);
  const std::size_t good = disk.content(kName).size();
  ASSERT_TRUE(journal.append("lost", Sync::kLater));
  ASSERT_TRUE(journal.append("arrived", Sync::kLater));
  std::string bytes = disk.content(kName);
  bytes[good + 30 - 6] ^= 1;
  const JournalScan scan = scan_journal(bytes);
  EXPECT_FALSE(scan.damage);
  EXPECT_EQ(payloads(scan), Texts{"snapshot"});
  EXPECT_EQ(scan.good_bytes, good);
}

TEST(Journal, AFileThatEndsInItsSnapshotIsDamaged) {
  sys::FakeDisk disk;
  fresh(disk, {"one", "two"});
  const std::string bytes = disk.content(kName);
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_TRUE(scan_journal(bytes.substr(0, size)).damage) << size;
  }
}

TEST(Journal, SaysThatAnotherVersionWroteIt) {
  sys::FakeDisk disk;
  fresh(disk);
  std::string bytes = disk.content(kName);
  bytes[8] = 7;
  const JournalScan scan = scan_journal(bytes);
  ASSERT_TRUE(scan.damage);
  EXPECT_NE(scan.damage->reason.find("format 7"), std::string::npos) << scan.damage->reason;
}

TEST(Journal, IsNotAppendedToBeforeItIsWrittenAnew) {
  sys::FakeDisk disk;
  ASSERT_TRUE(fresh(disk).append("of an earlier daemon", Sync::kNow));
  Journal journal = open(disk);
  EXPECT_TRUE(journal.must_be_replaced());
  EXPECT_FALSE(journal.append("x", Sync::kNow));
  ASSERT_TRUE(journal.replace(Texts{"y"}));
  EXPECT_TRUE(journal.append("z", Sync::kNow));
  EXPECT_EQ(payloads(disk), (Texts{"y", "z"}));
}

TEST(Journal, AFailedWriteLeavesTheFileAsItWas) {
  sys::FakeDisk disk;
  Journal journal = fresh(disk);
  ASSERT_TRUE(journal.append("before", Sync::kNow));
  const std::string bytes = disk.content(kName);
  for (std::size_t part = 0; part < 40; ++part) {
    disk.fail_at(1, sys::FakeDisk::Fault::kError, part);
    EXPECT_FALSE(journal.append("refused", Sync::kNow));
    EXPECT_EQ(disk.content(kName), bytes);
    EXPECT_FALSE(journal.must_be_replaced());
  }
  disk.work_again();
  ASSERT_TRUE(journal.append("after", Sync::kNow));
  EXPECT_EQ(payloads(disk), (Texts{"snapshot", "before", "after"}));
}

TEST(Journal, AFailedFsyncIsNotRetriedOnTheSameFile) {
  sys::FakeDisk disk;
  Journal journal = fresh(disk);
  disk.fail_at(2, sys::FakeDisk::Fault::kError);
  EXPECT_FALSE(journal.append("refused", Sync::kNow));
  disk.work_again();
  EXPECT_TRUE(journal.must_be_replaced());
  EXPECT_FALSE(journal.append("too early", Sync::kNow));
  ASSERT_TRUE(journal.replace(Texts{"anew"}));
  ASSERT_TRUE(journal.append("after", Sync::kNow));
  std::mt19937 dice(1);
  disk.lose_power(dice);
  EXPECT_EQ(payloads(disk), (Texts{"anew", "after"}));
}

TEST(Journal, AReplacementThatFailsBeforeItHasTheNameLeavesTheOldOneGoing) {
  for (std::uint64_t operation = 1; operation <= 3; ++operation) {
    sys::FakeDisk disk;
    Journal journal = fresh(disk);
    disk.fail_at(operation, sys::FakeDisk::Fault::kError);
    EXPECT_FALSE(journal.replace(Texts{"refused"}));
    disk.work_again();
    EXPECT_FALSE(disk.has("book.new"));
    ASSERT_TRUE(journal.append("goes on", Sync::kNow));
    EXPECT_EQ(payloads(disk), (Texts{"snapshot", "goes on"}));
  }
}

TEST(Journal, AReplacementThatFailsLaterHasToBeRepeated) {
  for (std::uint64_t operation = 4; operation <= 5; ++operation) {
    sys::FakeDisk disk;
    Journal journal = fresh(disk);
    disk.fail_at(operation, sys::FakeDisk::Fault::kError);
    EXPECT_FALSE(journal.replace(Texts{"perhaps"}));
    disk.work_again();
    EXPECT_TRUE(journal.must_be_replaced());
    ASSERT_TRUE(journal.replace(Texts{"certainly"}));
    EXPECT_EQ(payloads(disk), Texts{"certainly"});
  }
}

TEST(Journal, WantsCompactionOnceItHasDoubled) {
  sys::FakeDisk disk;
  Journal journal = fresh(disk, {std::string(Journal::kShort, 's')});
  const std::string half(Journal::kShort / 2, 'x');
  ASSERT_TRUE(journal.append(half, Sync::kLater));
  EXPECT_FALSE(journal.is_long());
  ASSERT_TRUE(journal.append(half, Sync::kLater));
  ASSERT_TRUE(journal.append(half, Sync::kLater));
  EXPECT_TRUE(journal.is_long());
  disk.fail_at(1, sys::FakeDisk::Fault::kError);
  EXPECT_FALSE(journal.replace(Texts{"short"}));
  EXPECT_FALSE(journal.is_long()) << "not tried again with every record";
  disk.work_again();
  ASSERT_TRUE(journal.replace(Texts{"short"}));
  EXPECT_FALSE(journal.is_long());
}

TEST(Journal, RefusesARecordThatCouldNotBeRead) {
  sys::FakeDisk disk;
  Journal journal = fresh(disk);
  EXPECT_FALSE(journal.append("", Sync::kNow));
  EXPECT_FALSE(journal.append(std::string(17U << 20U, 'x'), Sync::kNow));
  EXPECT_TRUE(journal.append("fine", Sync::kNow));
}

}  // namespace
}  // namespace divvy::ledger
