#include "node/tenant_record.h"

#include "base/text.h"

namespace divvy::node {

std::string_view to_string(TenantClass tenant_class) {
  return tenant_class == TenantClass::kLatency ? "latency" : "batch";
}

Result<TenantClass> parse_tenant_class(std::string_view text) {
  const std::string word = to_lower(trim(text));
  if (word == "batch") return TenantClass::kBatch;
  if (word == "latency") return TenantClass::kLatency;
  return err(ErrorCode::kInvalidArgument, "there is no class \"{}\"; write batch or latency",
             escape_for_terminal(text.substr(0, 40)));
}

}  // namespace divvy::node
