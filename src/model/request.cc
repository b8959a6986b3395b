#include "model/request.h"

#include <algorithm>
#include <array>

#include "base/memory_amount.h"
#include "base/text.h"

namespace divvy::model {
namespace {

constexpr std::array<std::string_view, 3> kPreferenceNames{"any", "numa", "nvlink"};

bool names_one_of(std::string_view model, const std::vector<std::string>& pieces) {
  const std::string name = to_lower(model);
  return std::ranges::any_of(pieces, [&name](const std::string& piece) {
    return name.find(to_lower(piece)) != std::string::npos;
  });
}

Status check_models(const Request::Parts& parts) {
  for (const auto* list : {&parts.allowed_models, &parts.denied_models}) {
    for (const std::string& model : *list) {
      // An empty piece is a part of every name: it would allow or deny everything without saying
      // so.
      if (trim(model).empty()) {
        return err(ErrorCode::kInvalidArgument,
                   "a GPU model in a request is empty; name models like H200 or \"NVIDIA A100\"");
      }
    }
  }
  for (const std::string& model : parts.allowed_models) {
    const auto same = [&](const std::string& denied) {
      return to_lower(denied) == to_lower(model);
    };
    if (std::ranges::any_of(parts.denied_models, same)) {
      return err(ErrorCode::kInvalidArgument,
                 "a request both allows and denies the GPU model \"{}\"; take it off one list",
                 escape_for_terminal(model));
    }
  }
  return {};
}

tl::unexpected<Error> asks_for_nothing() {
  return err(ErrorCode::kOutOfRange,
             "a request for 0 GPUs asks for nothing; the smallest is --gpu 0.001");
}

}  // namespace

std::string_view to_string(TopologyPreference preference) {
  return kPreferenceNames[static_cast<std::size_t>(preference)];
}

Result<TopologyPreference> parse_topology_preference(std::string_view text) {
  const auto* const found = std::ranges::find(kPreferenceNames, to_lower(trim(text)));
  if (found != kPreferenceNames.end()) {
    return static_cast<TopologyPreference>(found - kPreferenceNames.begin());
  }
  return err(ErrorCode::kInvalidArgument,
             "there is no topology preference \"{}\"; write any, numa or nvlink",
             escape_for_terminal(text.substr(0, 40)));
}

Result<Request> Request::create(Parts parts) {
  if (parts.memory == Bytes(0)) {
    return err(
        ErrorCode::kOutOfRange,
        "a request for 0 bytes of GPU memory cannot run anything; leave --gpu-mem out to get "
        "the same part of the memory as of the GPU");
  }
  if (parts.gang_size == 0 || parts.gang_size > kMaxGangSize) {
    return err(ErrorCode::kOutOfRange, "a gang of {} members is impossible; it has from 1 to {}",
               parts.gang_size, kMaxGangSize);
  }
  DIVVY_RETURN_IF_ERROR(check_models(parts));
  return Request(std::move(parts));
}

Result<Request> Request::parse(std::optional<std::string_view> gpu_text,
                               std::optional<std::string_view> memory_text, Parts rest) {
  if (gpu_text) {
    DIVVY_TRY(share, with_context(parse_share(*gpu_text), "--gpu"));
    rest.share = share;
  }
  if (gpu_text ? rest.share == Share(0) : !memory_text) return asks_for_nothing();
  if (memory_text) {
    DIVVY_TRY(memory, with_context(parse_memory(*memory_text), "--gpu-mem"));
    rest.memory = memory;
  }
  return create(std::move(rest));
}

Result<Request> Request::parse(std::optional<std::string_view> gpu_text,
                               std::optional<std::string_view> memory_text) {
  return parse(gpu_text, memory_text, Parts{});
}

std::uint32_t Request::gpus_per_member() const {
  return whole_gpus() + (fraction() > Share(0) || by_memory() ? 1 : 0);
}

bool Request::accepts_model(std::string_view model) const {
  if (names_one_of(model, denied_models())) return false;
  return allowed_models().empty() || names_one_of(model, allowed_models());
}

}  // namespace divvy::model
