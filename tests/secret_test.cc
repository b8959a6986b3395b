// Secrets through the real daemon: a job has them, and nothing that is kept does.
#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <fstream>

#include "job_machine.h"

namespace divvy::testing {
namespace {

namespace fs = std::filesystem;

constexpr const char* kValue = "hf_AbCdEf0123456789";

class SecretsSystem : public JobMachine {
 protected:
  void SetUp() override {
    Machine::SetUp();
    start_daemon();
  }
  Outcome set(const std::string& name, const std::string& value) {
    const fs::path file = folder() / "typed";
    std::ofstream(file) << value << "\n";
    Outcome done = divvy({"secret", "set", name, "--from-file", file.string()});
    fs::remove(file);
    return done;
  }
  // Says what it was given, without saying it.
  std::uint64_t submit_looking(const std::vector<std::string>& options) {
    std::vector<std::string> words = {"submit", "-o", "name", "-q", "--gpu", "0.3", "--cwd", "/"};
    words.insert(words.end(), options.begin(), options.end());
    for (const char* const word :
         {"--", "sh", "-c", "printf '%s' \"$HF_TOKEN\" | tr 'a-zA-Z0-9' 'b-zaB-ZA1-90'"}) {
      words.emplace_back(word);
    }
    const Outcome submitted = divvy(words);
    EXPECT_EQ(submitted.status, 0) << submitted.err;
    return submitted.status == 0 ? std::stoull(submitted.out) : 0;
  }
  std::string output(std::uint64_t id) { return divvy({"logs", "-f", std::to_string(id)}).out; }
  // Files of the daemon, its members and its users that hold this text.
  [[nodiscard]] std::vector<std::string> files_with(const std::string& text) const {
    std::vector<std::string> found;
    for (const auto& entry : fs::recursive_directory_iterator(folder())) {
      if (!entry.is_regular_file()) continue;
      std::ifstream file(entry.path(), std::ios::binary);
      const std::string all(std::istreambuf_iterator<char>(file), {});
      if (has(all, text)) found.push_back(entry.path().string());
    }
    return found;
  }
};

TEST_F(SecretsSystem, AJobHasItAndNoFileLogOrDescriptionDoes) {
  const Outcome kept = set("hub", kValue);
  ASSERT_EQ(kept.status, 0) << kept.err;
  EXPECT_EQ(kept.out, "secret hub is kept; --secret hub gives it to a job\n");
  stop_daemon(SIGKILL);
  start_daemon();
  const std::uint64_t job = submit_looking({"--secret", "HF_TOKEN=hub"});
  ASSERT_TRUE(becomes(job, "succeeded")) << history(job);
  EXPECT_EQ(output(job), "ig_BcDeFg1234567890\n");

  const std::string id = std::to_string(job);
  for (const std::vector<std::string>& words :
       std::vector<std::vector<std::string>>{{"describe", id},
                                             {"get", id, "-o", "json"},
                                             {"list", "--all", "-o", "yaml"},
                                             {"secret", "list"},
                                             {"secret", "list", "-o", "json"},
                                             {"events"},
                                             {"audit"}}) {
    const Outcome shown = divvy(words);
    EXPECT_EQ(shown.status, 0) << words[0] << shown.err;
    EXPECT_FALSE(has(shown.out + shown.err, kValue)) << words[0];
  }
  EXPECT_TRUE(has(divvy({"secret", "list"}).out, "hub"));
  EXPECT_TRUE(has(divvy({"describe", id}).out, "hub")) << "which one it got";
  EXPECT_FALSE(has(daemon_log(), kValue));
  EXPECT_EQ(divvy({"backup", (folder() / "backup.db").string()}).status, 0);
  stop_daemon(SIGTERM);
  EXPECT_EQ(files_with(kValue), std::vector<std::string>{});
  start_daemon();
}

TEST_F(SecretsSystem, RunsAndCommandsBesideAJob) {
  ASSERT_EQ(set("HF_TOKEN", kValue).status, 0);
  boost::json::object held = waiting("held");
  held["secrets"] = boost::json::object{{"HF_TOKEN", "HF_TOKEN"}};
  const std::uint64_t job = submit(held);
  ASSERT_TRUE(becomes(job, "running")) << history(job);
  // A later value is for later starts.
  ASSERT_EQ(set("HF_TOKEN", "another").status, 0);
  const Outcome inside =
      divvy({"exec", std::to_string(job), "--", "sh", "-c", "printf '%s' \"$HF_TOKEN\""});
  EXPECT_EQ(inside.out, kValue) << inside.err;
  EXPECT_EQ(divvy({"delete", std::to_string(job)}).status, 0);
}

TEST_F(SecretsSystem, WhatIsMissingOrWrongIsSaidBeforeAnythingRuns) {
  const Outcome unknown =
      divvy({"submit", "--secret", "HF_TOKEN", "--gpu", "0.3", "--cwd", "/", "--", "true"});
  EXPECT_EQ(unknown.status, 2) << unknown.err;
  EXPECT_TRUE(has(unknown.err, "divvy secret set HF_TOKEN makes one")) << unknown.err;
  const Outcome ours =
      divvy({"submit", "--secret", "LD_PRELOAD=x", "--gpu", "0.3", "--cwd", "/", "--", "true"});
  EXPECT_TRUE(has(ours.err, "secrets.LD_PRELOAD: this variable is Divvy's to set")) << ours.err;
  EXPECT_EQ(set("a b", "x").status, 2);
  EXPECT_EQ(set("EMPTY", "").status, 2);
  const Outcome bytes = set("BYTES", "\xff\xfe");
  EXPECT_EQ(bytes.status, 2);
  EXPECT_TRUE(has(bytes.err, "base64")) << bytes.err;
  EXPECT_EQ(divvy({"secret", "delete", "nothing"}).status, 3);
  EXPECT_TRUE(has(divvy({"secret", "list"}).out, "you have no secrets"));
}

}  // namespace
}  // namespace divvy::testing
