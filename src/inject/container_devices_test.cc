#include "inject/container_devices.h"

#include <fcntl.h>
#include <gtest/gtest.h>

#include <boost/json.hpp>

#include "base/unique_fd.h"
#include "inject/driver_root_testing.h"

namespace divvy::inject {
namespace {

namespace fs = std::filesystem;
namespace json = boost::json;
using testing::FakeRoot;

constexpr const char* kOne = "GPU-00000000-0000-0000-0000-000000000001";
constexpr const char* kTwo = "GPU-00000000-0000-0000-0000-000000000002";

model::Gpu gpu(std::uint32_t index, const char* uuid) {
  model::Gpu result;
  result.index = model::GpuIndex(index);
  result.uuid = *model::GpuUuid::parse(uuid);
  result.minor_number = index;
  return result;
}

class ContainerDevicesTest : public ::testing::Test {
 protected:
  void SetUp() override {
    machine_.devices();
    machine_.loaded("580.1");
    machine_.compute_libraries("/usr/lib/x86_64-linux-gnu", "580.1");
    machine_.file("/usr/bin/nvidia-smi", "smi 580.1");
    machine_.file("/opt/divvy/libdivvy.so");
    fs::create_directories(machine_.at("/state"));
  }

  ContainerDevices devices() const {
    return ContainerDevices(
        {.gpus = {gpu(0, kOne), gpu(1, kTwo)},
         .roots = {RootFolder(machine_.folder()), RootFolder(machine_.folder())},
         .use = DriverUse::kCompute,
         .simulated = {},
         .shim = machine_.at("/opt/divvy/libdivvy.so"),
         .state_folder = machine_.at("/state"),
         .gpu_folder = machine_.at("/etc/cdi"),
         .slice_folder = machine_.at("/var/run/cdi")});
  }

  HeldSlice slice(const std::string& name) const {
    return {.name = name,
            .socket_folder = machine_.at("/run/divvy/t/1/in"),
            .socket_name = "divvy.sock",
            .gpus = {*model::GpuUuid::parse(kTwo)}};
  }

  // A file without the path of the temporary folder.
  std::string read(const fs::path& inside) const {
    std::string text = machine_.read(inside);
    const std::string folder = machine_.folder().string();
    for (std::size_t at = 0; (at = text.find(folder)) != std::string::npos;) {
      text.replace(at, folder.size(), "");
    }
    return text;
  }

  // Where the mount of this path in the container comes from.
  std::string source(const fs::path& file, const std::string& container_path) const {
    const json::value document = json::parse(read(file));
    const json::object& spec = document.as_object();
    const json::object& edits =
        spec.contains("containerEdits")
            ? spec.at("containerEdits").as_object()
            : spec.at("devices").as_array()[0].as_object().at("containerEdits").as_object();
    for (const json::value& mount : edits.at("mounts").as_array()) {
      if (mount.as_object().at("containerPath").as_string() == container_path) {
        return std::string(mount.as_object().at("hostPath").as_string());
      }
    }
    return "";
  }

