#include <boost/json.hpp>

#include "api/answers.h"
#include "api/handlers.h"
#include "control/secrets.h"
#include "model/json_fields.h"

namespace divvy::api {
namespace {

namespace json = boost::json;

Result<control::Secrets*> secrets_of(const Call& call) {
  if (call.parts.secrets != nullptr) return call.parts.secrets;
  return err(ErrorCode::kUnsupported, "this daemon keeps no secrets");
}

// Never what it holds.
json::object secret_document(const store::SecretRecord& secret) {
  return {{"name", secret.name},
          {"changedUnixMilliseconds",
           std::chrono::duration_cast<std::chrono::milliseconds>(secret.changed.time_since_epoch())
               .count()}};
}

}  // namespace

Answer list_secrets(const Call& call) {
  DIVVY_TRY(secrets, secrets_of(call));
  DIVVY_TRY(all, secrets->list(call.who.name));
  json::array items;
  for (const store::SecretRecord& secret : all) items.push_back(secret_document(secret));
  return answer(200, listed("SecretList", std::move(items)));
}

Answer put_secret(const Call& call, const std::string& name) {
  DIVVY_TRY(secrets, secrets_of(call));
  DIVVY_TRY(body, model::parse_json(call.request.body));
  model::JsonFields fields(body);
  std::string value;
  if (!fields.has("value")) fields.refuse("value", "what does it hold?");
  fields.read("value", value);
  DIVVY_RETURN_IF_ERROR(fields.finish());
  DIVVY_TRY(kept, secrets->set(call.who.name, name, value));
  return answer(200, headed("Secret", secret_document(kept)));
}

Answer delete_secret(const Call& call, const std::string& name) {
  DIVVY_TRY(secrets, secrets_of(call));
  DIVVY_RETURN_IF_ERROR(secrets->remove(call.who.name, name));
  return answer(200, headed("Removed", {{"name", name}, {"removed", true}}));
}

}  // namespace divvy::api
