// Who holds what on the GPUs of this node, as set algebra: fit() finds slices for a request, take()
// books them, give_back() undoes it. On every GPU the shares sum up to at most one GPU and the
// memory to at most what CUDA can use of it; nothing here can break that.
//
// A value without clock, I/O or lock; its owner guards it.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <vector>

#include "base/result.h"
#include "model/device_links.h"
#include "model/node.h"
#include "model/request.h"
#include "model/tenant.h"

namespace divvy::node {

// How the tenants of one GPU share its time.
enum class GpuMode { kTimeslice, kMps };
[[nodiscard]] std::string_view to_string(GpuMode mode);
[[nodiscard]] Result<GpuMode> parse_gpu_mode(std::string_view text);

// No CUDA program starts in less: a context alone takes hundreds of MiB on a large GPU. Where even
// this is not enough the program's own error says so.
constexpr Bytes kSmallestSlice = mib(256);

struct SharedGpu {
  model::GpuIndex index;
  model::GpuUuid uuid;
  std::string name;
  Bytes memory;          // Usable by CUDA: without what the driver keeps for itself
  std::string unusable;  // Why it gets no work, ever; empty when it does
  // Why it gets no new work for now: its health, or an operator's word. Empty when it does.
  std::string resting = {};
  bool failing = false;  // And whoever is on it is in trouble
  model::DeviceGroups groups = {};
};
// The GPUs that can be shared: those whose UUID and memory are known.
[[nodiscard]] std::vector<SharedGpu> shared_gpus(const model::Node& node);

struct Want {
  model::Request request;
  std::vector<model::GpuUuid> only;  // Empty: any GPU
  GpuMode mode = GpuMode::kTimeslice;
};

struct Obstacle {
  model::GpuIndex gpu;
  std::string reason;  // "0.2 of 0.3 GPU free"
  Share free_share;
  Bytes free_memory;
  std::vector<model::TenantId> holders;
};

// "Does not fit" as an answer.
struct NoFit {
  bool ever = false;   // Would it, if everybody else left and no GPU rested?
  bool rests = false;  // It waits for a GPU that rests: nobody could leave to make room for it
  std::string summary;
  std::string advice;
  std::vector<Obstacle> obstacles;  // By GPU
};

class Slices {
 public:
  explicit Slices(std::vector<SharedGpu> gpus);

  [[nodiscard]] const std::vector<SharedGpu>& gpus() const { return gpus_; }
  [[nodiscard]] const SharedGpu* find(const model::GpuUuid& uuid) const;
  // See SharedGpu. A GPU that is not among these is ignored.
  void set_resting(const model::GpuUuid& uuid, std::string why, bool failing);
  // By index ("1"), UUID or the beginning of one ("GPU-1a2b").
  [[nodiscard]] Result<model::GpuUuid> find_by_text(std::string_view text) const;

  // Whole GPUs come from GPUs that nobody holds, those that are closest together; a part goes where
  // it leaves the least over. Of equal ones those that break the least connected set.
  [[nodiscard]] tl::expected<std::vector<model::Slice>, NoFit> fit(const Want& want) const;

  // Refused, with nothing changed: a tenant that holds something already, an unknown GPU, or more
  // than is free.
  [[nodiscard]] Status take(model::TenantId tenant, std::vector<model::Slice> slices, GpuMode mode);
  void give_back(model::TenantId tenant);
  // Other slices on the same GPUs, all or nothing.
  [[nodiscard]] Status change(model::TenantId tenant, std::vector<model::Slice> slices);

  [[nodiscard]] Share free_share(const model::GpuUuid& uuid) const;
  [[nodiscard]] Bytes free_memory(const model::GpuUuid& uuid) const;
  [[nodiscard]] std::vector<model::TenantId> holders(const model::GpuUuid& uuid) const;
  // Nothing while nobody holds a part of it.
  [[nodiscard]] std::optional<GpuMode> mode_of(const model::GpuUuid& uuid) const;

 private:
  struct Held {
    std::vector<model::Slice> slices;
    GpuMode mode = GpuMode::kTimeslice;
  };

  // Why this GPU cannot give the slice; empty when it can.
  [[nodiscard]] std::string objection(const SharedGpu& gpu, const Want& want, Share share,
                                      Bytes memory) const;
  [[nodiscard]] bool gives(const SharedGpu& gpu, const Want& want, Share share) const;
  // Indices of the GPUs to give whole: as many as are asked for, or fewer.
  [[nodiscard]] std::vector<std::size_t> whole_gpus(const Want& want) const;
  // The others, those first that are near to these and break the least.
  [[nodiscard]] std::vector<std::size_t> nearest_first(const std::vector<std::size_t>& taken) const;
  [[nodiscard]] model::DeviceLinks::Devices idle() const;
  [[nodiscard]] NoFit explain(const Want& want) const;

  std::vector<SharedGpu> gpus_;
  model::DeviceLinks links_;
  std::map<model::TenantId, Held> held_;
};

// The memory that goes with a share of this GPU: what the request names, or else the same part.
[[nodiscard]] Bytes memory_for(const SharedGpu& gpu, const model::Request& request, Share share);

}  // namespace divvy::node
