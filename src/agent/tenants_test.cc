#include "agent/tenants.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <iterator>

#include "base/log.h"
#include "base/temporary_folder.h"
#include "nvml/fake_library.h"
#include "nvml/inventory.h"

namespace divvy::agent {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

// Stands for the driver's program: with -f it is the daemon, which listens at a named pipe.
constexpr char kFakeControl[] = R"(#!/bin/sh
control=$CUDA_MPS_PIPE_DIRECTORY/control
if [ "$1" = -f ]; then mkfifo "$control"; read line < "$control"; exit 0; fi
read line
[ -e "$control" ] || { echo "Cannot find MPS control daemon process"; exit 0; }
case $line in quit*) echo "$line" > "$control" ;; esac
)";

// Two GPUs, an MPS daemon that is a script, and CDI files in a folder of the test.
class TenantsTest : public testing::Test {
 protected:
  void SetUp() override {
    fs::create_directories(folder_ / "state");
    std::ofstream(program()) << kFakeControl;
    fs::permissions(program(), fs::perms::owner_all);
    make_tenants();
  }
  void TearDown() override {
    // A daemon in use would outlive us.
    for (const ledger::TenantRecord& record : tenants_->all()) {
      EXPECT_TRUE(tenants_->release(record.id, {0, 0, 0}, share::Registrar::ComeBack::kImpossible));
    }
    mps_->settle();
    stop();
  }

  void make_tenants() {
    auto ledger = ledger::Ledger::open(*disk_(), "boot");
    ASSERT_TRUE(ledger) << ledger.error().message;
    ledger_ = *std::move(ledger);
    share::Mps::Options options;
    options.folder = folder_ / "mps";
    options.control.program = program().string();
    options.control.quit_timeout = std::chrono::milliseconds(0);
    mps_ = std::make_unique<share::Mps>(std::move(options));
    model::Node node =
        nvml::take_inventory(library_, {.pci_devices = "/nonexistent", .hostname = "a"}).value();
    containers_ = std::make_unique<inject::ContainerDevices>(inject::ContainerDevices::Parts{
        .gpus = node.gpus(),
        .roots = {},
        .simulated = inject::SimulatedDriver{folder_ / "driver", folder_ / "gpus"},
        .shim = folder_ / "libdivvy.so",
        .state_folder = folder_ / "state",
        .gpu_folder = folder_ / "cdi",
        .slice_folder = folder_ / "cdi"});
    auto made = Tenants::create({.library = library_,
                                 .node = std::move(node),
                                 .arbiter = arbiter_,
                                 .keeper = *keeper_,
                                 .clock = clock_,
                                 .run_folder = folder_,
                                 .ledger = *ledger_,
                                 .mps = mps_.get(),
                                 .containers = containers_.get()});
    ASSERT_TRUE(made) << made.error().message;
    tenants_ = *std::move(made);
    mps_->stop_unused();
  }
  void stop() {
    tenants_.reset();
    containers_.reset();
    mps_.reset();
    ledger_.reset();
  }

  Result<Grant> hold(const std::string& name, std::uint32_t thousandths, std::size_t gpus = 1) {
    const ledger::Slices books = tenants_->slices();
    Ask ask;
    for (std::size_t i = 0; i < gpus; ++i) {
      ask.slices.push_back(*model::Slice::create(books.gpus()[i].uuid, gib(4), Share(thousandths),
                                                 model::ShareKind::kGuarantee));
    }
    ask.mode = model::GpuMode::kMps;
    ask.name = name;
    ask.holder = model::Holder::kSlice;
    ask.member = {model::JobId(1), 1, 0};
    ask.peer = {0, ::getuid(), ::getgid()};
    return tenants_->grant(ask);
  }

  std::string cdi_file(const std::string& slice) const {
    std::ifstream file(folder_ / "cdi" / ("divvy.dev-slice_" + slice + ".json"));
    return {std::istreambuf_iterator<char>(file), {}};
  }
  bool mps_runs() const { return !fs::is_empty(folder_ / "mps"); }
  fs::path program() const { return folder_ / "nvidia-cuda-mps-control"; }

