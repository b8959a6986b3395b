#include "kubelet/claim_record.h"

#include <gtest/gtest.h>

#include "kubelet/testing.h"
#include "sys/fake_disk.h"

namespace divvy::kubelet {
namespace {

using testing::test_slice;

ClaimRecord record(const std::string& uid, std::uint64_t number) {
  ClaimRecord one{.uid = uid, .space = "team-a", .name = "divvy-x", .pod = "train-0"};
  one.number = number;
  one.slices = {{"main", "s-1", test_slice(0, 300)},
                {"side", "s-2", test_slice(1, 500)},
                {"main", "s-3", test_slice(1, 200)}};
  one.job_class = model::JobClass::kLatency;
  return one;
}

TEST(ClaimRecord, IsReadAsItWasWritten) {
  ClaimDocument document;
  document.next_number = 12;
  document.claims.emplace("u-1", record("u-1", 7));
  document.claims.emplace("u-2", record("u-2", 11));
  ClaimRecord pod = record("u-3", 9);
  pod.by_slots = true;
  pod.slots = {{"slot-0001", "main"}, {"slot-0002", "side"}};
  document.claims.emplace("u-3", std::move(pod));
  document.slot_numbers = {{"slot-0001", {3, 5}}, {"slot-0002", {4}}};
  const auto read = read_claims(write_claims(document));
  ASSERT_TRUE(read.has_value()) << read.error().message;
  EXPECT_EQ(*read, document);
}

TEST(ClaimRecord, HasATenantForEachRequestWithAllOfItsSlices) {
  const auto requests = requests_of(record("u-1", 7));
  ASSERT_EQ(requests.size(), 2U);
  EXPECT_EQ(requests[0].request, "main");
  EXPECT_EQ(to_string(requests[0].key), "job-7.1.0");
  EXPECT_EQ(requests[0].slices.size(), 2U);
  EXPECT_EQ(requests[1].request, "side");
  EXPECT_EQ(to_string(requests[1].key), "job-7.1.1");
}

TEST(ClaimRecord, RefusesWhatIsDamaged) {
  for (const char* text : {"", "{}", "[]", R"({"version": 2})", R"({"version":1,"claims":[3]})",
                           R"({"version":1,"claims":[{"uid":"a","number":1}]})"}) {
    const auto read = read_claims(text);
    ASSERT_FALSE(read.has_value()) << text;
    EXPECT_EQ(read.error().code, ErrorCode::kDataLoss) << text;
  }
}

TEST(ClaimRecords, AreFoundAgain) {
  sys::FakeDisk disk;
  {
    auto records = ClaimRecords::open(disk);
    ASSERT_TRUE(records.has_value());
    ASSERT_TRUE(records->put(record("u-1", records->next_number())));
    ASSERT_TRUE(records->put(record("u-2", records->next_number())));
    ASSERT_TRUE(records->remove("u-2"));
  }
  std::mt19937 dice(1);
  disk.lose_power(dice);
  auto records = ClaimRecords::open(disk);
  ASSERT_TRUE(records.has_value());
  ASSERT_EQ(records->all().size(), 1U);
  EXPECT_EQ(*records->find("u-1"), record("u-1", 1));
  // The number of one that ended is not given to another.
  EXPECT_EQ(records->next_number(), 3U);
}

TEST(ClaimRecords, AreAsBeforeWhenTheDiskRefuses) {
  sys::FakeDisk disk;
  auto records = ClaimRecords::open(disk);
  ASSERT_TRUE(records.has_value());
  ASSERT_TRUE(records->put(record("u-1", 1)));
  disk.set_space(0);
  EXPECT_FALSE(records->put(record("u-2", 2)));
  EXPECT_FALSE(records->remove("u-1"));
  EXPECT_EQ(records->all().size(), 1U);
  EXPECT_NE(records->find("u-1"), nullptr);
}

}  // namespace
}  // namespace divvy::kubelet
