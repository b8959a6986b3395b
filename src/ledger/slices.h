// Who holds what on the GPUs of this node, as set algebra: take() books slices, give_back() undoes
// it, why_not() says what is in the way of a request that found no place. On every GPU the shares
// sum up to at most one GPU and the memory to at most what CUDA can use of it; nothing here can
// break that.
//
// A value without clock, I/O or lock; its owner guards it.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "model/gpu_mode.h"
#include "model/node.h"
#include "model/request.h"
#include "model/tenant.h"

namespace divvy::ledger {

using model::GpuMode;

// No CUDA program starts in less: a context alone takes hundreds of MiB on a large GPU. Where even
// this is not enough the program's own error says so.
constexpr Bytes kSmallestSlice = mib(256);
// Of one tenant: as many as its control page has room for (share/live_tenant.cc compares).
constexpr std::uint32_t kMostGpus = 16;

struct SharedGpu {
  model::GpuIndex index;
  model::GpuUuid uuid;
  std::string name;
  Bytes memory;          // Usable by CUDA: without what the driver keeps for itself
  std::string unusable;  // Why it gets no work, ever; empty when it does
  // Why it gets no new work for now: its health, or an operator's word. Empty when it does.
  std::string resting = {};
  bool failing = false;  // And whoever is on it is in trouble
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
  bool ever = false;  // Would it, if everybody else left and no GPU rested?
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

  // GPU by GPU, and what to do about it.
  [[nodiscard]] NoFit why_not(const Want& want) const;

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
  // Whether it would fit if nobody held anything and no GPU rested.
  [[nodiscard]] bool is_possible(const Want& want) const;

  std::vector<SharedGpu> gpus_;
  std::map<model::TenantId, Held> held_;
};

// The memory that goes with a share of this GPU: what the request names, or else the same part.
[[nodiscard]] Bytes memory_for(const SharedGpu& gpu, const model::Request& request, Share share);

}  // namespace divvy::ledger
