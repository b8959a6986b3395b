// What a user asks for, before anybody decided where it goes. A plain value that could be granted
// on some machine: whether it fits here is the placement engine's answer.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "model/slice.h"

namespace divvy::model {

// How the GPUs of one member lie to each other. A request waits until it can be had so.
enum class TopologyPreference {
  kAny,       // Wherever it fits best.
  kSameNuma,  // On one NUMA node.
  kNvlink,    // In one NVLink island.
};
[[nodiscard]] std::string_view to_string(TopologyPreference preference);
// "any", "numa" or "nvlink"
[[nodiscard]] Result<TopologyPreference> parse_topology_preference(std::string_view text);

class Request {
 public:
  static constexpr std::uint32_t kMaxGangSize = 100'000;

  struct Parts {
    // For one member. 0.3 is a part of one GPU; 2.5 is two whole GPUs and half of a third. Zero
    // with `memory`: a part of one GPU that is as large as the memory is; zero without: no GPU.
    Share share;
    // The limit on each GPU of the member, whole ones too. Without it, a part of a GPU gets the
    // same part of the memory.
    std::optional<Bytes> memory;
    ShareKind kind = ShareKind::kGuarantee;
    // Pieces of model names, compared without upper and lower case ("h200" allows "NVIDIA H200").
    // An empty allow list allows every model; a denied model is denied even where it is allowed
    // too.
    std::vector<std::string> allowed_models;
    std::vector<std::string> denied_models;
    TopologyPreference topology = TopologyPreference::kAny;
    // How many members start together or not at all.
    std::uint32_t gang_size = 1;
    friend bool operator==(const Parts&, const Parts&) = default;
  };

  [[nodiscard]] static Result<Request> create(Parts parts);

  // From what was typed after --gpu and --gpu-mem, one of which has to be there; `rest` gives
  // everything else. A request for no GPU is refused.
  [[nodiscard]] static Result<Request> parse(std::optional<std::string_view> gpu_text,
                                             std::optional<std::string_view> memory_text,
                                             Parts rest);
  [[nodiscard]] static Result<Request> parse(
      std::optional<std::string_view> gpu_text,
      std::optional<std::string_view> memory_text = std::nullopt);

  [[nodiscard]] Share share() const { return parts_.share; }
  [[nodiscard]] std::uint32_t whole_gpus() const { return parts_.share.whole_part(); }
  // What is asked of one more GPU; zero for whole numbers.
  [[nodiscard]] Share fraction() const { return parts_.share.fraction(); }
  // A part of one GPU, as large as its memory is.
  [[nodiscard]] bool by_memory() const { return parts_.share == Share(0) && parts_.memory; }
  [[nodiscard]] bool no_gpu() const { return parts_.share == Share(0) && !parts_.memory; }
  // How many GPUs one member touches: 3 for 2.5.
  [[nodiscard]] std::uint32_t gpus_per_member() const;
  [[nodiscard]] std::optional<Bytes> memory() const { return parts_.memory; }
  [[nodiscard]] ShareKind kind() const { return parts_.kind; }
  [[nodiscard]] const std::vector<std::string>& allowed_models() const {
    return parts_.allowed_models;
  }
  [[nodiscard]] const std::vector<std::string>& denied_models() const {
    return parts_.denied_models;
  }
  [[nodiscard]] TopologyPreference topology() const { return parts_.topology; }
  [[nodiscard]] std::uint32_t gang_size() const { return parts_.gang_size; }

  [[nodiscard]] bool accepts_model(std::string_view model) const;

  friend bool operator==(const Request&, const Request&) = default;

 private:
  explicit Request(Parts parts) : parts_(std::move(parts)) {}

  Parts parts_;
};

}  // namespace divvy::model
