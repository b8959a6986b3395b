#include "inject/container_devices.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>
#include <set>

#include "base/log.h"
#include "base/unique_fd.h"

namespace divvy::inject {
namespace {

namespace fs = std::filesystem;

// A program on the simulated GPUs makes this file when it starts; a mount needs it before.
Status make_life_signs(const SimulatedDriver& driver) {
  const std::string path = driver.state.string() + ".alive";
  const UniqueFd file(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (file) return {};
  return err(ErrorCode::kIo, "{} could not be made: {}", path, std::strerror(errno));
}

// Never written in place: containers that run have it mounted.
Status write_preload(const fs::path& path) {
  const std::string text = fmt::format("{}\n", kShimInContainer);
  std::ifstream before(path);
  if (before && std::string(std::istreambuf_iterator<char>(before), {}) == text) return {};
  const std::string fresh = path.string() + ".new";
  std::ofstream file(fresh, std::ios::trunc);
  file << text << std::flush;
  if (!file || ::chmod(fresh.c_str(), 0644) != 0 || ::rename(fresh.c_str(), path.c_str()) != 0) {
    return err(ErrorCode::kIo, "{} could not be written: {}", path.string(), std::strerror(errno));
  }
  return {};
}

}  // namespace

ContainerDevices::ContainerDevices(Parts parts)
    : parts_(std::move(parts)),
      stage_(parts_.state_folder / "driver"),
      files_(parts_.state_folder / "cdi-files"),
      claim_files_(parts_.state_folder / "cdi-claim-files") {}

std::string ContainerDevices::device_name(const std::string& slice) {
  return fmt::format("{}={}", kSliceKind, slice);
}

std::string ContainerDevices::claim_device_name(const std::string& device) {
  return fmt::format("{}={}", kClaimKind, device);
}

std::string ContainerDevices::slot_device_name(const std::string& device) {
  return fmt::format("{}={}", kSlotKind, device);
}

Status ContainerDevices::refresh() {
  const std::lock_guard lock(mutex_);
  DIVVY_RETURN_IF_ERROR(find_driver());
  DIVVY_TRY(spec, make_gpu_spec());
  return files_.write(file_of_gpus(), spec);
}

Status ContainerDevices::recover(const std::vector<HeldSlice>& slices) {
  const std::lock_guard lock(mutex_);
  std::set<fs::path> wanted = {file_of_gpus()};
  Status first;
  for (const HeldSlice& slice : slices) {
    wanted.insert(file_of_slice(slice.name));
    if (Status written = write_slice(slice); !written && first) first = std::move(written);
  }
  DIVVY_RETURN_IF_ERROR(files_.keep_only(wanted));
  // Only now does no file name another version of the driver any more.
  if (first && version_) return stage_.keep_only({*version_});
  return first;
}

Status ContainerDevices::publish(const HeldSlice& slice) {
  const std::lock_guard lock(mutex_);
  return write_slice(slice);
}

Status ContainerDevices::withdraw(const std::string& name) {
  const std::lock_guard lock(mutex_);
  return files_.remove(file_of_slice(name));
}

Status ContainerDevices::publish_claim(const ClaimedSlices& claim) {
  const std::lock_guard lock(mutex_);
  if (!driver_) DIVVY_RETURN_IF_ERROR(find_driver());
  DIVVY_RETURN_IF_ERROR(write_preload(preload()));
  CdiSpec spec{.kind = claim.slots ? kSlotKind : kClaimKind, .devices = {}, .edits = {}};
  for (const HeldSlice& slice : claim.devices) {
    DIVVY_TRY(device, make_slice_device(slice));
    spec.devices.push_back(std::move(device));
  }
  return claim_files_.write(file_of_claim(claim.uid), spec);
}

Status ContainerDevices::withdraw_claim(const std::string& uid) {
  const std::lock_guard lock(mutex_);
  return claim_files_.remove(file_of_claim(uid));
}

Status ContainerDevices::keep_only_claims(const std::set<std::string>& uids) {
  const std::lock_guard lock(mutex_);
  std::set<fs::path> wanted;
  for (const std::string& uid : uids) wanted.insert(file_of_claim(uid));
  return claim_files_.keep_only(wanted);
}

Result<CdiSpec> ContainerDevices::slice_spec(const HeldSlice& slice) {
  const std::lock_guard lock(mutex_);
  if (!driver_) DIVVY_RETURN_IF_ERROR(find_driver());
  return make_slice_spec(slice);
}

Result<CdiSpec> ContainerDevices::gpu_spec() {
  const std::lock_guard lock(mutex_);
  if (!driver_) DIVVY_RETURN_IF_ERROR(find_driver());
  return make_gpu_spec();
}

Status ContainerDevices::find_driver() {
  if (parts_.simulated) {
    DIVVY_RETURN_IF_ERROR(make_life_signs(*parts_.simulated));
    driver_ = simulated_driver_edits(*parts_.simulated);
    return {};
  }
  auto found = find_driver_files(parts_.roots, parts_.use);
  if (found && parts_.state_folder.empty()) return use_driver(*found);
  const auto loaded = loaded_driver_version(parts_.roots.host);
  std::string version;
  if (found) {
    version = found->version;
    DIVVY_RETURN_IF_ERROR(stage_.add(*found));
  } else if (loaded && stage_.has(*loaded)) {
    log_warning("the driver was replaced; containers get the files of the version that is loaded",
                {{"version", *loaded}});
    version = *loaded;
  } else {
    return err(std::move(found).error());
  }
  DIVVY_TRY(files, find_driver_files({RootFolder(stage_.root_of(version)), parts_.roots.host},
                                     parts_.use));
  version_ = version;
  return use_driver(files);
}

Status ContainerDevices::use_driver(const DriverFiles& files) {
  driver_ = driver_edits(files);
  driver_->device_nodes = device_nodes(parts_.roots.host, common_device_files(parts_.roots.host));
  return {};
}

Result<CdiEdits> ContainerDevices::edits_of(const model::Gpu& gpu) const {
  CdiEdits edits;
  if (parts_.simulated) {
    // There are no device files; CUDA shows the one that is named.
    if (gpu.uuid) edits.env.push_back("CUDA_VISIBLE_DEVICES=" + gpu.uuid->str());
    return edits;
  }
  DIVVY_TRY(devices, gpu_device_files(parts_.roots.host, {gpu.minor_number, gpu.pci}, parts_.use));
  edits.device_nodes = device_nodes(parts_.roots.host, devices);
  return edits;
}

Result<CdiSpec> ContainerDevices::make_gpu_spec() const {
  CdiSpec spec{.kind = kGpuKind, .devices = {}, .edits = *driver_};
  CdiDevice all{.name = "all", .edits = {}};
  for (const model::Gpu& gpu : parts_.gpus) {
    auto edits = edits_of(gpu);
    if (!edits) {
      log_warning("a GPU is no device for containers",
                  {{"gpu", gpu.index.value()}, {"reason", edits.error().message}});
      continue;
    }
    append(all.edits, *edits);
    spec.devices.push_back({std::to_string(gpu.index.value()), *edits});
    if (gpu.uuid) spec.devices.push_back({gpu.uuid->str(), *std::move(edits)});
  }
  if (spec.devices.empty()) {
    return err(ErrorCode::kNotFound, "none of the GPUs has a device file for containers");
  }
  // With simulated GPUs all of them show where nobody chooses.
  if (parts_.simulated) all.edits.env = {"CUDA_DEVICE_ORDER=PCI_BUS_ID"};
  spec.devices.push_back(std::move(all));
  return spec;
}

Result<CdiDevice> ContainerDevices::make_slice_device(const HeldSlice& slice) const {
  CdiDevice device{.name = slice.name, .edits = *driver_};
  for (const model::GpuUuid& uuid : slice.gpus) {
    const auto gpu = std::ranges::find(parts_.gpus, std::optional(uuid), &model::Gpu::uuid);
    if (gpu == parts_.gpus.end()) {
      return err(ErrorCode::kNotFound, "the GPU {} of slice {} is not there any more", uuid.str(),
                 slice.name);
    }
    if (parts_.simulated) continue;
    DIVVY_TRY(edits, with_context(edits_of(*gpu), fmt::format("GPU {}", gpu->index)));
    append(device.edits, std::move(edits));
  }
  append(device.edits, slice_edits(slice, {.shim = parts_.shim, .preload = preload()}));
  return device;
}

Result<CdiSpec> ContainerDevices::make_slice_spec(const HeldSlice& slice) const {
  DIVVY_TRY(device, make_slice_device(slice));
  return CdiSpec{.kind = kSliceKind, .devices = {std::move(device)}, .edits = {}};
}

Status ContainerDevices::write_slice(const HeldSlice& slice) {
  // The driver may have been installed after we started.
  if (!driver_) DIVVY_RETURN_IF_ERROR(find_driver());
  DIVVY_RETURN_IF_ERROR(write_preload(preload()));
  DIVVY_TRY(spec, make_slice_spec(slice));
  return files_.write(file_of_slice(slice.name), spec);
}

fs::path ContainerDevices::file_of_slice(const std::string& name) const {
  return parts_.slice_folder / cdi_file_name(kSliceKind, name);
}

fs::path ContainerDevices::file_of_claim(const std::string& uid) const {
  return parts_.slice_folder / cdi_file_name(kClaimKind, uid);
}

fs::path ContainerDevices::file_of_gpus() const {
  return parts_.gpu_folder / cdi_file_name(kGpuKind);
}

fs::path ContainerDevices::preload() const { return parts_.state_folder / "ld.so.preload"; }

}  // namespace divvy::inject
