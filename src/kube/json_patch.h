// The two kinds of patches that Divvy sends, applied to a document: JSON patch (RFC 6902) and merge
// patch (RFC 7386). Pure, callable from any thread.
#pragma once

#include <boost/json/value.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace divvy::kube {

// All operations or none: the document as it is after them. kInvalidArgument names the operation
// that failed and why, also for a `test`.
[[nodiscard]] Result<boost::json::value> apply_json_patch(boost::json::value document,
                                                          const boost::json::value& patch);

// Members that are null in the patch are removed; whatever is no object is replaced.
[[nodiscard]] boost::json::value apply_merge_patch(boost::json::value document,
                                                   const boost::json::value& patch);

// "metadata", "annotations", "divvy.dev/request" is "/metadata/annotations/divvy.dev~1request".
[[nodiscard]] std::string json_pointer(const std::vector<std::string_view>& steps);

}  // namespace divvy::kube
