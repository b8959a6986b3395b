// A path of the Kubernetes API, taken apart. Pure, callable from any thread.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "base/result.h"

namespace divvy::kube {

// "/apis/resource.k8s.io/v1/namespaces/a/resourceclaims/b/status?x=1" is the group and version
// "/apis/resource.k8s.io/v1", namespace "a", resource "resourceclaims", name "b", subresource
// "status", query {x: 1}. Without a name it is a collection; without a namespace it is
// cluster-scoped or, of a collection, all namespaces. A namespace itself has no namespace.
struct ResourcePath {
  std::string group_version;
  std::string resource;
  std::string space;  // The namespace
  std::string name;
  std::string subresource;
  std::map<std::string, std::string, std::less<>> query;

  [[nodiscard]] static Result<ResourcePath> parse(std::string_view text);

  // What the query says of this, or nothing.
  [[nodiscard]] std::string_view parameter(std::string_view key) const;
  // Group, version and resource: what objects of one kind have in common.
  [[nodiscard]] std::string kind_path() const { return group_version + "/" + resource; }
};

// For a name, a selector or a token inside a path or a query.
[[nodiscard]] std::string percent_encode(std::string_view text);
[[nodiscard]] Result<std::string> percent_decode(std::string_view text);

// `path` with one more parameter in its query.
[[nodiscard]] std::string with_parameter(std::string_view path, std::string_view key,
                                         std::string_view value);

}  // namespace divvy::kube
