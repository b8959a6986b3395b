// The GPUs and the held slices of this machine as devices for containers (CDI): finds the driver's
// files, keeps those of the version that runs (DriverStage), and writes the files that runtimes
// read (CdiFiles). A container that asks for none of the devices gets nothing of all this.
//
// All methods may be called from any thread.
#pragma once

#include <filesystem>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/result.h"
#include "inject/cdi_files.h"
#include "inject/container_edits.h"
#include "inject/driver_files.h"
#include "inject/driver_stage.h"
#include "model/node.h"

namespace divvy::inject {

// The slices of a resource claim of Kubernetes, or of a pod that goes by slots: one device for each
// request or slot, all in one file.
struct ClaimedSlices {
  std::string uid;  // of the claim or pod, never used again for another
  std::vector<HeldSlice> devices;
  bool slots = false;  // the devices are slots
};

class ContainerDevices {
 public:
  struct Parts {
    std::vector<model::Gpu> gpus;
    DriverRoots roots;
    DriverUse use = DriverUse::kCompute;
    std::optional<SimulatedDriver> simulated;  // Instead of the driver that is installed
    std::filesystem::path shim;                // libdivvy.so
    // Exists. Empty: the driver's files are not kept, and nothing can be written.
    std::filesystem::path state_folder;
    // Where the CDI files go: of whole GPUs, and of slices. May be one.
    std::filesystem::path gpu_folder;
    std::filesystem::path slice_folder;
  };
  explicit ContainerDevices(Parts parts);

  // Looks for the driver and writes the file of the whole GPUs. After an update of the driver the
  // kept files serve as long as the kernel module of before is loaded.
  [[nodiscard]] Status refresh();
  // The slices that are held are exactly these: writes their files, removes those of others, and
  // what was kept of other versions of the driver.
  [[nodiscard]] Status recover(const std::vector<HeldSlice>& slices);

  [[nodiscard]] Status publish(const HeldSlice& slice);
  [[nodiscard]] Status withdraw(const std::string& name);

  // The same for claims, whose files are apart from those of slices.
  [[nodiscard]] Status publish_claim(const ClaimedSlices& claim);
  [[nodiscard]] Status withdraw_claim(const std::string& uid);
  // Removes the files of all others.
  [[nodiscard]] Status keep_only_claims(const std::set<std::string>& uids);

  // What publish() and refresh() would write.
  [[nodiscard]] Result<CdiSpec> slice_spec(const HeldSlice& slice);
  [[nodiscard]] Result<CdiSpec> gpu_spec();

  // "divvy.dev/slice=web": what to ask a runtime for.
  [[nodiscard]] static std::string device_name(const std::string& slice);
  // "divvy.dev/claim=...": likewise.
  [[nodiscard]] static std::string claim_device_name(const std::string& device);
  // "divvy.dev/slot=...": likewise.
  [[nodiscard]] static std::string slot_device_name(const std::string& device);

 private:
  // Those below need mutex_.
  [[nodiscard]] Status find_driver();
  Status use_driver(const DriverFiles& files);
  [[nodiscard]] Result<CdiSpec> make_gpu_spec() const;
  [[nodiscard]] Result<CdiDevice> make_slice_device(const HeldSlice& slice) const;
  [[nodiscard]] Result<CdiSpec> make_slice_spec(const HeldSlice& slice) const;
  [[nodiscard]] Result<CdiEdits> edits_of(const model::Gpu& gpu) const;
  [[nodiscard]] Status write_slice(const HeldSlice& slice);
  [[nodiscard]] std::filesystem::path file_of_slice(const std::string& name) const;
  [[nodiscard]] std::filesystem::path file_of_claim(const std::string& uid) const;
  [[nodiscard]] std::filesystem::path file_of_gpus() const;
  [[nodiscard]] std::filesystem::path preload() const;

  const Parts parts_;
  std::mutex mutex_;
  DriverStage stage_;
  CdiFiles files_;
  CdiFiles claim_files_;
  std::optional<CdiEdits> driver_;      // Once it was found
  std::optional<std::string> version_;  // Of that driver; none of a simulated one
};

}  // namespace divvy::inject
