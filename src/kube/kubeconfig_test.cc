#include "kube/kubeconfig.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace divvy::kube {
namespace {

using ::testing::HasSubstr;

constexpr const char* kPlain = R"(
apiVersion: v1
kind: Config
current-context: admin@kind
contexts:
- name: other
  context: {cluster: kind, user: robot, namespace: gpus}
- name: admin@kind
  context: {cluster: kind, user: admin}
clusters:
- name: kind
  cluster:
    server: https://127.0.0.1:6443
    certificate-authority-data: Q0VSVElGSUNBVEU=
    tls-server-name: kubernetes
users:
- name: admin
  user: {client-certificate: admin.crt, client-key-data: S0VZ}
- name: robot
  user: {token: secret-1, tokenFile: /run/token}
)";

std::string with_user(const std::string& user) {
  return "{current-context: c, contexts: [{name: c, context: {cluster: k, user: u}}], clusters: "
         "[{name: k, cluster: {server: 'https://h'}}], users: [{name: u, user: " +
         user + "}]}";
}
std::string with_cluster(const std::string& cluster) {
  return "{current-context: c, contexts: [{name: c, context: {cluster: k}}], clusters: [{name: k, "
         "cluster: " +
         cluster + "}]}";
}
std::string refusal(const std::string& text, const std::string& context = {}) {
  const auto config = parse_kubeconfig(text, context);
  return config ? std::string("it was taken") : config.error().message;
}

TEST(Kubeconfig, ReadsTheCurrentContext) {
  const auto config = parse_kubeconfig(kPlain);
  ASSERT_TRUE(config.has_value()) << config.error().message;
  EXPECT_EQ(config->context, "admin@kind");
  EXPECT_EQ(config->server, "https://127.0.0.1:6443");
  EXPECT_EQ(config->tls_server_name, "kubernetes");
  EXPECT_EQ(config->authority.text, "CERTIFICATE");
  EXPECT_EQ(config->certificate.file, "admin.crt");
  EXPECT_EQ(config->key.text, "KEY");
  EXPECT_TRUE(config->token.empty());
  EXPECT_EQ(config->space, "default");
}

TEST(Kubeconfig, ReadsAContextByName) {
  const auto config = parse_kubeconfig(kPlain, "other");
  ASSERT_TRUE(config.has_value()) << config.error().message;
  EXPECT_EQ(config->space, "gpus");
  EXPECT_EQ(config->token.file, "/run/token") << "a file wins: it may be renewed";
  EXPECT_EQ(config->token.text, "");
  EXPECT_THAT(refusal(kPlain, "third"), HasSubstr("no context 'third'"));
}

TEST(Kubeconfig, AUserIsNotNeeded) {
  EXPECT_TRUE(parse_kubeconfig(with_cluster("{server: 'http://127.0.0.1:8001'}")).has_value());
}

TEST(Kubeconfig, RefusesWhatDivvyDoesNotDo) {
  EXPECT_THAT(refusal(with_user("{exec: {command: aws}}")), HasSubstr("exec"));
  EXPECT_THAT(refusal(with_user("{auth-provider: {name: gcp}}")), HasSubstr("auth-provider"));
  EXPECT_THAT(refusal(with_user("{username: a, password: secret-1}")), HasSubstr("password"));
  EXPECT_THAT(refusal(with_user("{token: t, as: root}")), HasSubstr("acts as another"));
  EXPECT_THAT(refusal(with_cluster("{server: 'https://h', insecure-skip-tls-verify: true}")),
              HasSubstr("certificate-authority"));
  EXPECT_EQ(refusal(with_cluster("{server: 'https://h', insecure-skip-tls-verify: false}")),
            "it was taken");
  EXPECT_THAT(refusal(with_cluster("{server: 'https://h', proxy-url: 'http://p'}")),
              HasSubstr("proxy-url"));
  EXPECT_THAT(refusal(with_user("{client-certificate: a}")), HasSubstr("needs both"));
}

TEST(Kubeconfig, RefusesWhatIsNone) {
  for (const char* text :
       {"", "[]", "word", "a: [", "{current-context: c}", "current-context: [c]",
        "{current-context: c, contexts: {name: c}}",
        "{current-context: c, contexts: [{name: c, context: 5}]}",
        "{current-context: c, contexts: [1, {name: c, context: {cluster: x}}]}"}) {
    EXPECT_FALSE(parse_kubeconfig(text).has_value()) << text;
  }
  EXPECT_FALSE(parse_kubeconfig(std::string(5U << 20U, ' ')).has_value());
  EXPECT_THAT(refusal(with_cluster("{server: 'https://h', certificate-authority-data: '!'}")),
              HasSubstr("base64"));
}

TEST(Kubeconfig, SecretsAreInNoMessage) {
  for (const std::string& text :
       {with_user("{token: secret-1, exec: {}}"), with_user("{client-key-data: 'secret-1!'}"),
        std::string("token: secret-1\n  - : ]"), std::string("\"secret-1")}) {
    EXPECT_THAT(refusal(text), ::testing::Not(HasSubstr("secret-1"))) << text;
  }
}

}  // namespace
}  // namespace divvy::kube
