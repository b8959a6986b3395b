#include <boost/json.hpp>

#include "api/answers.h"
#include "api/handlers.h"
#include "api/query.h"
#include "api/session.h"
#include "api/sign_in.h"
#include "model/json_fields.h"

namespace divvy::api {
namespace {

namespace json = boost::json;

// As of sessions. Lax, because the provider's page sends the browser back.
constexpr std::string_view kSecureCookie = "__Host-divvy-sign-in";
constexpr std::string_view kPlainCookie = "divvy-sign-in";
constexpr int kCookieSeconds = 600;

std::string_view cookie_name(const Parts& parts) {
  return parts.cookies_need_tls ? kSecureCookie : kPlainCookie;
}

Status needs_provider(const Parts& parts) {
  if (parts.sign_in != nullptr) return {};
  return err(ErrorCode::kUnsupported,
             "this daemon has no provider to sign in with (sign_in.issuer); use a token");
}

Status needs_browser(const Parts& parts) {
  DIVVY_RETURN_IF_ERROR(needs_provider(parts));
  if (parts.sign_in->serves_browsers()) return {};
  return err(ErrorCode::kUnsupported,
             "browsers do not sign in here (sign_in.console_url); use a token, or `divvy login`");
}

// What the page says stands there (web/src/pages/sign_in.tsx); the log has the details.
std::string_view reason_of(ErrorCode code) {
  switch (code) {
    case ErrorCode::kNotFound:
      return "expired";
    case ErrorCode::kCancelled:
      return "cancelled";
    case ErrorCode::kPermissionDenied:
      return "refused";
    default:
      return "provider";
  }
}

// Behind the '#' it stays in the browser. Never to another place than our own page.
net::HttpResponse to_console(const std::string& fragment) {
  net::HttpResponse response{303, "text/plain", ""};
  response.headers["location"] = "/#" + fragment;
  response.headers["cache-control"] = "no-store";
  response.headers["referrer-policy"] = "no-referrer";
  return response;
}

Result<SignIn::Callback> read_callback(const StrangerCall& call) {
  DIVVY_TRY(query, Query::parse(call.request.query));
  SignIn::Callback callback;
  callback.code = query.text("code").value_or("");
  callback.state = query.text("state").value_or("");
  callback.issuer = query.text("iss");
  callback.error = query.text("error").value_or("");
  callback.secret = cookie_in(call.request, cookie_name(call.parts));
  return callback;
}

}  // namespace

Answer offer_sign_in(const StrangerCall& call) {
  const SignIn* const sign_in = call.parts.sign_in;
  return answer(200, headed("SignInOffer",
                            {{"provider", sign_in != nullptr ? json::value(sign_in->provider_name())
                                                             : json::value(nullptr)},
                             {"browser", sign_in != nullptr && sign_in->serves_browsers()}}));
}

Answer begin_browser_sign_in(const StrangerCall& call) {
  DIVVY_RETURN_IF_ERROR(needs_browser(call.parts));
  DIVVY_TRY(begun, call.parts.sign_in->begin_browser(call.request, call.caller));
  net::HttpResponse response = answer(201, headed("BrowserSignIn", {{"address", begun.address}}));
  response.headers["set-cookie"] =
      fmt::format("{}={}; Path=/; HttpOnly; SameSite=Lax; Max-Age={}{}", cookie_name(call.parts),
                  begun.secret, kCookieSeconds, call.parts.cookies_need_tls ? "; Secure" : "");
  response.headers["cache-control"] = "no-store";
  return response;
}

Answer finish_browser_sign_in(const StrangerCall& call) {
  DIVVY_RETURN_IF_ERROR(needs_browser(call.parts));
  const auto callback = read_callback(call);
  if (!callback) return to_console("sign-in=expired");
  const auto token = call.parts.sign_in->finish_browser(*callback, call.caller);
  if (!token) return to_console(fmt::format("sign-in={}", reason_of(token.error().code)));
  const Session session = make_session(token->text, call.parts.cookies_need_tls);
  net::HttpResponse response = to_console("key=" + session.key);
  response.headers["set-cookie"] = session.cookie;
  return response;
}

Answer begin_device_sign_in(const StrangerCall& call) {
  DIVVY_RETURN_IF_ERROR(needs_provider(call.parts));
  DIVVY_TRY(begun, call.parts.sign_in->begin_device(call.caller));
  const oidc::DeviceAnswer& device = begun.answer;
  net::HttpResponse response = answer(
      201, headed("DeviceSignIn", {{"address", device.address},
                                   {"completeAddress", device.complete_address.empty()
                                                           ? json::value(nullptr)
                                                           : json::value(device.complete_address)},
                                   {"userCode", device.user_code},
                                   {"login", begun.login},
                                   {"expiresSeconds", device.expires_in.count()},
                                   {"pollSeconds", device.interval.count()}}));
  response.headers["cache-control"] = "no-store";
  return response;
}

Answer finish_device_sign_in(const StrangerCall& call) {
  DIVVY_RETURN_IF_ERROR(needs_provider(call.parts));
  DIVVY_TRY(body, model::parse_json(call.request.body));
  model::JsonFields fields(body);
  std::string login;
  fields.need("login", login);
  DIVVY_RETURN_IF_ERROR(fields.finish());
  DIVVY_TRY(state, call.parts.sign_in->finish_device(login, call.caller));
  json::object document{{"state", state.token ? "done" : "waiting"}};
  if (state.token) {
    document["user"] = state.token->record.user;
    document["token"] = state.token->text;
    document["expiresUnixMilliseconds"] =
        std::chrono::floor<std::chrono::milliseconds>(*state.token->record.expires)
            .time_since_epoch()
            .count();
  } else {
    document["pollSeconds"] = state.poll.count();
  }
  net::HttpResponse response = answer(200, headed("DeviceSignInState", std::move(document)));
  response.headers["cache-control"] = "no-store";
  return response;
}

}  // namespace divvy::api
