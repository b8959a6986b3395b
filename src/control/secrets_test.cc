#include "control/secrets.h"

#include <gtest/gtest.h>

#include "control/testing.h"

namespace divvy::control {
namespace {

using model::JobState;
using testing::TestDaemon;

NewJob job_with(std::map<std::string, std::string> secrets, const std::string& owner = "ada") {
  NewJob wanted(jobs::testing::spec(300));
  wanted.owner = owner;
  wanted.spec.secrets = std::move(secrets);
  return wanted;
}

class SecretsTest : public ::testing::Test {
 protected:
  TestDaemon daemon_;
  Secrets& secrets_ = *daemon_.secrets;
};

TEST_F(SecretsTest, AreListedByNameAndReplacedAndForgotten) {
  ASSERT_TRUE(secrets_.set("ada", "HF_TOKEN", "hf_1"));
  ASSERT_TRUE(secrets_.set("ada", "HF_TOKEN", "hf_2"));
  ASSERT_TRUE(secrets_.set("bob", "WANDB", "w"));
  ASSERT_EQ(secrets_.list("ada")->size(), 1U);
  EXPECT_EQ(secrets_.list("ada")->front().name, "HF_TOKEN");
  EXPECT_EQ(secrets_.open("ada", {{"A", "HF_TOKEN"}}),
            (std::map<std::string, std::string>{{"A", "hf_2"}}));
  EXPECT_EQ(secrets_.remove("ada", "WANDB").error().code, ErrorCode::kNotFound) << "bob's";
  ASSERT_TRUE(secrets_.remove("ada", "HF_TOKEN"));
  EXPECT_EQ(secrets_.remove("ada", "HF_TOKEN").error().code, ErrorCode::kNotFound);
}

TEST_F(SecretsTest, WhatNoVariableCanHoldIsRefused) {
  const auto refusal = [&](const std::string& name, const std::string& value) {
    const auto set = secrets_.set("ada", name, value);
    return set ? "" : set.error().message;
  };
  EXPECT_TRUE(refusal("../x", "v").starts_with("name: "));
  EXPECT_TRUE(refusal("", "v").starts_with("name: "));
  EXPECT_TRUE(refusal("A", "").starts_with("value: "));
  EXPECT_TRUE(refusal("A", std::string("a\0b", 3)).starts_with("value: "));
  EXPECT_TRUE(refusal("A", std::string(Secrets::kLongest + 1, 'x')).starts_with("value: "));
  EXPECT_EQ(refusal("A", std::string(Secrets::kLongest, 'x')), "");
}

TEST_F(SecretsTest, AUserHasABoundedNumberOfThem) {
  for (std::size_t i = 0; i < Secrets::kMostOfOneOwner; ++i) {
    ASSERT_TRUE(secrets_.set("ada", fmt::format("A{}", i), "v"));
  }
  EXPECT_EQ(secrets_.set("ada", "more", "v").error().code, ErrorCode::kFailedPrecondition);
  EXPECT_TRUE(secrets_.set("ada", "A7", "another value")) << "of one that is there";
  EXPECT_TRUE(secrets_.set("bob", "more", "v"));
}

TEST_F(SecretsTest, GoToTheMemberAndIntoNothingThatIsKept) {
  ASSERT_TRUE(secrets_.set("ada", "hub", "hf_1"));
  const auto submitted = daemon_.dispatcher->submit(job_with({{"HF_TOKEN", "hub"}}));
  ASSERT_TRUE(submitted) << submitted.error().message;
  // The value of when it starts.
  ASSERT_TRUE(secrets_.set("ada", "hub", "hf_2"));
  daemon_.settle();
  ASSERT_EQ(daemon_.runtime.started.size(), 1U);
  EXPECT_EQ(daemon_.runtime.started[0].secrets, (agent::Environment{{"HF_TOKEN", "hf_2"}}));
  EXPECT_FALSE(daemon_.runtime.started[0].spec.environment.contains("HF_TOKEN"));
  const model::Job job = daemon_.stored(submitted->jobs.front().id);
  EXPECT_EQ(job.spec.secrets, (std::map<std::string, std::string>{{"HF_TOKEN", "hub"}}));
}

TEST_F(SecretsTest, OfOthersAndThoseThatAreNotThereAreRefusedAtSubmit) {
  ASSERT_TRUE(secrets_.set("bob", "hub", "hf_bob"));
  const auto refused = daemon_.dispatcher->submit(job_with({{"HF_TOKEN", "hub"}}));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(refused.error().message,
            "secrets.HF_TOKEN: ada has no secret hub; divvy secret set hub makes one");
  daemon_.settle();
  EXPECT_TRUE(daemon_.runtime.started.empty());
}

TEST_F(SecretsTest, AJobWhoseSecretIsGoneFailsAndSaysWhichHoldingNothing) {
  ASSERT_TRUE(secrets_.set("ada", "hub", "hf_1"));
  const auto submitted = daemon_.dispatcher->submit(job_with({{"HF_TOKEN", "hub"}}));
  ASSERT_TRUE(submitted);
  ASSERT_TRUE(secrets_.remove("ada", "hub"));
  daemon_.settle();
  const model::Job job = daemon_.stored(submitted->jobs.front().id);
  EXPECT_EQ(job.state, JobState::kFailed);
  EXPECT_NE(job.history.back().reason.find("the secret hub of ada is gone"), std::string::npos)
      << job.history.back().reason;
  EXPECT_TRUE(daemon_.runtime.started.empty());
  EXPECT_TRUE(daemon_.machine.held().empty());
}

TEST_F(SecretsTest, AJobWaitsWhileTheKeyCannotBeRead) {
  namespace fs = std::filesystem;
  ASSERT_TRUE(secrets_.set("ada", "hub", "hf_1"));
  const auto key = daemon_.database->file().parent_path() / "secrets.key";
  daemon_.kill();
  fs::permissions(key, fs::perms(0644));
  daemon_.open();
  const auto submitted = daemon_.dispatcher->submit(job_with({{"HF_TOKEN", "hub"}}));
  ASSERT_TRUE(submitted) << submitted.error().message;
  const model::JobId job = submitted->jobs.front().id;
  daemon_.dispatcher->step();
  daemon_.dispatcher->wait_for_replies();
  EXPECT_TRUE(daemon_.machine.held().empty());
  EXPECT_TRUE(daemon_.runtime.started.empty());
  fs::permissions(key, fs::perms(0600));
  daemon_.clock.advance(std::chrono::seconds(60));
  daemon_.settle();
  EXPECT_EQ(daemon_.stored(job).state, JobState::kRunning)
      << daemon_.stored(job).history.back().reason;
  EXPECT_EQ(daemon_.stored(job).failures, 0U);
}

TEST_F(SecretsTest, AreThereAfterARestartAndClosedWithoutTheirKey) {
  ASSERT_TRUE(secrets_.set("ada", "hub", "hf_1"));
  const auto key = daemon_.database->file().parent_path() / "secrets.key";
  daemon_.kill();
  daemon_.open();
  EXPECT_EQ(daemon_.secrets->open("ada", {{"A", "hub"}}).value().at("A"), "hf_1");
  daemon_.kill();
  std::filesystem::remove(key);
  daemon_.open();
  const auto closed = daemon_.secrets->open("ada", {{"A", "hub"}});
  ASSERT_FALSE(closed);
  EXPECT_EQ(closed.error().message,
            "the secret hub of ada cannot be opened: it was sealed with another key, or is "
            "damaged; divvy secret set hub makes it again");
}

}  // namespace
}  // namespace divvy::control
