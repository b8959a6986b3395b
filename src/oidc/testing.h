// Keys that sign ID tokens, and a provider on a port of the loopback, for tests alone: it says what
// a test wants it to, right or wrong.
#pragma once

#include <gtest/gtest.h>
#include <openssl/core_names.h>
#include <openssl/ec.h>
#include <openssl/ecdsa.h>
#include <openssl/evp.h>
#include <openssl/rsa.h>

#include <boost/json.hpp>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/check.h"
#include "base/text.h"
#include "net/http.h"
#include "oidc/secrets.h"
#include "oidc/url.h"

namespace divvy::oidc::testing {

class TestKey {
 public:
  // Made once for all tests of a program: an RSA key takes a while.
  static const TestKey& rsa() {
    static const TestKey kKey("k-rsa", EVP_RSA_gen(2048));
    return kKey;
  }
  static const TestKey& other_rsa() {
    static const TestKey kKey("k-other", EVP_RSA_gen(2048));
    return kKey;
  }
  static const TestKey& p256() {
    static const TestKey kKey("k-ec", EVP_EC_gen("P-256"));
    return kKey;
  }

  [[nodiscard]] const std::string& id() const { return id_; }

  [[nodiscard]] boost::json::object jwk() const {
    boost::json::object made{{"kid", id_}, {"use", "sig"}};
    if (EVP_PKEY_is_a(key_.get(), "RSA") == 1) {
      made["kty"] = "RSA";
      made["n"] = number(OSSL_PKEY_PARAM_RSA_N, 0);
      made["e"] = number(OSSL_PKEY_PARAM_RSA_E, 0);
    } else {
      made["kty"] = "EC";
      made["crv"] = "P-256";
      made["x"] = number(OSSL_PKEY_PARAM_EC_PUB_X, 32);
      made["y"] = number(OSSL_PKEY_PARAM_EC_PUB_Y, 32);
    }
    return made;
  }

  // The compact form. `header` as it is: the algorithm in it need not be true.
  [[nodiscard]] std::string sign(const boost::json::object& header,
                                 const boost::json::object& claims) const {
    const std::string text = encode_base64url(boost::json::serialize(header)) + "." +
                             encode_base64url(boost::json::serialize(claims));
    const bool pss = header.contains("alg") && header.at("alg") == "PS256";
    return text + "." + encode_base64url(signature(text, pss));
  }
  [[nodiscard]] std::string sign(const std::string& algorithm,
                                 const boost::json::object& claims) const {
    return sign({{"alg", algorithm}, {"kid", id_}, {"typ", "JWT"}}, claims);
  }

 private:
  TestKey(std::string id, EVP_PKEY* key) : id_(std::move(id)), key_(key, EVP_PKEY_free) {
    DIVVY_CHECK(key_ != nullptr);
  }

  [[nodiscard]] std::string number(const char* name, std::size_t size) const {
    BIGNUM* value = nullptr;
    DIVVY_CHECK(EVP_PKEY_get_bn_param(key_.get(), name, &value) == 1);
    std::string bytes(std::max(size, static_cast<std::size_t>(BN_num_bytes(value))), '\0');
    BN_bn2binpad(value, reinterpret_cast<unsigned char*>(bytes.data()),
                 static_cast<int>(bytes.size()));
    BN_free(value);
    return encode_base64url(bytes);
  }

  [[nodiscard]] std::string signature(const std::string& text, bool pss) const {
    const std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context(EVP_MD_CTX_new(),
                                                                          EVP_MD_CTX_free);
    EVP_PKEY_CTX* settings = nullptr;
    DIVVY_CHECK(EVP_DigestSignInit(context.get(), &settings, EVP_sha256(), nullptr, key_.get()) ==
                1);
    if (pss && EVP_PKEY_is_a(key_.get(), "RSA") == 1) {
      EVP_PKEY_CTX_set_rsa_padding(settings, RSA_PKCS1_PSS_PADDING);
      EVP_PKEY_CTX_set_rsa_pss_saltlen(settings, RSA_PSS_SALTLEN_DIGEST);
    }
    const auto* const bytes = reinterpret_cast<const unsigned char*>(text.data());
    std::size_t size = 0;
    DIVVY_CHECK(EVP_DigestSign(context.get(), nullptr, &size, bytes, text.size()) == 1);
    std::string made(size, '\0');
    DIVVY_CHECK(EVP_DigestSign(context.get(), reinterpret_cast<unsigned char*>(made.data()), &size,
                               bytes, text.size()) == 1);
    made.resize(size);
    if (EVP_PKEY_is_a(key_.get(), "RSA") == 1) return made;
    const auto* der = reinterpret_cast<const unsigned char*>(made.data());
    ECDSA_SIG* const pair = d2i_ECDSA_SIG(nullptr, &der, static_cast<long>(made.size()));
    DIVVY_CHECK(pair != nullptr);
    std::string raw(64, '\0');
    auto* const out = reinterpret_cast<unsigned char*>(raw.data());
    BN_bn2binpad(ECDSA_SIG_get0_r(pair), out, 32);
    BN_bn2binpad(ECDSA_SIG_get0_s(pair), out + 32, 32);
    ECDSA_SIG_free(pair);
    return raw;
  }