  TemporaryFolder folder_;
  LogCapture log_;
  nvml::FakeLibrary library_{2};
  ManualClock clock_;
  share::Arbiter arbiter_{clock_, share::Arbiter::Drive::kCaller};
  Result<share::Keeper> keeper_ = share::Keeper::create();
  std::unique_ptr<sys::Disk> files_;
  std::unique_ptr<ledger::Ledger> ledger_;
  std::unique_ptr<share::Mps> mps_;
  std::unique_ptr<inject::ContainerDevices> containers_;
  std::unique_ptr<Tenants> tenants_;

 private:
  sys::Disk* disk_() {
    if (!files_) files_ = sys::open_disk(folder_ / "state");
    return files_.get();
  }
};

TEST_F(TenantsTest, AHeldSliceInModeMpsIsADeviceWithThePipesOfItsDaemon) {
  const auto grant = hold("web", 300);
  ASSERT_TRUE(grant) << grant.error().message;
  EXPECT_TRUE(mps_runs());
  const std::string device = cdi_file("web");
  EXPECT_THAT(device, HasSubstr("CUDA_MPS_PIPE_DIRECTORY=/run/divvy/mps\""));
  EXPECT_THAT(device, HasSubstr("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=30\""));
  EXPECT_THAT(device, HasSubstr("\"" + mps_->pipe_folder(grant->gpus[0].uuid).string() + "\""));
  EXPECT_EQ(grant->environment.at("CUDA_MPS_PIPE_DIRECTORY"),
            mps_->pipe_folder(grant->gpus[0].uuid).string());

  ASSERT_TRUE(tenants_->release(grant->record.id, {0, 0, 0}));
  mps_->settle();
  EXPECT_FALSE(mps_runs());
  EXPECT_EQ(cdi_file("web"), "");
}

TEST_F(TenantsTest, AChangedShareChangesThePartOfTheThreadsOfTheDevice) {
  const auto grant = hold("web", 300);
  ASSERT_TRUE(grant) << grant.error().message;
  Change half;
  half.share = Share(500);
  const auto slices = tenants_->changed(grant->record.id, half, {0, 0, 0});
  ASSERT_TRUE(slices) << slices.error().message;
  ASSERT_TRUE(tenants_->change(grant->record.id, *slices, std::nullopt));
  EXPECT_THAT(cdi_file("web"), HasSubstr("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=50\""));
}

TEST_F(TenantsTest, ARestartFindsTheDaemonAndTheDeviceOfASliceInModeMps) {
  const auto grant = hold("web", 300);
  ASSERT_TRUE(grant) << grant.error().message;
  stop();
  fs::remove(folder_ / "cdi" / "divvy.dev-slice_web.json");
  make_tenants();
  EXPECT_TRUE(mps_runs());
  EXPECT_THAT(cdi_file("web"), HasSubstr("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=30\""));
}

TEST_F(TenantsTest, WhatCannotBeInModeMpsIsRefusedAndHoldsNothing) {
  const auto two = hold("two", 300, 2);
  ASSERT_FALSE(two);
  EXPECT_THAT(two.error().message, HasSubstr("mode mps takes one GPU"));
  fs::remove(program());
  EXPECT_EQ(tenants_->check_mode(model::GpuMode::kMps).error().code, ErrorCode::kUnsupported);
  EXPECT_TRUE(tenants_->check_mode(model::GpuMode::kTimeslice));
  const auto missing = hold("web", 300);
  ASSERT_FALSE(missing);
  EXPECT_THAT(missing.error().message, HasSubstr("--mode timeslice"));
  EXPECT_TRUE(tenants_->all().empty());
  EXPECT_EQ(cdi_file("web"), "");
}

}  // namespace
}  // namespace divvy::agent
