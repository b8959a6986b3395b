// The ledger on a real disk: how long it takes to open with many slices in it, and what a grant and
// a release cost. The folder is made in TMPDIR.
#include <benchmark/benchmark.h>

#include <filesystem>

#include "base/temporary_folder.h"
#include "ledger/ledger.h"
#include "model/testing.h"

namespace {

using namespace divvy;
using namespace divvy::ledger;
using divvy::sys::Disk;
using divvy::sys::open_disk;

// Ten to a GPU.
TenantRecord tenant(std::uint64_t id) {
  TenantRecord record;
  record.id = model::TenantId(id);
  record.name = fmt::format("train-{}", id);
  record.command = "python train.py --epochs 3 --data /data/imagenet";
  record.holder = model::Holder::kProcess;
  record.root = {static_cast<pid_t>(id), id * 100};
  record.slices = {model::Slice::create(model::test_uuid(id / 10), gib(10), Share(100),
                                        model::ShareKind::kGuarantee)
                       .value()};
  return record;
}

// Half of them in the snapshot, half appended behind it.
void fill(Disk& disk, std::uint64_t tenants) {
  LedgerState state;
  DIVVY_CHECK(state.apply(LedgerBegins{"boot", model::TenantId(1)}).has_value());
  for (std::uint64_t id = 1; id <= tenants / 2; ++id) {
    DIVVY_CHECK(state.apply(TenantGranted{tenant(id)}).has_value());
  }
  auto opened = Journal::open(disk, std::string(kLedgerFile));
  DIVVY_CHECK(opened && opened->journal.replace(state.snapshot()));
  for (std::uint64_t id = tenants / 2 + 1; id <= tenants; ++id) {
    DIVVY_CHECK(opened->journal.append(encode(TenantGranted{tenant(id)}), Journal::Sync::kLater)
                    .has_value());
  }
}

void open_with_slices(benchmark::State& state) {
  const TemporaryFolder folder;
  const auto disk = open_disk(folder.path());
  for (auto _ : state) {
    state.PauseTiming();
    fill(*disk, static_cast<std::uint64_t>(state.range(0)));
    state.ResumeTiming();
    auto ledger = Ledger::open(*disk, "boot");
    DIVVY_CHECK(ledger && (*ledger)->tenants().size() == static_cast<std::size_t>(state.range(0)));
  }
}
BENCHMARK(open_with_slices)->Arg(100)->Arg(10'000)->Unit(benchmark::kMillisecond)->UseRealTime();

void grant_and_release(benchmark::State& state) {
  const TemporaryFolder folder;
  const auto disk = open_disk(folder.path());
  fill(*disk, static_cast<std::uint64_t>(state.range(0)));
  const auto ledger = Ledger::open(*disk, "boot").value();
  std::uint64_t id = 1'000'000;
  for (auto _ : state) {
    DIVVY_CHECK(ledger->grant(tenant(++id)).has_value());
    DIVVY_CHECK(ledger->release(model::TenantId(id), Journal::Sync::kLater).has_value());
  }
}
BENCHMARK(grant_and_release)->Arg(500)->Arg(10'000)->Unit(benchmark::kMicrosecond)->UseRealTime();

}  // namespace

BENCHMARK_MAIN();
