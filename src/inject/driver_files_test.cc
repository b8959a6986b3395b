#include "inject/driver_files.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "inject/driver_root_testing.h"

namespace divvy::inject {
namespace {

using testing::FakeRoot;
using testing::ldcache;
using testing::library_64;

constexpr const char* kVersion = "580.159.04";

DriverRoots roots(const FakeRoot& root) {
  return {RootFolder(root.folder()), RootFolder(root.folder())};
}

std::vector<std::string> names(const DriverFiles& files) {
  std::vector<std::string> result;
  result.reserve(files.libraries.size());
  for (const DriverLibrary& library : files.libraries) result.push_back(library.inside.string());
  std::ranges::sort(result);
  return result;
}

TEST(DriverFiles, FindsTheLibrariesOfDebian) {
  const FakeRoot root;
  const std::filesystem::path folder = "/usr/lib/x86_64-linux-gnu";
  root.link("/lib", "usr/lib");
  root.compute_libraries(folder, kVersion);
  root.library(folder, "libGLX_nvidia.so.580.159.04", "libGLX_nvidia.so.0",
               library_64("libGLX_nvidia.so.0"));
  root.library(folder, "libm.so.6", "libm.so.6", library_64("libm.so.6"));
  root.library(folder, "libnvidia-nvvm70.so.4", "libnvidia-nvvm70.so.4",
               library_64("libnvidia-nvvm70.so.4"));
  root.file("/etc/ld.so.cache", ldcache({{"libcuda.so.1", folder / "libcuda.so.1"}}));
  const auto files = find_driver_files(roots(root), DriverUse::kCompute);
  ASSERT_TRUE(files.has_value()) << files.error().message;
  EXPECT_EQ(files->version, kVersion);
  EXPECT_EQ(names(*files),
            (std::vector<std::string>{
                "/usr/lib/x86_64-linux-gnu/libcuda.so.580.159.04",
                "/usr/lib/x86_64-linux-gnu/libnvidia-gpucomp.so.580.159.04",
                "/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.580.159.04",
                "/usr/lib/x86_64-linux-gnu/libnvidia-nvvm70.so.4",
                "/usr/lib/x86_64-linux-gnu/libnvidia-ptxjitcompiler.so.580.159.04"}));
  EXPECT_EQ(files->libraries[0].soname, "libcuda.so.1");
  EXPECT_EQ(files->libraries[0].file, root.at(folder) / "libcuda.so.580.159.04");
}

TEST(DriverFiles, FindsTheLibrariesOfRedHatWithoutACache) {
  const FakeRoot root;
  root.compute_libraries("/usr/lib64", kVersion);
  root.file("/etc/ld.so.cache", "damaged");
  const auto files = find_driver_files(roots(root), DriverUse::kCompute);
  ASSERT_TRUE(files.has_value()) << files.error().message;
  EXPECT_EQ(files->libraries.size(), 4U);
}

TEST(DriverFiles, FindsWhereOnlyTheCacheLeads) {
  const FakeRoot root;
  root.compute_libraries("/opt/nvidia/lib", kVersion);
  root.file("/etc/ld.so.cache", ldcache({{"libcuda.so.1", "/opt/nvidia/lib/libcuda.so.1"}}));
  const auto files = find_driver_files(roots(root), DriverUse::kCompute);
  ASSERT_TRUE(files.has_value()) << files.error().message;
  EXPECT_EQ(files->libraries.size(), 4U);
}

TEST(DriverFiles, Finds32BitLibrariesBeside) {
  const FakeRoot root;
  root.compute_libraries("/usr/lib64", kVersion);
  root.compute_libraries("/usr/lib", kVersion, false);
  const auto files = find_driver_files(roots(root), DriverUse::kCompute);
  ASSERT_TRUE(files.has_value()) << files.error().message;
  EXPECT_EQ(std::ranges::count(files->libraries, Machine::kX86_64, &DriverLibrary::machine), 4);
  EXPECT_EQ(std::ranges::count(files->libraries, Machine::kI386, &DriverLibrary::machine), 4);
}

TEST(DriverFiles, TakesEverythingForGraphics) {
  const FakeRoot root;
  root.compute_libraries("/usr/lib64", kVersion);
  root.library("/usr/lib64/vdpau", "libvdpau_nvidia.so.580.159.04", "libvdpau_nvidia.so.1",
               library_64("libvdpau_nvidia.so.1"));
  root.file("/usr/share/vulkan/icd.d/nvidia_icd.json");
  const auto compute = find_driver_files(roots(root), DriverUse::kCompute);
  const auto graphics = find_driver_files(roots(root), DriverUse::kGraphics);
  ASSERT_TRUE(compute && graphics);
  EXPECT_EQ(compute->libraries.size(), 4U);
  EXPECT_TRUE(compute->data.empty());
  ASSERT_EQ(graphics->libraries.size(), 5U);
  EXPECT_EQ(graphics->libraries.back().subfolder, "vdpau");
  ASSERT_EQ(graphics->data.size(), 1U);
  EXPECT_EQ(graphics->data[0].inside, "/usr/share/vulkan/icd.d/nvidia_icd.json");
}

TEST(DriverFiles, FindsProgramsFirmwareAndSockets) {
  const FakeRoot root;
  root.compute_libraries("/usr/lib64", kVersion);
  root.file("/usr/bin/nvidia-smi");
  root.file("/lib/firmware/nvidia/580.159.04/gsp_ga10x.bin");
  root.file("/lib/firmware/nvidia/570.00/gsp_ga10x.bin");
  root.file("/run/nvidia-persistenced/socket");
  const auto files = find_driver_files(roots(root), DriverUse::kCompute);
  ASSERT_TRUE(files.has_value()) << files.error().message;
  ASSERT_EQ(files->programs.size(), 1U);
  EXPECT_EQ(files->programs[0].inside, "/usr/bin/nvidia-smi");
  ASSERT_EQ(files->data.size(), 1U);
  EXPECT_EQ(files->data[0].file, root.at("/lib/firmware/nvidia/580.159.04/gsp_ga10x.bin"));
  ASSERT_EQ(files->sockets.size(), 1U);
  EXPECT_EQ(files->sockets[0].inside, "/run/nvidia-persistenced/socket");
}

TEST(DriverFiles, StaysInTheRootOfADriverThatAContainerInstalled) {
  const FakeRoot machine;
  machine.loaded(kVersion);
  const RootFolder driver(machine.at("/run/nvidia/driver"));
  machine.compute_libraries("/run/nvidia/driver/usr/lib/x86_64-linux-gnu", kVersion);
  machine.compute_libraries("/usr/lib/x86_64-linux-gnu", "470.1.2");
  // As in an image: an absolute link means the image's own root.
  machine.link("/run/nvidia/driver/lib", "/usr/lib");
  const auto files = find_driver_files({driver, RootFolder(machine.folder())}, DriverUse::kCompute);
  ASSERT_TRUE(files.has_value()) << files.error().message;
  EXPECT_EQ(files->version, kVersion);
  ASSERT_EQ(files->libraries.size(), 4U);
  for (const DriverLibrary& library : files->libraries) {
    EXPECT_TRUE(library.file.string().starts_with(driver.folder().string())) << library.file;
    EXPECT_TRUE(library.inside.string().starts_with("/usr/lib/")) << library.inside;
  }
}

TEST(DriverFiles, TakesTheVersionThatIsLoaded) {
  const FakeRoot root;
  root.compute_libraries("/usr/lib64", "570.1.2");
  root.compute_libraries("/usr/lib64", kVersion);
  root.loaded("570.1.2");
  const auto files = find_driver_files(roots(root), DriverUse::kCompute);
  ASSERT_TRUE(files.has_value()) << files.error().message;
  EXPECT_EQ(files->version, "570.1.2");
  EXPECT_EQ(files->libraries.size(), 4U);
}

TEST(DriverFiles, SaysWhatIsMissing) {
  const FakeRoot root;
  auto files = find_driver_files(roots(root), DriverUse::kCompute);
  ASSERT_FALSE(files.has_value());
  EXPECT_EQ(files.error().code, ErrorCode::kNotFound);
  EXPECT_NE(files.error().message.find("no libcuda.so.1"), std::string::npos);

  root.compute_libraries("/usr/lib64", kVersion);
  root.loaded("570.1.2");
  files = find_driver_files(roots(root), DriverUse::kCompute);
  ASSERT_FALSE(files.has_value());
  EXPECT_NE(files.error().message.find("libraries of driver 570.1.2"), std::string::npos);
}

TEST(DriverFiles, IgnoresWhatIsNoLibrary) {
  const FakeRoot root;
  root.compute_libraries("/usr/lib64", kVersion);
  root.file("/usr/lib64/libnvidia-cfg.so.580.159.04", "a text");
  root.library("/usr/lib64", "libnvidia-nvvm.so.580.159.04", "", library_64("../../etc/passwd"));
  root.link("/usr/lib64/libcudadebugger.so.580.159.04", "/no/such/file");
  const auto files = find_driver_files(roots(root), DriverUse::kCompute);
  ASSERT_TRUE(files.has_value()) << files.error().message;
  EXPECT_EQ(files->libraries.size(), 4U);
}

TEST(DriverFiles, FindsDeviceFiles) {
  const FakeRoot root;
  root.devices();
  root.file("/dev/dri/card1");
  root.file("/dev/dri/renderD129");
  root.file("/dev/dri/card0");
  for (const char* name : {"card1", "renderD129", "controlD65"}) {
    root.file(std::filesystem::path("/sys/bus/pci/devices/0000:65:00.0/drm") / name);
  }
  const RootFolder host(root.folder());
  EXPECT_EQ(common_device_files(host).size(), 3U);
  const GpuPlace gpu{1, *model::PciAddress::parse("00000000:65:00.0")};
  using Paths = std::vector<std::filesystem::path>;
  EXPECT_EQ(*gpu_device_files(host, gpu, DriverUse::kCompute), (Paths{"/dev/nvidia1"}));
  EXPECT_EQ(*gpu_device_files(host, gpu, DriverUse::kGraphics),
            (Paths{"/dev/nvidia1", "/dev/dri/card1", "/dev/dri/renderD129"}));
  const auto missing = gpu_device_files(host, {7, {}}, DriverUse::kCompute);
  ASSERT_FALSE(missing.has_value());
  EXPECT_NE(missing.error().message.find("there is no /dev/nvidia7"), std::string::npos);
  EXPECT_FALSE(gpu_device_files(host, {}, DriverUse::kCompute).has_value());
}

}  // namespace
}  // namespace divvy::inject
