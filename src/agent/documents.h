// The machine as JSON in the schema divvy/v1, as the API shows it: fields are added, never renamed
// or taken away. Pure, callable from any thread.
#pragma once

#include <boost/json/fwd.hpp>
#include <string>
#include <vector>

#include "agent/tenants.h"
#include "health/failing_tenants.h"
#include "health/gpu_sample.h"
#include "health/health_state.h"
#include "ledger/slices.h"

namespace divvy::agent {

[[nodiscard]] boost::json::object tenant_document(const TenantView& view);
// What it was granted, without how it uses it.
[[nodiscard]] boost::json::object grant_document(const Grant& grant);
// What it is as a tenant, and as a device of containers.
[[nodiscard]] boost::json::object slice_document(const TenantView& view);
[[nodiscard]] boost::json::array gpu_documents(const ledger::Slices& slices);
[[nodiscard]] boost::json::object health_document(const ledger::SharedGpu& gpu,
                                                  const health::GpuHealth& health,
                                                  const std::vector<health::HolderName>& holders,
                                                  const health::GpuSample* sample);
// "Does not fit", with who holds what, as a problem (RFC 9457).
[[nodiscard]] boost::json::object no_fit_document(const ledger::NoFit& answer,
                                                  const std::vector<TenantView>& tenants);

}  // namespace divvy::agent
