#include "api/sign_in.h"

#include <algorithm>

#include "api/answers.h"
#include "api/session.h"
#include "base/log.h"
#include "base/text.h"
#include "oidc/secrets.h"
#include "oidc/url.h"
#include "store/audit_table.h"
#include "store/subject_table.h"
#include "store/token_secret.h"

namespace divvy::api {
namespace {

constexpr std::size_t kMostWaiting = 1'000;
constexpr std::size_t kMostWaitingOfCaller = 100;
constexpr std::size_t kMostUsed = 20'000;
constexpr std::chrono::minutes kBrowserTime{10};
// oidc::read_device_answer() lets no code live longer.
constexpr std::chrono::hours kLongestSignIn{1};
constexpr std::chrono::hours kLongestInBrowser{12};
constexpr std::chrono::seconds kSlowDown{5};

}  // namespace

SignIn::SignIn(std::unique_ptr<oidc::Provider> provider, SignInOptions options,
               store::Database& database, const Clock& clock)
    : provider_(std::move(provider)),
      options_(std::move(options)),
      database_(database),
      clock_(clock),
      browsers_(kMostWaiting, kMostWaitingOfCaller),
      devices_(kMostWaiting, kMostWaitingOfCaller),
      used_(kMostUsed) {}

Result<std::unique_ptr<SignIn>> SignIn::create(std::unique_ptr<oidc::Provider> provider,
                                               SignInOptions options, store::Database& database,
                                               const Clock& clock) {
  options.rules.issuer = provider->options().issuer;
  if (options.provider_name.empty()) {
    DIVVY_TRY(issuer, oidc::Url::parse(options.rules.issuer));
    options.provider_name = issuer.host;
  }
  if (!options.console_url.empty()) {
    auto console = oidc::Url::parse(options.console_url);
    if (!console) return err(with_context(std::move(console).error(), "sign_in.console_url"));
    if (console->path != "/" || !console->query.empty()) {
      return err(ErrorCode::kInvalidArgument,
                 "sign_in.console_url: the console is at https://HOST:PORT, with nothing behind");
    }
    options.console_url = console->origin();
  }
  return std::unique_ptr<SignIn>(
      new SignIn(std::move(provider), std::move(options), database, clock));
}

Error SignIn::refused(Error error, const net::Caller& caller, std::string_view user) {
  if (refusals_.allow(caller.who(), clock_.now())) {
    log_warning("sign-in refused",
                {{"from", caller.who()}, {"user", user}, {"reason", error.message}});
  }
  return error;
}

Result<SignIn::Browser> SignIn::begin_browser(const net::HttpRequest& request,
                                              const net::Caller& caller) {
  const std::string_view origin = request.header("origin");
  if (!is_own_origin(request) || (!origin.empty() && origin != options_.console_url)) {
    return err(ErrorCode::kFailedPrecondition, "open the console at {} to sign in with {}",
               options_.console_url, options_.provider_name);
  }
  DIVVY_TRY(state, oidc::random_text());
  DIVVY_TRY(nonce, oidc::random_text());
  DIVVY_TRY(verifier, oidc::random_text());
  DIVVY_TRY(secret, oidc::random_text());
  DIVVY_TRY(
      address,
      provider_->authorization_address(
          {.redirect = callback_url(), .state = state, .nonce = nonce, .verifier = verifier}));
  const TimePoint now = clock_.now();
  DIVVY_RETURN_IF_ERROR(browsers_.add(oidc::hash_of(state), caller.who(),
                                      {.secret_hash = oidc::hash_of(secret),
                                       .nonce = std::move(nonce),
                                       .verifier = std::move(verifier),
                                       .began = clock_.wall_now()},
                                      now + kBrowserTime, now));
  return Browser{std::move(address), std::move(secret)};
}

Result<store::NewToken> SignIn::finish_browser(const Callback& callback,
                                               const net::Caller& caller) {
  // Whatever comes of it, this state is used up.
  const auto begun = browsers_.take(oidc::hash_of(callback.state), clock_.now());
  if (!begun ||
      !store::equal_in_constant_time(oidc::hash_of(callback.secret), begun->secret_hash)) {
    return err(refused({ErrorCode::kNotFound, "no sign-in of this browser waits for that (state)"},
                       caller));
  }
  if (const Status own = provider_->check_issuer(callback.issuer); !own) {
    return err(refused(own.error(), caller));
  }
  if (callback.code.empty()) {
    const bool said_no = callback.error == "access_denied";
    return err(refused({said_no ? ErrorCode::kCancelled : ErrorCode::kUnavailable,
                        fmt::format("the provider gave no code ({})",
                                    escape_for_terminal(callback.error.substr(0, 60)))},
                       caller));
  }
  const auto token = provider_->redeem_code(callback.code, callback_url(), begun->verifier);
  if (!token) return err(refused(token.error(), caller));
  return exchange(*token, {.nonce = begun->nonce, .began = begun->began},
                  {.action = "finishBrowserSignIn",
                   .object = "/v1/sign-in/callback",
                   .label = kBrowserLabel,
                   .longest = kLongestInBrowser},
                  caller);
}

Result<SignIn::Device> SignIn::begin_device(const net::Caller& caller) {
  DIVVY_TRY(login, oidc::random_text());
  DIVVY_RETURN_IF_ERROR(devices_.check_room(caller.who(), clock_.now()));
  const WallTime began = clock_.wall_now();
  DIVVY_TRY(answer, provider_->begin_device());
  const TimePoint now = clock_.now();
  DIVVY_RETURN_IF_ERROR(devices_.add(oidc::hash_of(login), caller.who(),
                                     {.device_code = answer.device_code,
                                      .interval = answer.interval,
                                      .ask_at = now,
                                      .began = began},
                                     now + answer.expires_in, now));
  return Device{std::move(login), std::move(answer)};
}

Result<SignIn::DeviceState> SignIn::finish_device(const std::string& login,
                                                  const net::Caller& caller) {
  const std::string key = oidc::hash_of(login);
  const TimePoint now = clock_.now();
  bool is_due = false;
  const auto begun = devices_.update(key, now, [&](DeviceEntry& entry) {
    is_due = entry.ask_at <= now;
    if (is_due) entry.ask_at = now + entry.interval;
  });
  if (!begun) {
    return err(ErrorCode::kNotFound, "no sign-in waits by that; it may have expired: begin again");
  }
  DeviceState state{.token = std::nullopt, .poll = begun->interval};
  if (!is_due) return state;
  const auto asked = provider_->ask_device(begun->device_code);
  if (!asked) {
    const ErrorCode code = asked.error().code;
    // What may pass is asked for again.
    if (code == ErrorCode::kUnavailable || code == ErrorCode::kTimeout) return err(asked.error());
    (void)devices_.take(key, now);
    return err(refused(asked.error(), caller));
  }
  if (asked->slow_down) {
    (void)devices_.update(key, now, [&](DeviceEntry& entry) {
      entry.interval = std::min(entry.interval + kSlowDown, std::chrono::seconds(60));
      entry.ask_at = now + entry.interval;
      state.poll = entry.interval;
    });
  }
  if (!asked->id_token) return state;
  if (!devices_.take(key, now)) {
    return err(ErrorCode::kNotFound, "somebody else has asked for the token of this sign-in");
  }
  DIVVY_TRY(token, exchange(*asked->id_token, {.nonce = std::nullopt, .began = begun->began},
                            {.action = "finishDeviceSignIn",
                             .object = "/v1/sign-in/device/token",
                             .label = "divvy login",
                             .longest = options_.token_time},
                            caller));
  state.token = std::move(token);
  return state;
}

Result<store::NewToken> SignIn::exchange(std::string_view id_token,
                                         const oidc::Provider::Occasion& occasion,
                                         const Visit& visit, const net::Caller& caller) {
  const auto claims = provider_->verify(id_token, occasion);
  if (!claims) return err(refused(claims.error(), caller));
  const WallTime wall = clock_.wall_now();
  const TimePoint now = clock_.now();
  // No sign-in that could take it again lives longer: verify() refuses what is older than it.
  const WallTime until = std::min(claims->expires + oidc::kClockLeeway,
                                  claims->issued + 2 * oidc::kClockLeeway + kLongestSignIn);
  // Of what was signed: signatures of one text can differ.
  const std::string key = oidc::hash_of(id_token.substr(0, id_token.rfind('.')));
  const Status first = used_.add(key, {}, true, now + std::max(until - wall, Duration(1)), now);
  if (!first) {
    return err(
        refused({ErrorCode::kPermissionDenied, first.error().code == ErrorCode::kAlreadyExists
                                                   ? "the ID token is refused: it was used already"
                                                   : first.error().message},
                caller));
  }

  store::AuditRow row;
  row.at = wall;
  DIVVY_TRY(bound, database_.read([&](store::Connection& connection) {
    return store::SubjectTable(connection).find(options_.rules.issuer, claims->subject);
  }));
  row.user = bound ? *bound : user_name_of(*claims, options_.rules).value_or("");
  row.caller =
      caller.local() ? fmt::format("{}, pid {}", caller.who(), caller.pid()) : caller.who();
  row.action = visit.action;
  row.object = visit.object;
  store::NewToken made;
  const Status done = database_.commit([&](store::Connection& connection) -> Status {
    DIVVY_TRY(person, admit(connection, *claims, options_.rules, wall));
    const Duration longest = std::min(options_.token_time, visit.longest);
    DIVVY_TRY(
        token,
        store::PeopleTable(connection).add_token(person.name, visit.label, wall, wall + longest));
    made = std::move(token);
    store::AuditRow entry = row;
    entry.user = person.name;
    entry.status = 201;
    entry.outcome = "/v1/tokens/" + made.record.id;
    DIVVY_TRY(number, store::AuditTable(connection).add(entry));
    (void)number;
    return {};
  });
  if (done) {
    log_info("sign-in", {{"from", caller.who()}, {"user", made.record.user}, {"by", visit.label}});
    return made;
  }
  // Somebody whom the provider vouches for: that they came is worth an entry.
  if (!row.user.empty()) {
    row.status = http_status(done.error().code);
    row.outcome = escape_for_terminal(done.error().message.substr(0, 300));
    database_.later([row](store::Connection& connection) -> Status {
      DIVVY_TRY(number, store::AuditTable(connection).add(row));
      (void)number;
      return {};
    });
  }
  return err(refused(done.error(), caller, row.user));
}

}  // namespace divvy::api
