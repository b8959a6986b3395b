#include "agent/order_documents.h"

#include <gtest/gtest.h>

#include "agent/message_buffer.h"
#include "model/testing.h"

namespace divvy::agent {
namespace {

const model::MemberKey kKey{model::JobId(7), 2, 1};

model::Slice slice() {
  return *model::Slice::create(model::test_uuid(1), gib(10), Share(300), model::ShareKind::kCap);
}

model::JobSpec spec() {
  model::JobSpec spec(*model::Request::parse("2.5"));
  spec.name = "train";
  spec.command = {"python", "train.py", "--text=\"a b\"\n"};
  spec.environment = {{"A", "1"}};
  return spec;
}

std::vector<Message> one_of_each() {
  model::MemberReport report;
  report.key = kKey;
  report.phase = model::MemberPhase::kEnded;
  report.end = model::MemberEnd{
      WallTime(std::chrono::seconds(5)), 3, 9, "out of memory", {Duration(7), mib(1), gib(2)}};
  report.pid = 77;
  report.begun = true;
  report.without = "no limit";
  MachineGpu gpu{.uuid = model::test_uuid(2)};
  gpu.index = 3;
  gpu.model = "H200";
  gpu.memory = gib(140);
  gpu.resting = "is cordoned";
  gpu.lost = true;
  gpu.nvlink_island = 1;
  const MachineState state{"node-a", "10.0.0.7", 16'000, gib(64), mib(256), {gpu}};
  HeldSlices held{.key = kKey, .holder = model::Holder::kSlice, .tenant = model::TenantId(4)};
  held.slices = {slice()};
  held.since = WallTime(std::chrono::seconds(9));
  GrantOrder grant{.key = kKey, .holder = model::Holder::kProcess};
  grant.slices = {slice(), slice()};
  grant.mode = model::GpuMode::kMps;
  grant.job_class = model::JobClass::kLatency;
  grant.user = {"ada", 1000, true};
  grant.caller = {8, 1000, 1001};
  StartOrder start(kKey, spec());
  start.task = model::ArrayTask{model::JobId(6), 3, 2};
  start.hosts = {"a", "b"};
  start.secrets = {{"HF_TOKEN", "hf_abc\n"}};
  start.slice = {{{"X", "y"}}, {"divvy.dev/slice=a"}, model::TenantId(9)};
  CheckOrder check{{"ada", std::nullopt, false}, std::nullopt, model::GpuMode::kMps};
  CheckOrder container = check;
  container.ulimits = {{"memlock", {64, model::Ulimit::kUnlimited}}};
  container.container.emplace();
  container.container->image = "pytorch";
  StreamOrder stream{.kind = StreamOrder::Kind::kExec, .key = kKey};
  stream.command = {"sh"};
  stream.since = WallTime(std::chrono::seconds(1));
  stream.channel = "0123";
  stream.keep = std::chrono::seconds(90);
  std::vector<Message> all{Hello{1, "node-a", "0.1"}, Orders{}, stream};
  const std::vector<Order> orders{
      grant,
      ReleaseOrder{kKey},
      AdoptOrder{model::TenantId(1), kKey},
      SignalOrder{kKey, 15},
      ReapOrder{},
      start,
      FindOrder{kKey},
      StopOrder{kKey, model::Seconds(30)},
      ForgetOrder{kKey},
      check,
      container,
      ActivityOrder{},
      ListOrder{},
      OutputSizesOrder{},
      ViewOrder{View::kSlice, "x"},
      WhyNotOrder(spec()),
      CheckHolderOrder{"n", {"0", "1"}},
      ProposeOrder{"3", {Share(100), gib(1), true, model::JobClass::kLatency}, {1, 2, 3}},
      ChangeOrder{model::TenantId(3), {slice()}, std::nullopt},
      GiveBackOrder{"a", true, {}},
      CordonOrder{"0", true, "fan", true, 600}};
  for (const Order& order : orders) all.emplace_back(NumberedOrder{all.size(), order});
  const std::vector<Answer> answers{Done{},
                                    start.slice,
                                    Released{gib(3)},
                                    Signalled{true},
                                    Found{report},
                                    Found{},
                                    Activity{{{kKey, 300}}},
                                    Listing{state, {report}, {held}},
                                    OutputSizes{{{kKey, mib(5)}}},
                                    Document{"{\"a\":1}"},
                                    Proposed{model::TenantId(2), kKey, {slice()}, {}}};
  for (const Answer& answer : answers) all.emplace_back(NumberedAnswer{all.size(), answer});
  all.emplace_back(NumberedAnswer{5, err(ErrorCode::kResourceExhausted, "full")});
  for (const News& news : std::vector<News>{
           MemberEnded{report}, HolderGone{kKey}, StateChanged{state},
           GpuEvent{3, WallTime(Duration(4)), "xid", 1, "GPU-1", "train", "suspect", "XID 79"},
           Reachable{false}}) {
    all.emplace_back(news);
  }
  return all;
}

TEST(OrderDocuments, EveryMessageIsReadAsItWasWritten) {
  for (const Message& message : one_of_each()) {
    const std::string text = write_message(message);
    const auto read = read_message(text);
    ASSERT_TRUE(read) << text << "\n" << read.error().message;
    EXPECT_EQ(*read, message) << text;
  }
}

TEST(OrderDocuments, WhatIsNoMessageIsRefused) {
  for (const char* text :
       {"", "[]", "{}", "{\"number\":1}", "{\"number\":1,\"order\":\"dance\",\"body\":{}}",
        "{\"number\":1,\"order\":\"find\",\"body\":{\"key\":\"job-07.1.0\"}}",
        "{\"number\":-1,\"order\":\"list\",\"body\":{}}",
        "{\"number\":1,\"order\":\"view\",\"body\":{\"view\":99,\"name\":\"\"}}",
        "{\"number\":1,\"error\":{\"code\":\"fun\",\"message\":\"\"}}", "{\"news\":\"x\"}"}) {
    EXPECT_FALSE(read_message(text)) << text;
  }
  // A part of a message is none, wherever it is cut.
  for (const Message& message : one_of_each()) {
    const std::string text = write_message(message);
    for (std::size_t size = 0; size < text.size(); size += 7) {
      EXPECT_FALSE(read_message(std::string_view(text).substr(0, size)));
    }
  }
}

TEST(MessageBuffer, GivesMessagesWholeAndInOrderHoweverTheyCome) {
  std::string sent;
  append_message(sent, "one");
  append_message(sent, "");
  append_message(sent, std::string(70'000, 'x'));
  std::string received;
  std::vector<std::size_t> sizes;
  for (const char byte : sent) {
    received += byte;
    for (;;) {
      const auto taken = take_message(received);
      ASSERT_TRUE(taken);
      if (!*taken) break;
      sizes.push_back((*taken)->size());
    }
  }
  EXPECT_EQ(sizes, (std::vector<std::size_t>{3, 0, 70'000}));
  std::string endless = "\xff\xff\xff\xff";
  EXPECT_FALSE(take_message(endless));
}

}  // namespace
}  // namespace divvy::agent
