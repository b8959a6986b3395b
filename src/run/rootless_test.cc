#include "run/rootless.h"

#include <sys/stat.h>
#include <unistd.h>

#include <fstream>

#include "run/testing.h"

namespace divvy::run {
namespace {

namespace fs = std::filesystem;

// A machine that allows everything, of files in a folder; each test takes one thing away.
class Rootless : public ::testing::Test {
 protected:
  void SetUp() override {
    const fs::path base = folder_.path();
    for (const char* name : {"bin", "sys/user", "sys/kernel", "sys/net/ipv4", "home"}) {
      fs::create_directories(base / name);
    }
    program("podman");
    program("slirp4netns");
    write("sys/user/max_user_namespaces", "15000\n");
    write("subuid", "bob:100000:65536\nada:165536:65536\n");
    write("subgid", "ada:165536:65536\n");
    user_.uid = ::geteuid() + 1'000;
    user_.gid = ::getegid() + 1'000;
    user_.account = {"ada", (base / "home").string(), "/bin/sh"};
    fs::permissions(base / "home", fs::perms(0777));
    files_.subuid = base / "subuid";
    files_.subgid = base / "subgid";
    files_.sysctl = base / "sys";
    files_.apparmor = base / "apparmor";
    files_.path = "/no/such:" + (base / "bin").string();
    settings_.per_user = true;
    settings_.run_folder = (base / "users").string();
  }
  void write(const char* name, const std::string& text) const {
    std::ofstream(folder_.path() / name) << text;
  }
  void program(const char* name) const {
    const fs::path path = folder_.path() / "bin" / name;
    std::ofstream(path) << "#!/bin/sh\n";
    fs::permissions(path, fs::perms(0755));
  }
  // Empty: it can be.
  std::string refusal(const DaemonRights& daemon = {0, false}) const {
    const Status checked = check_container(user_, container_, settings_, daemon, files_);
    if (checked) return {};
    EXPECT_EQ(checked.error().code, ErrorCode::kFailedPrecondition);
    return checked.error().message;
  }
  static bool has(const std::string& text, const std::string& piece) {
    return text.find(piece) != std::string::npos;
  }

