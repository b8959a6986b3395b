// What a claim's status, or the annotation of a pod that goes by slots, says that a pod has: slices
// on the GPUs of one node, one device name for each, written by the controller and read by it and
// by the node agent. Pure; any document is safe to read.
#pragma once

#include <boost/json/object.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "model/gpu_mode.h"
#include "model/job_spec.h"
#include "model/slice.h"

namespace divvy::kube {

// One result of an allocation.
struct AllocatedSlice {
  std::string request;  // the container's name
  std::string device;   // unique for ever
  model::Slice slice;
  friend bool operator==(const AllocatedSlice&, const AllocatedSlice&) = default;
};

struct Allocation {
  std::string node;
  std::vector<AllocatedSlice> slices;
  model::JobClass job_class = model::JobClass::kBatch;
  model::GpuMode mode = model::GpuMode::kTimeslice;
  WallTime at;  // in whole seconds
  // kube-scheduler reserves it, and waits for our word before it binds (cluster_queue_gangs.cc).
  bool awaits_go = false;
  friend bool operator==(const Allocation&, const Allocation&) = default;
};

// For status.allocation.
[[nodiscard]] boost::json::object write_allocation(const Allocation& allocation);

// Of a claim's document. Nothing: it has no allocation, or one of another driver. An error: it has
// one of ours that nobody can follow.
[[nodiscard]] Result<std::optional<Allocation>> read_allocation(const boost::json::object& claim);

// The same document as a text, for a pod's annotation.
[[nodiscard]] std::string write_allocation_annotation(const Allocation& allocation);
// Of a pod's document, likewise.
[[nodiscard]] Result<std::optional<Allocation>> read_allocation_annotation(
    const boost::json::object& pod);

// The parameters of one slice, as in allocations and in what a node says that it holds.
struct SliceParameters {
  std::string device;
  model::Slice slice;
  model::JobClass job_class = model::JobClass::kBatch;
  model::GpuMode mode = model::GpuMode::kTimeslice;
};
[[nodiscard]] boost::json::object write_slice(const SliceParameters& parameters);
[[nodiscard]] Result<SliceParameters> read_slice(const boost::json::object& parameters);

}  // namespace divvy::kube
