// Any pod is a request, none, or one sentence that says what is wrong; a request that was read is
// written as an annotation and read back as the same.
#include <boost/json.hpp>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "kube/claim_request.h"
#include "kube/json_patch.h"
#include "kube/pod_patch.h"
#include "kube/pod_request.h"
#include "kube/request_annotation.h"

namespace kube = divvy::kube;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  (void)kube::read_request_annotation(bytes);
  boost::system::error_code code;
  const boost::json::value document = boost::json::parse(bytes, code);
  if (code || !document.is_object()) return 0;
  const boost::json::object& pod = document.get_object();
  (void)kube::annotated_request(pod);
  (void)kube::read_claim_request(pod, {});
  for (const auto meaning : {kube::NvidiaGpus::kWhole, kube::NvidiaGpus::kReplicas}) {
    const kube::DialectPolicy policy{.nvidia_gpus = meaning, .replicas_per_gpu = 7};
    auto request = kube::read_pod_request(pod, policy);
    if (!request) {
      DIVVY_CHECK(!request.error().message.empty());
      continue;
    }
    if (!*request) continue;
    const auto again = kube::read_request_annotation(kube::write_request_annotation(**request));
    DIVVY_CHECK(again.has_value() && again->spec == (*request)->spec);
    const auto patch = kube::pod_patch(pod, **request, {.claim = "divvy-a", .scheduler = "s"});
    DIVVY_CHECK(kube::apply_json_patch(document, patch).has_value());
  }
  return 0;
}
