// Pods as tests write them.
#pragma once

#include <boost/json.hpp>
#include <initializer_list>
#include <string>
#include <utility>

namespace divvy::kube::testing {

using Texts = std::initializer_list<std::pair<std::string, std::string>>;

inline boost::json::object texts(Texts entries) {
  boost::json::object object;
  for (const auto& [key, value] : entries) object[key] = value;
  return object;
}

inline boost::json::object container(const std::string& name, Texts limits = {}) {
  boost::json::object document{{"name", name}, {"image", "debian:12"}};
  if (limits.size() > 0) {
    document["resources"] =
        boost::json::object{{"limits", texts(limits)}, {"requests", texts(limits)}};
  }
  return document;
}

struct PodParts {
  Texts annotations = {};
  Texts labels = {};
  boost::json::array containers = {container("main")};
  boost::json::array init_containers = {};
};

inline boost::json::object pod(PodParts parts) {
  boost::json::object metadata{{"generateName", "train-"}};
  if (parts.annotations.size() > 0) metadata["annotations"] = texts(parts.annotations);
  if (parts.labels.size() > 0) metadata["labels"] = texts(parts.labels);
  boost::json::object spec{{"containers", std::move(parts.containers)}};
  if (!parts.init_containers.empty()) spec["initContainers"] = std::move(parts.init_containers);
  return {{"apiVersion", "v1"},
          {"kind", "Pod"},
          {"metadata", std::move(metadata)},
          {"spec", std::move(spec)}};
}

// With one container, which asks for these.
inline boost::json::object pod_of(Texts limits, Texts annotations = {}) {
  return pod({.annotations = annotations, .containers = {container("main", limits)}});
}

}  // namespace divvy::kube::testing
