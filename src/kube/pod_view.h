// A pod's document, as the dialects look at it: annotations, labels and what each container asks
// for, every value with the name of its field. Refers to the document, which has to live longer.
// Pure.
#pragma once

#include <boost/json/object.hpp>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace divvy::kube {

enum class ContainerKind {
  kMain,
  kSidecar,  // an init container that goes on (restartPolicy: Always)
  kInit,     // has ended when the main ones start
};

// What somebody wrote somewhere, and where.
struct PodText {
  std::string_view text;
  std::string field;  // `metadata.annotations["divvy.dev/gpu"]`
};
struct PodAmount {
  std::uint64_t amount = 0;
  std::string field;  // `spec.containers[0].resources.limits["divvy.dev/gpu"]`
};

struct PodContainer {
  std::string name;
  std::string field;  // "spec.containers[0]"
  ContainerKind kind = ContainerKind::kMain;
  const boost::json::object* limits = nullptr;
  const boost::json::object* requests = nullptr;
  std::map<std::string, std::string, std::less<>> environment = {};  // plain values only

  [[nodiscard]] bool names(std::string_view resource) const;
  // Its limit, or its request where there is no limit; nothing where there is neither. The two have
  // to be the same, as Kubernetes wants it of extended resources.
  [[nodiscard]] Result<std::optional<PodAmount>> amount(std::string_view resource) const;
};

class PodView {
 public:
  [[nodiscard]] static Result<PodView> create(const boost::json::object& pod);

  [[nodiscard]] std::optional<PodText> annotation(std::string_view name) const;
  [[nodiscard]] std::optional<PodText> label(std::string_view name) const;
  [[nodiscard]] const boost::json::object& annotations() const { return *annotations_; }

  // Main containers first, then sidecars and init containers in the order of the pod.
  [[nodiscard]] const std::vector<PodContainer>& containers() const { return containers_; }
  [[nodiscard]] const PodContainer* container(std::string_view name) const;
  // The field of the first container that names one of them.
  [[nodiscard]] std::optional<std::string> first_resource(
      std::span<const std::string_view> resources) const;
  // The field of the first of the annotations that is there.
  [[nodiscard]] std::optional<std::string> first_annotation(
      std::span<const std::string_view> names) const;

  [[nodiscard]] std::string_view scheduler() const { return scheduler_; }
  [[nodiscard]] std::optional<std::int64_t> priority() const { return priority_; }

 private:
  PodView() = default;
  Status read_metadata(const boost::json::object& pod);
  Status read_containers(const boost::json::object& spec, std::string_view list, bool init);

  const boost::json::object* annotations_ = nullptr;
  const boost::json::object* labels_ = nullptr;
  std::vector<PodContainer> containers_;
  std::string_view scheduler_;
  std::optional<std::int64_t> priority_;
};

}  // namespace divvy::kube
