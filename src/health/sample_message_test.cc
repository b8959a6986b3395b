#include "health/sample_message.h"

#include <gtest/gtest.h>

#include "health/health_testing.h"

namespace divvy::health {
namespace {

// Another value in every field.
GpuSample full_sample() {
  GpuSample sample{.index = model::GpuIndex(3),
                   .uuid = model::test_uuid(3),
                   .taken = WallTime(Duration(1'768'000'000'123'456'789))};
  std::uint64_t next = 1;
  const auto fill = [&next](auto& field) {
    using Value = typename std::remove_reference_t<decltype(field)>::value_type;
    ++next;
    if constexpr (std::is_same_v<Value, bool>) {
      field = next % 2 == 0;
    } else if constexpr (std::is_same_v<Value, double>) {
      field = 1.0 / static_cast<double>(next);
    } else {
      field = Value(static_cast<std::uint32_t>(next));
    }
  };
  visit_fields(sample, fill);
  return sample;
}

TEST(SampleMessage, ASampleComesThroughWithEveryField) {
  const std::string text = write_message(SampleMessage{full_sample(), std::chrono::seconds(5)});
  EXPECT_LT(text.size(), kMaxSampleMessage);
  const auto message = read_message(text);
  ASSERT_TRUE(message);
  const auto& read = std::get<SampleMessage>(*message);
  EXPECT_EQ(read.next, std::chrono::seconds(5));
  EXPECT_EQ(read.sample.index, model::GpuIndex(3));
  EXPECT_EQ(read.sample.taken, full_sample().taken);
  EXPECT_EQ(read.sample.remap_failed, full_sample().remap_failed);
  EXPECT_EQ(read.sample.tensor_active, full_sample().tensor_active);
  EXPECT_EQ(write_message(*message), text);
}

TEST(SampleMessage, AMissingFieldStaysMissing) {
  const auto message = read_message(write_message(SampleMessage{healthy_sample(), {}}));
  ASSERT_TRUE(message);
  const GpuSample& sample = std::get<SampleMessage>(*message).sample;
  EXPECT_EQ(sample.temperature_c, 40U);
  EXPECT_EQ(sample.power_mw, std::nullopt);
  EXPECT_EQ(sample.remap_pending, false);
}

TEST(SampleMessage, XidsAndFailuresComeThrough) {
  const auto xid = read_message(write_message(XidMessage{model::test_uuid(1), 79}));
  ASSERT_TRUE(xid);
  EXPECT_EQ(std::get<XidMessage>(*xid).number, 79U);
  const auto failed = read_message(
      write_message(FailedMessage{model::test_uuid(1), std::chrono::seconds(1),
                                  FailedMessage::Kind::kResetRequired, "GPU requires reset"}));
  ASSERT_TRUE(failed);
  EXPECT_EQ(std::get<FailedMessage>(*failed).kind, FailedMessage::Kind::kResetRequired);
  EXPECT_EQ(std::get<FailedMessage>(*failed).words, "GPU requires reset");
}

TEST(SampleMessage, WhatIsNotExactlyOneMessageIsNothing) {
  const std::string uuid = model::test_uuid(0).str();
  const std::string good = write_message(SampleMessage{healthy_sample(), {}});
  const std::vector<std::string> wrong = {"",
                                          "sample",
                                          "xid " + uuid,
                                          "xid " + uuid + " -1",
                                          "xid " + uuid + " 79 ",
                                          "xid  " + uuid + " 79",
                                          "xid GPU-1 79",
                                          "hello " + uuid + " 1",
                                          good + " 1",
                                          good + " ",
                                          good.substr(0, good.size() - 2),
                                          "failed " + uuid + " 1 lost",
                                          "failed " + uuid + " 1 odd words",
                                          "failed " + uuid + " 99999999 lost words",
                                          std::string(5000, 'x')};
  for (const std::string& text : wrong) {
    EXPECT_FALSE(read_message(text)) << text;
  }
  std::string nan = write_message(SampleMessage{full_sample(), {}});
  nan.replace(nan.find(" 0."), 3, " nan");
  EXPECT_FALSE(read_message(nan));
}

TEST(SampleMessage, OrdersComeThrough) {
  const SamplerOrders orders{
      std::chrono::milliseconds(50),
      std::chrono::milliseconds(250),
      {{model::GpuIndex(0), model::test_uuid(0)}, {model::GpuIndex(7), model::test_uuid(7)}}};
  const auto read = read_orders(write_orders(orders));
  ASSERT_TRUE(read);
  EXPECT_EQ(read->idle_interval, std::chrono::milliseconds(250));
  ASSERT_EQ(read->gpus.size(), 2U);
  EXPECT_EQ(read->gpus[1].index, model::GpuIndex(7));
  EXPECT_EQ(read->gpus[1].uuid, model::test_uuid(7));
  for (const char* text :
       {"", "watch", "watch 1", "watch 1 2 x", "watch 1 2 0=GPU", "watch 1 2 =", "look 1 2"}) {
    EXPECT_FALSE(read_orders(text)) << text;
  }
}

}  // namespace
}  // namespace divvy::health
