// Any bytes are a review with an answer, or none; an answer is JSON, and a patch can be applied.
#include <boost/json.hpp>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "kube/admission.h"
#include "kube/admission_review.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const divvy::kube::AdmissionPolicy policy;
  for (const auto& answer :
       {divvy::kube::review_mutation(bytes, policy, divvy::kube::random_claim_name),
        divvy::kube::review_validation(bytes, policy)}) {
    if (!answer) {
      DIVVY_CHECK(!answer.error().message.empty());
      continue;
    }
    const auto response = boost::json::parse(*answer).at("response");
    DIVVY_CHECK(response.at("allowed").is_bool());
  }
  return 0;
}