  MembersFolder folder_;
  MachineUser user_;
  model::ContainerSpec container_;
  PodmanSettings settings_;
  MachineFiles files_;
};

TEST_F(Rootless, IsForEveryUserWithARangeOfNumbers) {
  EXPECT_EQ(refusal(), "");
  const auto user = rootless_user(user_, settings_, files_);
  ASSERT_TRUE(user);
  EXPECT_EQ(user->uids, (std::vector<sys::IdRange>{{165'536, 65'536}}));
  EXPECT_EQ(user->uid, user_.uid);
}

TEST_F(Rootless, SaysWhatIsMissingAndWhatToDo) {
  write("subgid", "bob:100000:65536\n");
  const std::string range = refusal();
  EXPECT_TRUE(has(range, "ada has no range of numbers in")) << range;
  EXPECT_TRUE(has(range, "subgid, which containers need")) << range;
  EXPECT_TRUE(has(range, "usermod --add-subuids 231072-296607 --add-subgids 231072-296607 ada`"))
      << range;
  write("subgid", "ada:165536:65536\n");

  user_.account.home = "/nonexistent";
  EXPECT_TRUE(has(refusal(), "cannot write to /nonexistent; an administrator names a folder"));
  settings_.storage = "/srv/images";
  EXPECT_EQ(refusal(), "");

  write("sys/user/max_user_namespaces", "0\n");
  EXPECT_TRUE(has(refusal(), "`sysctl user.max_user_namespaces=15000`")) << refusal();
  write("sys/user/max_user_namespaces", "9\n");
  write("sys/kernel/unprivileged_userns_clone", "0\n");
  EXPECT_TRUE(has(refusal(), "`sysctl kernel.unprivileged_userns_clone=1`")) << refusal();
  write("sys/kernel/unprivileged_userns_clone", "1\n");
  write("sys/kernel/apparmor_restrict_unprivileged_userns", "1\n");
  EXPECT_TRUE(has(refusal(), "AppArmor profile")) << refusal();
  write("apparmor", "divvyd (unconfined)\n");
  EXPECT_EQ(refusal(), "");

  fs::remove(folder_.path() / "bin/podman");
  EXPECT_TRUE(has(refusal(), "install the package podman")) << refusal();
}

TEST_F(Rootless, PublishesPortsWhereItCan) {
  container_.ports = {{80, 80}};
  EXPECT_TRUE(has(refusal(), "80 is a port of root's; take one from 1024 on")) << refusal();
  write("sys/net/ipv4/ip_unprivileged_port_start", "80\n");
  EXPECT_EQ(refusal(), "");
  fs::remove(folder_.path() / "bin/slirp4netns");
  EXPECT_TRUE(has(refusal(), "install the package slirp4netns or passt")) << refusal();
  program("pasta");
  EXPECT_EQ(refusal(), "");
}

TEST_F(Rootless, IsNotForRootWhosePodmanNeedsEverything) {
  user_.uid = 0;
  user_.account.name = "root";
  EXPECT_TRUE(has(refusal(), "submit as another user, or an administrator lets it keep them"))
      << refusal();
  EXPECT_EQ(refusal({0, true}), "");
  user_.uid = 1'000;
  settings_.per_user = false;
  EXPECT_TRUE(has(refusal(), "privileges: {drop: false}")) << refusal();
  EXPECT_EQ(refusal({0, true}), "");
  // A daemon that is not root's has its own podman.
  EXPECT_EQ(refusal({1'000, false}), "");
}

TEST_F(Rootless, HasAFolderThatNobodyElseCanReplace) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root to give a folder away";
  const auto podman = rootless_podman(user_, settings_, files_);
  ASSERT_TRUE(podman) << podman.error().message;
  const std::string own = settings_.run_folder + "/" + std::to_string(user_.uid);
  EXPECT_EQ(podman->environment.at("XDG_RUNTIME_DIR"), own);
  struct stat info{};
  ASSERT_EQ(::stat(own.c_str(), &info), 0);
  EXPECT_EQ(info.st_uid, user_.uid);
  EXPECT_EQ(info.st_mode & 0777U, 0700U);
  ASSERT_EQ(::stat(settings_.run_folder.c_str(), &info), 0);
  EXPECT_EQ(info.st_uid, 0U);
  EXPECT_EQ(info.st_mode & 0022U, 0U);
  // Nothing that somebody else may have put there is believed.
  fs::permissions(settings_.run_folder, fs::perms(0777));
  EXPECT_EQ(rootless_podman(user_, settings_, files_).error().code, ErrorCode::kPermissionDenied);
  fs::permissions(settings_.run_folder, fs::perms(0711));
  fs::remove(own);
  fs::create_directory_symlink(folder_.path() / "home", own);
  EXPECT_FALSE(rootless_podman(user_, settings_, files_));
}

// What the user has pulled or built in a shell is there for jobs.
TEST_F(Rootless, SharesTheImagesOfTheUsersOwnPodman) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root to look as somebody else";
  settings_.storage = (folder_.path() / "images").string();
  const auto shares = [this] {
    const auto podman = rootless_podman(user_, settings_, files_);
    EXPECT_TRUE(podman) << podman.error().message;
    return podman && podman->program.back() == "additionalimagestore=" + user_.account.home +
                                                   "/.local/share/containers/storage";
  };
  EXPECT_FALSE(shares());
  const fs::path own = folder_.path() / "home/.local/share/containers/storage/overlay-images";
  fs::create_directories(own);
  std::ofstream(own / "images.lock") << "";
  EXPECT_TRUE(shares());
  // The driver vfs cannot.
  fs::create_directories(fs::path(settings_.storage) / std::to_string(user_.uid) / "vfs-images");
  fs::permissions(fs::path(settings_.storage) / std::to_string(user_.uid), fs::perms(0711));
  EXPECT_FALSE(shares());
}

}  // namespace
}  // namespace divvy::run
