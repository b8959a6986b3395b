#include "kube/credentials.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <fstream>

namespace divvy::kube {
namespace {

using ::testing::HasSubstr;

class CredentialsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (std::filesystem::temp_directory_path() / "divvy-kube-XXXXXX").string();
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  void write(const std::string& name, const std::string& text) const {
    std::ofstream(folder_ / name) << text;
  }
  // As Kubernetes does it: another file under the same name.
  void replace(const std::string& name, const std::string& text) const {
    write(name + ".new", text);
    std::filesystem::rename(folder_ / (name + ".new"), folder_ / name);
  }
  [[nodiscard]] Result<Credentials> load(const std::string& server, const std::string& user) const {
    write("config",
          "{current-context: c, contexts: [{name: c, context: {cluster: k, user: u}}], "
          "clusters: [{name: k, cluster: {server: '" +
              server + "', certificate-authority: ca.crt}}], users: [{name: u, user: " + user +
              "}]}");
    return load_kubeconfig(folder_ / "config");
  }

  std::filesystem::path folder_;
};

TEST_F(CredentialsTest, FilesAreRelativeToTheKubeconfig) {
  write("ca.crt", "authority");
  write("me.crt", "certificate");
  write("me.key", "key");
  const auto loaded = load("https://api.example:6443/clusters/a/",
                           "{client-certificate: me.crt, client-key: me.key}");
  ASSERT_TRUE(loaded.has_value()) << loaded.error().message;
  EXPECT_EQ(loaded->target.network, (net::TcpAddress{"api.example", 6443}));
  EXPECT_EQ(loaded->prefix, "/clusters/a");
  EXPECT_EQ(loaded->target.tls->authorities_pem, "authority");
  EXPECT_EQ(loaded->target.tls->client->certificate, "certificate");
  EXPECT_EQ(loaded->target.tls->client->key, "key");
  EXPECT_EQ(loaded->token, nullptr);
  EXPECT_EQ(loaded->space, "default");
}

TEST_F(CredentialsTest, ServersAsPeopleWriteThem) {
  write("ca.crt", "authority");
  EXPECT_EQ(load("https://h", "{token: t}")->target.network->port, 443);
  EXPECT_EQ(load("https://[::1]", "{token: t}")->target.network, (net::TcpAddress{"::1", 443}));
  EXPECT_EQ(load("https://[::1]:6443", "{token: t}")->target.network,
            (net::TcpAddress{"::1", 6443}));
  for (const char* server : {"h:6443", "ftp://h", "https://", "https://h:x", "https://:6443"}) {
    EXPECT_FALSE(load(server, "{token: t}").has_value()) << server;
  }
}

TEST_F(CredentialsTest, NothingSecretGoesInTheClear) {
  write("ca.crt", "authority");
  const auto refused = load("http://127.0.0.1:8001", "{token: secret-1}");
  ASSERT_FALSE(refused.has_value());
  EXPECT_THAT(refused.error().message, HasSubstr("use https"));
  EXPECT_THAT(refused.error().message, ::testing::Not(HasSubstr("secret-1")));
  const auto taken = load("http://127.0.0.1:8001", "{}");
  ASSERT_TRUE(taken.has_value()) << taken.error().message;
  EXPECT_FALSE(taken->target.tls.has_value());
}

TEST_F(CredentialsTest, AMissingFileIsNamed) {
  const auto refused = load("https://h", "{token: t}");
  ASSERT_FALSE(refused.has_value());
  EXPECT_THAT(refused.error().message, HasSubstr("ca.crt"));
  EXPECT_EQ(load_kubeconfig(folder_ / "nothing").error().code, ErrorCode::kNotFound);
  EXPECT_FALSE(load_kubeconfig(folder_).has_value());
}

TEST_F(CredentialsTest, ATokenThatWouldBeASecondHeaderIsRefused) {
  write("ca.crt", "authority");
  EXPECT_FALSE(load("https://h", "{token: \"a\\r\\nx: y\"}").has_value());
  write("token", "a\nb");
  EXPECT_FALSE(load("https://h", "{tokenFile: token}").has_value());
  write("token", " \n");
  EXPECT_FALSE(load("https://h", "{tokenFile: token}").has_value());
}

TEST_F(CredentialsTest, AsAPod) {
  write("ca.crt", "authority");
  write("token", "first\n");
  write("namespace", "divvy-system\n");
  const auto loaded = load_pod_credentials({"10.96.0.1", "443", folder_});
  ASSERT_TRUE(loaded.has_value()) << loaded.error().message;
  EXPECT_EQ(loaded->target.network, (net::TcpAddress{"10.96.0.1", 443}));
  EXPECT_EQ(loaded->space, "divvy-system");
  EXPECT_EQ(loaded->token->get(), "first");
  EXPECT_EQ(load_pod_credentials({"fd00::1", "443", folder_})->target.network->host, "fd00::1");
  const auto outside = load_pod_credentials({"", "", folder_});
  ASSERT_FALSE(outside.has_value());
  EXPECT_EQ(outside.error().code, ErrorCode::kNotFound);
}

TEST_F(CredentialsTest, ATokenThatIsReplacedIsReadAgain) {
  write("token", "first");
  const auto token = BearerToken::from_file(folder_ / "token");
  ASSERT_TRUE(token.has_value()) << token.error().message;
  EXPECT_EQ((*token)->get(), "first");
  replace("token", "second");
  EXPECT_EQ((*token)->get(), "second");
  std::filesystem::remove(folder_ / "token");
  EXPECT_EQ((*token)->get(), "second") << "a file that is away for a moment changes nothing";
  replace("token", "third");
  EXPECT_EQ((*token)->get(), "third");
}

}  // namespace
}  // namespace divvy::kube