  FakeRoot machine_;
};

constexpr const char* kGpuFile = "/etc/cdi/divvy.dev-gpu.json";
constexpr const char* kWebFile = "/var/run/cdi/divvy.dev-slice_web.json";
constexpr const char* kCuda = "/usr/lib/x86_64-linux-gnu/libcuda.so.1";

TEST_F(ContainerDevicesTest, OffersEveryGpuByIndexUuidAndAll) {
  ContainerDevices containers = devices();
  const Status ready = containers.refresh();
  ASSERT_TRUE(ready.has_value()) << ready.error().message;
  const json::value document = json::parse(machine_.read(kGpuFile));
  EXPECT_EQ(document.at("cdiVersion").as_string(), "0.5.0");
  EXPECT_EQ(document.at("kind").as_string(), "divvy.dev/gpu");
  std::map<std::string, std::vector<std::string>> nodes;
  for (const json::value& device : document.at("devices").as_array()) {
    auto& list = nodes[std::string(device.at("name").as_string())];
    for (const json::value& node : device.at("containerEdits").at("deviceNodes").as_array()) {
      list.emplace_back(node.at("path").as_string());
    }
  }
  using Nodes = std::map<std::string, std::vector<std::string>>;
  EXPECT_EQ(nodes, (Nodes{{"0", {"/dev/nvidia0"}},
                          {kOne, {"/dev/nvidia0"}},
                          {"1", {"/dev/nvidia1"}},
                          {kTwo, {"/dev/nvidia1"}},
                          {"all", {"/dev/nvidia0", "/dev/nvidia1"}}}));
  EXPECT_EQ(document.at("containerEdits").at("deviceNodes").as_array().size(), 3U);
}

TEST_F(ContainerDevicesTest, WritesASliceAsItWasAgreed) {
  ContainerDevices containers = devices();
  const Status published = containers.publish(slice("web"));
  ASSERT_TRUE(published.has_value()) << published.error().message;
  const json::value document = json::parse(read(kWebFile));
  EXPECT_EQ(document.at("kind").as_string(), "divvy.dev/slice");
  const json::value& device = document.at("devices").at(0);
  EXPECT_EQ(device.at("name").as_string(), "web");
  const json::value& edits = device.at("containerEdits");
  EXPECT_EQ(json::serialize(edits.at("env")),
            json::serialize(json::array{"NVIDIA_VISIBLE_DEVICES=void",
                                        "DIVVY_SOCKET=/run/divvy/slice/divvy.sock",
                                        std::string("CUDA_VISIBLE_DEVICES=") + kTwo}));
  std::map<std::string, std::string> mounts;
  for (const json::value& mount : edits.at("mounts").as_array()) {
    std::string options;
    for (const json::value& option : mount.at("options").as_array()) {
      options += "," + std::string(option.as_string());
    }
    mounts[std::string(mount.at("containerPath").as_string())] =
        std::string(mount.at("hostPath").as_string()) + options;
  }
  const std::string read_only = ",ro,nosuid,nodev,rbind,rprivate";
  const std::string stage = "/state/driver/580.1/usr/";
  std::map<std::string, std::string> expected = {
      {"/usr/bin/nvidia-smi", stage + "bin/nvidia-smi" + read_only},
      {"/run/divvy/slice", "/run/divvy/t/1/in,nosuid,nodev,rbind,rprivate,noexec"},
      {"/usr/local/lib/divvy/libdivvy.so", "/opt/divvy/libdivvy.so" + read_only},
      {"/etc/ld.so.preload", "/state/ld.so.preload" + read_only}};
  for (const char* folder : {"/usr/lib/x86_64-linux-gnu", "/usr/lib64"}) {
    const auto expect = [&](const char* name, const char* file) {
      expected[fmt::format("{}/{}", folder, name)] =
          fmt::format("{}lib/x86_64-linux-gnu/{}{}", stage, file, read_only);
    };
    expect("libcuda.so", "libcuda.so.580.1");
    expect("libcuda.so.1", "libcuda.so.580.1");
    expect("libnvidia-ml.so.1", "libnvidia-ml.so.580.1");
    expect("libnvidia-ptxjitcompiler.so.1", "libnvidia-ptxjitcompiler.so.580.1");
    expect("libnvidia-gpucomp.so.580.1", "libnvidia-gpucomp.so.580.1");
  }
  EXPECT_EQ(mounts, expected);
  std::vector<std::string> nodes;
  for (const json::value& node : edits.at("deviceNodes").as_array()) {
    nodes.emplace_back(node.at("path").as_string());
  }
  EXPECT_EQ(nodes, (std::vector<std::string>{"/dev/nvidiactl", "/dev/nvidia-uvm",
                                             "/dev/nvidia-uvm-tools", "/dev/nvidia1"}));
  EXPECT_EQ(read("/state/ld.so.preload"), "/usr/local/lib/divvy/libdivvy.so\n");
}

TEST_F(ContainerDevicesTest, GivesASliceInModeMpsThePipesOfItsDaemonAndItsPartOfTheThreads) {
  HeldSlice web = slice("web");
  web.mps = {machine_.at("/run/divvy/mps/1/pipe"), 30};
  const Status published = devices().publish(web);
  ASSERT_TRUE(published.has_value()) << published.error().message;
  EXPECT_EQ(source(kWebFile, "/run/divvy/mps"), "/run/divvy/mps/1/pipe");
  const json::value document = json::parse(read(kWebFile));
  const json::value& edits = document.at("devices").at(0).at("containerEdits");
  const json::array& env = edits.at("env").as_array();
  for (const char* variable :
       {"CUDA_MPS_PIPE_DIRECTORY=/run/divvy/mps", "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=30"}) {
    EXPECT_NE(std::ranges::find(env, json::value(variable)), env.end()) << json::serialize(env);
  }
  const json::value& mount = edits.at("mounts").as_array().back();
  EXPECT_EQ(mount.at("containerPath").as_string(), "/run/divvy/mps");
  EXPECT_EQ(mount.at("options").at(0).as_string(), "ro")
      << "root in a container could remove the sockets of everybody";
}

TEST_F(ContainerDevicesTest, TakesBackOnlyWhatItWasToldTo) {
  machine_.file("/var/run/cdi/vendor.json", "{}");
  ContainerDevices containers = devices();
  ASSERT_TRUE(containers.publish(slice("web")).has_value());
  ASSERT_TRUE(containers.publish(slice("db")).has_value());
  ASSERT_TRUE(containers.withdraw("web").has_value());
  EXPECT_FALSE(fs::exists(machine_.at(kWebFile)));
  EXPECT_TRUE(fs::exists(machine_.at("/var/run/cdi/divvy.dev-slice_db.json")));
  ContainerDevices next = devices();
  ASSERT_TRUE(next.refresh().has_value());
  ASSERT_TRUE(next.recover({slice("web")}).has_value());
  EXPECT_TRUE(fs::exists(machine_.at(kWebFile)));
  EXPECT_FALSE(fs::exists(machine_.at("/var/run/cdi/divvy.dev-slice_db.json")));
  EXPECT_TRUE(fs::exists(machine_.at(kGpuFile)));
  EXPECT_EQ(machine_.read("/var/run/cdi/vendor.json"), "{}");
}

TEST_F(ContainerDevicesTest, KeepsTheFilesOfTheLoadedDriverAcrossAnUpdate) {
  {
    ContainerDevices containers = devices();
    ASSERT_TRUE(containers.refresh().has_value());
    ASSERT_TRUE(containers.recover({slice("web")}).has_value());
  }
  const std::string cuda = machine_.folder().string() + source(kWebFile, kCuda);
  const std::string before = machine_.read("/usr/lib/x86_64-linux-gnu/libcuda.so.580.1");
  // A container that runs has the file open, as a mount would.
  const UniqueFd running(::open(cuda.c_str(), O_RDONLY | O_CLOEXEC));
  ASSERT_TRUE(running);

  // The package is replaced; the kernel module stays until the machine is restarted.
  for (const char* name :
       {"libcuda.so", "libnvidia-ml.so", "libnvidia-ptxjitcompiler.so", "libnvidia-gpucomp.so"}) {
    fs::remove(machine_.at("/usr/lib/x86_64-linux-gnu") / (std::string(name) + ".580.1"));
  }
  machine_.compute_libraries("/usr/lib/x86_64-linux-gnu", "590.2");
  machine_.file("/usr/bin/nvidia-smi", "smi 590.2");
  {
    ContainerDevices containers = devices();
    const Status ready = containers.refresh();
    ASSERT_TRUE(ready.has_value()) << ready.error().message;
    ASSERT_TRUE(containers.recover({slice("web")}).has_value());
  }
  EXPECT_EQ(source(kWebFile, kCuda), cuda.substr(machine_.folder().string().size()));
  EXPECT_EQ(read(source(kWebFile, kCuda)), before);
  EXPECT_EQ(read(source(kGpuFile, kCuda)), before);
  EXPECT_EQ(read(source(kWebFile, "/usr/bin/nvidia-smi")), "smi 580.1");

  // After the restart the new version serves, and nothing is left of the old one but what runs.
  machine_.loaded("590.2");
  ContainerDevices containers = devices();
  ASSERT_TRUE(containers.refresh().has_value());
  ASSERT_TRUE(containers.recover({slice("web")}).has_value());
  EXPECT_EQ(source(kWebFile, kCuda),
            "/state/driver/590.2/usr/lib/x86_64-linux-gnu/libcuda.so.590.2");
  EXPECT_FALSE(fs::exists(cuda));
  EXPECT_FALSE(fs::exists(machine_.at("/state/driver/580.1")));
  std::string still(before.size(), '\0');
  EXPECT_EQ(::pread(running.get(), still.data(), still.size(), 0),
            static_cast<ssize_t>(before.size()));
  EXPECT_EQ(still, before);
}

// As on machines that get the driver as a mount: only the linker's cache knows the folder.
TEST_F(ContainerDevicesTest, OffersADriverInAFolderOfItsOwn) {
  fs::remove_all(machine_.at("/usr/lib/x86_64-linux-gnu"));
  const fs::path folder = "/usr/local/nvidia/lib64";
  machine_.compute_libraries(folder, "580.1");
  machine_.file("/etc/ld.so.cache", testing::ldcache({{"libcuda.so.1", folder / "libcuda.so.1"}}));
  ContainerDevices containers = devices();
  const Status ready = containers.refresh();
  ASSERT_TRUE(ready.has_value()) << ready.error().message;
  ASSERT_TRUE(containers.publish(slice("web")).has_value());
  EXPECT_EQ(read(source(kWebFile, kCuda)), machine_.read(folder / "libcuda.so.580.1"));
}

TEST_F(ContainerDevicesTest, TakesAFileThatWasReplacedWithinAVersion) {
  ASSERT_TRUE(devices().refresh().has_value());
  machine_.file("/usr/bin/nvidia-smi", "smi, mended");
  ASSERT_TRUE(devices().refresh().has_value());
  EXPECT_EQ(read(source(kGpuFile, "/usr/bin/nvidia-smi")), "smi, mended");
}

TEST_F(ContainerDevicesTest, SaysWhyThereIsNoDriver) {
  fs::remove_all(machine_.at("/usr"));
  ContainerDevices containers = devices();
  const Status published = containers.publish(slice("web"));
  ASSERT_FALSE(published.has_value());
  EXPECT_EQ(published.error().code, ErrorCode::kNotFound);
  EXPECT_FALSE(fs::exists(machine_.at(kWebFile)));
  // Once it is there, nobody has to restart anything.
  machine_.compute_libraries("/usr/lib64", "580.1");
  EXPECT_TRUE(containers.publish(slice("web")).has_value());
}

TEST_F(ContainerDevicesTest, LeavesOutAGpuWithoutADeviceFile) {
  fs::remove(machine_.at("/dev/nvidia1"));
  ContainerDevices containers = devices();
  ASSERT_TRUE(containers.refresh().has_value());
  EXPECT_EQ(machine_.read(kGpuFile).find("nvidia1\""), std::string::npos);
  const Status published = containers.publish(slice("web"));
  ASSERT_FALSE(published.has_value());
  EXPECT_NE(published.error().message.find("there is no /dev/nvidia1"), std::string::npos);
}

TEST_F(ContainerDevicesTest, GivesSimulatedGpusTheirState) {
  ContainerDevices containers(
      {.gpus = {gpu(0, kOne), gpu(1, kTwo)},
       .roots = {},
       .use = DriverUse::kCompute,
       .simulated = SimulatedDriver{machine_.at("/sim"), machine_.at("/gpus")},
       .shim = machine_.at("/opt/divvy/libdivvy.so"),
       .state_folder = machine_.at("/state"),
       .gpu_folder = machine_.at("/var/run/cdi"),
       .slice_folder = machine_.at("/var/run/cdi")});
  machine_.file("/sim/libcuda.so.1", testing::library_64("libcuda.so.1"));
  machine_.file("/sim/libnvidia-ml.so.1", testing::library_64("libnvidia-ml.so.1"));
  const Status published = containers.publish(slice("web"));
  ASSERT_TRUE(published.has_value()) << published.error().message;
  EXPECT_EQ(source(kWebFile, kCuda), "/sim/libcuda.so.1");
  EXPECT_EQ(source(kWebFile, "/run/divvy/simgpu/state"), "/gpus");
  EXPECT_TRUE(fs::exists(machine_.at("/gpus.alive")));
}

// --- Claims ---

TEST_F(ContainerDevicesTest, AClaimHasADeviceForEachRequestInOneFile) {
  ContainerDevices devices = this->devices();
  HeldSlice patient = slice("1b2c-side");
  patient.socket_wait_seconds = 60;
  ASSERT_TRUE(devices.publish_claim({"1b2c", {slice("1b2c-main"), patient}}));
  const json::value document = json::parse(read("/var/run/cdi/divvy.dev-claim_1b2c.json"));
  EXPECT_EQ(document.at("kind").as_string(), "divvy.dev/claim");
  ASSERT_EQ(document.at("devices").as_array().size(), 2U);
  EXPECT_EQ(document.at("devices").at(0).at("name").as_string(), "1b2c-main");
  EXPECT_EQ(document.at("devices").at(1).at("name").as_string(), "1b2c-side");
  const auto environment = [&](std::size_t device) {
    return json::serialize(document.at("devices").at(device).at("containerEdits").at("env"));
  };
  EXPECT_EQ(environment(0).find("DIVVY_SOCKET_WAIT"), std::string::npos);
  EXPECT_NE(environment(1).find("\"DIVVY_SOCKET_WAIT=60\""), std::string::npos);
  EXPECT_EQ(source("/var/run/cdi/divvy.dev-claim_1b2c.json", "/run/divvy/slice"),
            "/run/divvy/t/1/in");
  EXPECT_EQ(ContainerDevices::claim_device_name("1b2c-main"), "divvy.dev/claim=1b2c-main");
}

TEST_F(ContainerDevicesTest, ClaimsAndSlicesDoNotRemoveEachOthersFiles) {
  ContainerDevices devices = this->devices();
  ASSERT_TRUE(devices.publish_claim({"1b2c", {slice("1b2c-main")}}));
  ASSERT_TRUE(devices.publish_claim({"3d4e", {slice("3d4e-main")}}));
  ASSERT_TRUE(devices.publish(slice("web")));
  ASSERT_TRUE(devices.recover({slice("web")}));
  EXPECT_TRUE(fs::exists(machine_.at("/var/run/cdi/divvy.dev-claim_1b2c.json")));
  ASSERT_TRUE(devices.keep_only_claims({"1b2c"}));
  EXPECT_TRUE(fs::exists(machine_.at("/var/run/cdi/divvy.dev-slice_web.json")));
  EXPECT_TRUE(fs::exists(machine_.at("/var/run/cdi/divvy.dev-claim_1b2c.json")));
  EXPECT_FALSE(fs::exists(machine_.at("/var/run/cdi/divvy.dev-claim_3d4e.json")));
  ASSERT_TRUE(devices.withdraw_claim("1b2c"));
  EXPECT_FALSE(fs::exists(machine_.at("/var/run/cdi/divvy.dev-claim_1b2c.json")));
}

}  // namespace
}  // namespace divvy::inject
