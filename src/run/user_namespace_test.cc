#include "sys/user_namespace.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>

#include "run/child.h"
#include "run/testing.h"

namespace divvy::run {
namespace {

class UserNamespaces : public ::testing::Test {
 protected:
  void SetUp() override {
    if (::geteuid() != 0) GTEST_SKIP() << "needs root to become somebody else";
    user_.uid = 12'345;
    user_.gid = 12'346;
    user_.groups = {12'347};
    user_.uids = {{300'000, 1'000}, {400'000, 5}};
    user_.gids = {{500'000, 65'536}};
    auto made = sys::UserNamespace::create(user_);
    if (!made) GTEST_SKIP() << made.error().message;
    inside_ = std::make_shared<const sys::UserNamespace>(*std::move(made));
  }

  // What a shell in it writes to its output.
  std::string run(const std::string& script) {
    ChildPlan plan;
    plan.words = {"/bin/sh", "-c", script};
    plan.environment = {{"PATH", "/usr/bin:/bin"}};
    plan.uid = user_.uid;
    plan.gid = user_.gid;
    plan.groups = user_.groups;
    plan.inside = inside_;
    int ends[2];
    EXPECT_EQ(::pipe2(ends, O_CLOEXEC), 0);
    const UniqueFd reader(ends[0]);
    UniqueFd writer(ends[1]);
    plan.output = plan.error = writer.get();
    const auto child = start_child(plan);
    EXPECT_TRUE(child) << child.error().message;
    writer.reset();
    std::string text;
    char buffer[4096];
    for (ssize_t got = 0; (got = ::read(reader.get(), buffer, sizeof buffer)) > 0;) {
      text.append(buffer, static_cast<std::size_t>(got));
    }
    if (child) ::waitpid(*child, nullptr, 0);
    return text;
  }

  sys::NamespaceUser user_;
  std::shared_ptr<const sys::UserNamespace> inside_;
};

TEST_F(UserNamespaces, HoldTheUserAndTheRangesAndNobodyElse) {
  EXPECT_EQ(run("awk '{print $1, $2, $3}' /proc/self/uid_map; echo; "
                "awk '{print $1, $2, $3}' /proc/self/gid_map; id -u; id -g"),
            "0 12345 1\n1 300000 1000\n1001 400000 5\n\n0 12346 1\n1 500000 65536\n0\n0\n");
}

TEST_F(UserNamespaces, AreOneForAllThatEnterThem) {
  EXPECT_EQ(run("readlink /proc/self/ns/user /proc/self/ns/mnt"),
            run("readlink /proc/self/ns/user /proc/self/ns/mnt"));
  MembersFolder folder;
  ASSERT_EQ(::chown(folder.path().c_str(), user_.uid, user_.gid), 0);
  const std::string path = folder.path().string();
  EXPECT_EQ(run("mount -t tmpfs none " + path + " && echo x > " + path + "/f"), "");
  EXPECT_EQ(run("cat " + path + "/f"), "x\n");
  EXPECT_FALSE(std::filesystem::exists(folder.path() / "f")) << "it was mounted for everybody";
}

// Root inside is the user outside.
TEST_F(UserNamespaces, GiveNoRightsOutside) {
  MembersFolder folder;
  const std::string path = folder.path().string();
  std::ofstream(folder.path() / "secret") << "root's\n";
  std::filesystem::permissions(folder.path() / "secret", std::filesystem::perms(0600));
  EXPECT_EQ(
      run("cat " + path + "/secret 2>/dev/null; (echo x > " + path + "/new) 2>/dev/null; kill -0 " +
          std::to_string(::getpid()) + " 2>/dev/null || echo refused"),
      "refused\n");
  EXPECT_FALSE(std::filesystem::exists(folder.path() / "new"));
}

TEST_F(UserNamespaces, AreNotForRoot) {
  sys::NamespaceUser root = user_;
  root.uid = 0;
  EXPECT_FALSE(sys::UserNamespace::create(root));
  root = user_;
  root.gid = 0;
  EXPECT_FALSE(sys::UserNamespace::create(root));
}

}  // namespace
}  // namespace divvy::run
