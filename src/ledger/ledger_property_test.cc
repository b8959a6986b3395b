// Any sequence of grants, changes, releases, cordons, faults, full disks, crashes and restarts.
#include <gtest/gtest.h>

#include "base/log.h"
#include "ledger/ledger_testing.h"

namespace divvy::ledger {
namespace {

constexpr std::uint64_t kShortJournal = 3000;
constexpr std::uint64_t kGpus = 2;

class World {
 public:
  explicit World(std::uint32_t seed) : dice_(seed) { open(); }

  void step() {
    switch (dice_() % 12) {
      case 0:
      case 1:
      case 2:
      case 3:
        return grant();
      case 4:
      case 5:
        return release();
      case 6:
        return change();
      case 7:
        return cordon();
      case 8:
        disk_.fail_at(
            1 + dice_() % 8,
            dice_() % 3 == 0 ? sys::FakeDisk::Fault::kCrash : sys::FakeDisk::Fault::kError,
            dice_() % 600);
        return;
      case 9:
        disk_.set_space(dice_() % 2 == 0 ? std::nullopt : std::optional(dice_() % 6000));
        return;
      case 10:
        disk_.work_again();
        return;
      default:
        if (dice_() % 3 == 0) restart();
    }
  }

  void finish() {
    restart();
    disk_.set_space(std::nullopt);
    EXPECT_TRUE(witness_.set_cordon(model::test_uuid(0), model::Cordon{"the end", false, 1}));
    EXPECT_EQ(read_back(disk_).tenants, witness_.believed());
  }

 private:
  void open() {
    auto ledger = Ledger::open(disk_, "boot", kShortJournal);
    ASSERT_TRUE(ledger.has_value()) << ledger.error().message;
    ledger_ = *std::move(ledger);
    witness_.attach(*ledger_);
  }

  void restart() {
    // Otherwise it ends in order, and may write its last.
    if (dice_() % 2 == 0) disk_.stop();
    ledger_.reset();
    if (dice_() % 2 == 0) {
      disk_.kill_process();
    } else {
      disk_.lose_power(dice_);
    }
    open();
    if (ledger_) witness_.compare_after_crash(*ledger_);
  }

  // As Slices does: only what fits is asked of the ledger.
  bool fits(const TenantRecord& record) const {
    const model::Slice& wanted = record.slices[0];
    std::uint32_t sum = wanted.share().thousandths();
    for (const auto& [id, other] : witness_.believed()) {
      if (id != record.id && other.slices[0].gpu() == wanted.gpu()) {
        sum += other.slices[0].share().thousandths();
      }
    }
    return sum <= Share::kWhole;
  }

  TenantRecord draw(std::uint64_t id, std::uint64_t gpu) {
    return test_tenant(id, 1 + dice_() % 400, gpu);
  }

  void grant() {
    const TenantRecord record = draw(next_++, dice_() % kGpus);
    if (fits(record)) {
      witness_.grant(record);
    } else {
      EXPECT_FALSE(ledger_->grant(record)) << "more than a GPU";
    }
    witness_.compare_memory();
  }

  const TenantRecord* somebody() {
    const auto& all = witness_.believed();
    if (all.empty()) return nullptr;
    return &std::next(all.begin(), dice_() % all.size())->second;
  }

  void change() {
    const TenantRecord* before = somebody();
    if (before == nullptr) return;
    TenantRecord record = *before;
    record.slices = {model::Slice::create(record.slices[0].gpu(), gib(2), Share(1 + dice_() % 400),
                                          model::ShareKind::kCap)
                         .value()};
    if (fits(record)) witness_.change(record);
    witness_.compare_memory();
  }

  void release() {
    const TenantRecord* before = somebody();
    if (before == nullptr) return;
    witness_.release(before->id, dice_() % 2 == 0 ? Journal::Sync::kNow : Journal::Sync::kLater);
    witness_.compare_memory();
  }

  void cordon() {
    const model::GpuUuid gpu = model::test_uuid(dice_() % kGpus);
    if (dice_() % 2 == 0) {
      witness_.set_cordon(gpu, model::Cordon{fmt::format("reason {}", dice_() % 100), true, 5});
    } else if (ledger_->cordons().contains(gpu)) {
      witness_.set_cordon(gpu, std::nullopt);
    }
  }

  std::mt19937 dice_;
  sys::FakeDisk disk_;
  std::unique_ptr<Ledger> ledger_;
  Witness witness_;
  std::uint64_t next_ = 1;
};

TEST(LedgerProperty, WhatWasAcknowledgedIsThereWhateverHappens) {
  const LogCapture quiet(LogLevel::kOff);
  // Always the same, so that a failure can be looked into; and a few that nobody has seen.
  std::random_device unseen;
  for (std::uint32_t run = 0; run < 600 && !HasFailure(); ++run) {
    const std::uint32_t seed = run < 500 ? run : unseen();
    SCOPED_TRACE(fmt::format("seed {}", seed));
    World world(seed);
    for (int i = 0; i < 120 && !HasFailure(); ++i) world.step();
    if (!HasFailure()) world.finish();
  }
}

}  // namespace
}  // namespace divvy::ledger
