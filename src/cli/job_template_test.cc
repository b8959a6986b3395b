#include "cli/job_template.h"

#include <gtest/gtest.h>

#include <boost/json.hpp>
#include <fstream>

#include "base/temporary_folder.h"
#include "cli/fake_daemon.h"
#include "model/job_document.h"

namespace divvy::cli {
namespace {

namespace json = boost::json;

constexpr const char* kTuning = R"(summary: Fine-tune a model
values:
  data:
  epochs: 3
  members: 2
job:
  name: tune
  gpu: 0.3
  members: "{members}"
  command: [python, "{lr}", "--data={data}", --epochs, "{epochs}", "${epochs} {}{"]
  environment: {DATA: "{data}", EPOCHS: "{epochs}"}
)";

JobTemplate tuning() { return read_template(kTuning, "tune", "tune.yaml").value(); }

TEST(JobTemplate, GapsAreFilledWithDefaultsAndWhatIsSet) {
  const auto file = fill_in(tuning(), {"data=/data/a b", "members=4"});
  ASSERT_TRUE(file) << file.error().message;
  const auto spec = model::read_job_spec(json::serialize(file->document()));
  ASSERT_TRUE(spec) << spec.error().message;
  EXPECT_EQ(spec->members(), 4U) << "a number, though it had to be quoted";
  EXPECT_EQ(spec->command, (std::vector<std::string>{"python", "{lr}", "--data=/data/a b",
                                                     "--epochs", "3", "$3 {}{"}));
  EXPECT_EQ(spec->environment.at("EPOCHS"), "3");
}

TEST(JobTemplate, AValueIsNotLookedAtAgain) {
  const auto file = fill_in(tuning(), {"data={epochs}", "epochs={data}"});
  ASSERT_TRUE(file) << file.error().message;
  const json::array& command = file->document().at("command").as_array();
  EXPECT_EQ(command.at(2), "--data={epochs}");
  EXPECT_EQ(command.at(4), "{data}");
}

TEST(JobTemplate, WhatIsSetWronglyIsSaid) {
  const auto refusal = [](const std::vector<std::string>& set) {
    return fill_in(tuning(), set).error().message;
  };
  EXPECT_EQ(refusal({}), "the template tune needs a value: --set data=...");
  EXPECT_EQ(refusal({"data"}), "--set: \"data\" is not KEY=VALUE");
  EXPECT_EQ(refusal({"date=x"}),
            "--set: the template tune has no value date; it has data, epochs, members");
}

TEST(JobTemplate, WhatIsWrongHasItsPlace) {
  const auto refusal = [](const std::string& text) {
    return read_template(text, "x", "x.yaml").error().message;
  };
  EXPECT_EQ(refusal("sumary: a\njob: {gpu: 1}"),
            "x.yaml:1:1: a template has no field sumary; did you mean summary?");
  EXPECT_EQ(refusal("values:\n  a: [1]\njob: {gpu: 1}"),
            "x.yaml:2:6: values.a: this has to be a text");
  EXPECT_TRUE(
      refusal("summary: a")
          .ends_with("the field job is missing: a job file, in which {KEY} stands for a value"));
  const auto made =
      read_template("values: {n: x}\njob:\n  gpu: 1\n  members: \"{n}\"", "x", "x.yaml");
  ASSERT_TRUE(made) << made.error().message;
  const auto file = fill_in(*made, {});
  const auto spec = model::read_job_spec(json::serialize(file->document()));
  EXPECT_TRUE(file->placed(spec.error()).message.starts_with("x.yaml:4:3: members: "))
      << file->placed(spec.error()).message;
}

class Templates : public ::testing::Test {
 protected:
  void SetUp() override {
    std::filesystem::create_directories(folder_ / "divvy/templates");
    write("tune", kTuning);
  }
  void write(const std::string& name, const std::string& text) const {
    std::ofstream(folder_ / "divvy/templates" / (name + ".yaml")) << text;
  }
  CliOutcome run(const std::vector<std::string>& arguments) {
    return run_divvy(arguments, daemon_.socket(), {{"XDG_CONFIG_HOME", folder_.string()}});
  }

  FakeDaemon daemon_;
  TemporaryFolder folder_;
};

TEST_F(Templates, AreListedWithTheirValues) {
  write("broken", "job: 3");
  const CliOutcome listed = run({"templates"});
  EXPECT_NE(listed.out.find("tune"), std::string::npos);
  EXPECT_NE(listed.out.find("data=, epochs=3, members=2"), std::string::npos) << listed.out;
  EXPECT_NE(listed.err.find("broken.yaml:1:6: job: this has the fields"), std::string::npos)
      << listed.err;
}

TEST_F(Templates, AreSubmittedWithOptionsBeforeThem) {
  daemon_.on("POST /v1/jobs", R"({"items":[{"id":17,"name":"tune","state":"queued"}]})", 201);
  const CliOutcome submitted = run({"submit", "--template", "tune", "--set", "data=/d", "--gpu",
                                    "0.5", "--", "python", "other.py"});
  ASSERT_EQ(submitted.status, 0) << submitted.err;
  const std::string asked = daemon_.last_asked();
  const json::value sent = json::parse(asked.substr(asked.find('{')));
  EXPECT_EQ(sent.at("gpu"), "0.5");
  EXPECT_EQ(sent.at("members"), 2);
  EXPECT_EQ(sent.at("command"), (json::array{"python", "other.py"}));
  EXPECT_EQ(sent.at("environment").at("DATA"), "/d");
}

TEST_F(Templates, WrongUsesAreRefused) {
  const CliOutcome unknown = run({"submit", "--template", "tuned"});
  EXPECT_EQ(unknown.status, 2);
  EXPECT_NE(unknown.err.find("there is no template tuned; did you mean tune?"), std::string::npos)
      << unknown.err;
  EXPECT_EQ(run({"submit", "--set", "a=b", "--", "true"}).status, 2);
  EXPECT_EQ(run({"submit", "--template", "tune", "-f", "job.yaml"}).status, 2);
  EXPECT_TRUE(daemon_.asked().empty());
}

}  // namespace
}  // namespace divvy::cli