  std::string id_;
  std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)> key_;
};

inline boost::json::object key_set(const std::vector<const TestKey*>& keys) {
  boost::json::array items;
  items.reserve(keys.size());
  for (const TestKey* const key : keys) items.push_back(key->jwk());
  return {{"keys", std::move(items)}};
}

// "a=b%20c" as names and values.
inline std::map<std::string, std::string> read_form(std::string_view text) {
  const auto plain = [](std::string_view part) {
    std::string made;
    for (std::size_t i = 0; i < part.size(); ++i) {
      const bool is_escape = part[i] == '%' && i + 2 < part.size();
      made += is_escape
                  ? static_cast<char>(std::stoi(std::string(part.substr(i + 1, 2)), nullptr, 16))
                  : part[i];
      if (is_escape) i += 2;
    }
    return made;
  };
  std::map<std::string, std::string> fields;
  for (const std::string_view pair : split(text, '&')) {
    const std::size_t middle = std::min(pair.find('='), pair.size());
    fields[plain(pair.substr(0, middle))] = plain(pair.substr(std::min(middle + 1, pair.size())));
  }
  return fields;
}

// Answers as a provider does. What a test changes, it changes while nobody asks.
class FakeProvider {
 public:
  using Form = std::map<std::string, std::string>;

  FakeProvider() {
    net::HttpServerOptions options;
    options.network = net::TcpAddress{"127.0.0.1", 0};
    auto made = net::HttpServer::create(
        std::move(options),
        [this](const net::HttpRequest& request, const net::Caller&) { return answer(request); });
    DIVVY_CHECK(made.has_value(), "{}", made.error().message);
    server_ = *std::move(made);
    issuer = fmt::format("http://127.0.0.1:{}", server_->port());
    document = {{"issuer", issuer},
                {"authorization_endpoint", issuer + "/auth"},
                {"token_endpoint", issuer + "/token"},
                {"device_authorization_endpoint", issuer + "/device"},
                {"jwks_uri", issuer + "/jwks"}};
    keys = key_set({&TestKey::rsa()});
    token = [](const Form&) { return net::HttpResponse{.status = 400, .body = "{}"}; };
    device = [this](const Form&) {
      return reply({{"device_code", "the-device-code"},
                    {"user_code", "ABCD-EFGH"},
                    {"verification_uri", issuer + "/activate"},
                    {"expires_in", 600},
                    {"interval", 5}});
    };
  }
  ~FakeProvider() { server_.reset(); }
  FakeProvider(const FakeProvider&) = delete;
  FakeProvider& operator=(const FakeProvider&) = delete;

  static net::HttpResponse reply(const boost::json::object& document, int status = 200) {
    return {.status = status, .body = boost::json::serialize(document)};
  }

  // How often it was asked for a path.
  [[nodiscard]] int asked(const std::string& path) const {
    const std::lock_guard lock(mutex_);
    const auto found = asked_.find(path);
    return found == asked_.end() ? 0 : found->second;
  }
  [[nodiscard]] net::HttpRequest last() const {
    const std::lock_guard lock(mutex_);
    return last_;
  }

  std::string issuer;
  boost::json::object document;
  boost::json::object keys;
  std::function<net::HttpResponse(const Form&)> token;
  std::function<net::HttpResponse(const Form&)> device;
  // Instead of all of it.
  std::function<net::HttpResponse(const net::HttpRequest&)> override{};

 private:
  net::HttpResponse answer(const net::HttpRequest& request) {
    {
      const std::lock_guard lock(mutex_);
      ++asked_[request.path];
      last_ = request;
    }
    if (override) return override(request);
    if (request.path == "/.well-known/openid-configuration") return reply(document);
    if (request.path == "/jwks") return reply(keys);
    if (request.path == "/token") return token(read_form(request.body));
    if (request.path == "/device") return device(read_form(request.body));
    return {.status = 404, .body = "{}"};
  }

  mutable std::mutex mutex_;
  std::map<std::string, int> asked_;
  net::HttpRequest last_;
  std::unique_ptr<net::HttpServer> server_;
};

}  // namespace divvy::oidc::testing
