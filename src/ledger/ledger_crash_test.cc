// The ledger when its disk fails, or the machine or the process dies, at every single operation in
// turn, until one run is clean: no slice is lost and none is doubled.
#include <gtest/gtest.h>

#include "base/log.h"
#include "ledger/ledger_testing.h"

namespace divvy::ledger {
namespace {

using Fault = sys::FakeDisk::Fault;
using Sync = Journal::Sync;

constexpr std::uint64_t kShortJournal = 1500;  // So that the run below replaces it a few times
const model::Cordon kCordon{"fan is loud", true, 1'700'000'000};

// A day in the life of a daemon. Goes on whatever happens, as the daemon does.
void live(Witness& witness) {
  const model::GpuUuid gpu = model::test_uuid(1);
  witness.grant(test_tenant(1, 300));
  witness.grant(test_tenant(2, 300));
  witness.set_cordon(gpu, kCordon);
  witness.grant(test_tenant(3, 200, 2));
  if (witness.believed().contains(model::TenantId(2))) witness.change(test_tenant(2, 500));
  for (const std::uint64_t id : {1, 3}) {
    if (witness.believed().contains(model::TenantId(id))) {
      witness.release(model::TenantId(id), id == 1 ? Sync::kLater : Sync::kNow);
    }
  }
  for (std::uint64_t id = 10; id < 20; ++id) {
    if (witness.grant(test_tenant(id, 400, 2)) && id % 3 != 0) {
      witness.release(model::TenantId(id), Sync::kLater);
    }
    const auto last = witness.believed().rbegin();
    if (last != witness.believed().rend() && last->second.slices[0].gpu() == model::test_uuid(2)) {
      witness.release(last->first, Sync::kNow);
    }
  }
  witness.set_cordon(gpu, std::nullopt);
  witness.grant(test_tenant(30, 100));
}

// One run with the Nth operation failing; false when it did not come to that.
bool run(std::uint64_t operation, Fault fault, std::size_t part, std::uint32_t seed) {
  sys::FakeDisk disk;
  Witness witness;
  disk.fail_at(operation, fault, part);
  {
    auto ledger = Ledger::open(disk, "boot", kShortJournal);
    EXPECT_TRUE(ledger.has_value());
    if (!ledger) return false;
    witness.attach(**ledger);
    live(witness);
    witness.compare_memory();
    if (!disk.failed()) {
      EXPECT_EQ(read_back(disk).tenants, witness.believed());
    }
  }
  const bool failed = disk.failed();
  // Killed, or without power. Whatever was left must open, and say nothing that was not so.
  std::mt19937 dice(seed);
  if (seed == 0) {
    disk.kill_process();
  } else {
    disk.lose_power(dice);
  }
  auto again = Ledger::open(disk, "boot", kShortJournal);
  EXPECT_TRUE(again.has_value()) << again.error().message;
  if (!again) return false;
  witness.compare_after_crash(**again);
  // And it goes on from there.
  witness.attach(**again);
  EXPECT_TRUE(witness.grant(test_tenant(40, 100, 3)));
  EXPECT_EQ(read_back(disk).tenants, witness.believed());
  return failed;
}

class LedgerCrash : public ::testing::TestWithParam<std::tuple<Fault, std::uint32_t>> {};

TEST_P(LedgerCrash, AtEveryOperationLosesNoGrantAndDuplicatesNone) {
  const LogCapture quiet(LogLevel::kOff);
  const auto [fault, seed] = GetParam();
  for (const std::size_t part : {0U, 1U, 5U, 24U, 99U, 5000U, 5001U}) {
    std::uint64_t operation = 1;
    while (run(operation, fault, part, seed)) {
      ASSERT_FALSE(HasFailure()) << "operation " << operation << ", part " << part;
      ++operation;
    }
    EXPECT_GT(operation, 40U) << "the run is too short to be worth anything";
  }
}

INSTANTIATE_TEST_SUITE_P(FailsOrLosesPower, LedgerCrash,
                         ::testing::Combine(::testing::Values(Fault::kError, Fault::kCrash),
                                            ::testing::Range(0U, 8U)));

}  // namespace
}  // namespace divvy::ledger
