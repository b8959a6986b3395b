// Tenants, GPUs and refusals as JSON in the schema divvy/v1: fields are added, never renamed or
// taken away. Pure, callable from any thread.
#pragma once

#include <boost/json/fwd.hpp>
#include <string>
#include <vector>

#include "base/result.h"
#include "node/slices.h"
#include "node/tenants.h"

namespace divvy::api {

[[nodiscard]] boost::json::object tenant_document(const node::TenantView& view);
[[nodiscard]] boost::json::object grant_document(const node::Grant& grant);
[[nodiscard]] boost::json::array gpu_documents(const node::Slices& slices);
// "Does not fit", with who holds what.
[[nodiscard]] boost::json::object no_fit_document(const node::NoFit& answer,
                                                  const std::vector<node::TenantView>& tenants);
// RFC 9457.
[[nodiscard]] boost::json::object problem_document(int status, std::string_view title,
                                                   std::string_view detail);
[[nodiscard]] int http_status(ErrorCode code);

}  // namespace divvy::api
