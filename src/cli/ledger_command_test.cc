#include "cli/ledger_command.h"

#include <gtest/gtest.h>

#include <sstream>

#include "cli/app.h"
#include "cli/testing.h"

namespace divvy::cli {
namespace {

constexpr const char* kStart =
    R"({"apiVersion":"divvy/v1","kind":"Ledger","file":"/var/lib/divvy/ledger","bytes":2048,)"
    R"("records":5,"snapshotRecords":2,"lastSequence":17,"currentBoot":true,"nextId":9,)"
    R"("tenants":[{"id":7,"name":"train-7","user":"alice","uid":1000,"pid":4242,)"
    R"("sinceUnix":1700000000,"class":"batch","mode":"timeslice","command":"python \u001b[31m",)"
    R"("slices":[{"gpu":"GPU-00000000-0000-4000-8000-000000000001","memoryBytes":1073741824,)"
    R"("shareThousandths":300,"capped":true}]}],)"
    R"("cordons":[{"gpu":"GPU-00000000-0000-4000-8000-000000000002","reason":"fan",)"
    R"("draining":true,"sinceUnix":1700000000}],)";
const std::string kClean =
    std::string(kStart) + R"("tornBytes":0,"tornOffset":null,"damage":null})";
const std::string kTorn = std::string(kStart) + R"("tornBytes":9,"tornOffset":2039,"damage":null})";
const std::string kDamaged =
    std::string(kStart) +
    R"("tornBytes":0,"tornOffset":null,"damage":{"offset":77,"reason":"record 3 cannot be read"}})";

struct Ran {
  int status = -1;
  std::string out;
  std::string err;
};

Ran run_with(const std::vector<std::string>& arguments, const Result<std::string>& document) {
  std::ostringstream out;
  std::ostringstream err;
  Services services{.version = "1", .inventory = [] { return test_node(test_parts(1)); }};
  services.ledger = [&](const std::string&) { return document; };
  Terminal terminal;
  terminal.environment = [](const char*) { return std::nullopt; };
  const int status = run(arguments, services, terminal, out, err);
  return {status, out.str(), err.str()};
}

TEST(LedgerCommand, ShowsWhoHoldsWhat) {
  const Ran shown = run_with({"ledger", "show"}, kClean);
  EXPECT_EQ(shown.status, kExitOk);
  for (const char* piece : {"train-7", "alice", "GPU-00000000-0000-4000-8000-000000000001",
                            "0.3 cap", "1.0 GiB", "4242", "2023-11-14 22:13:20", "fan"}) {
    EXPECT_NE(shown.out.find(piece), std::string::npos) << piece << "\n" << shown.out;
  }
  EXPECT_EQ(shown.out.find('\x1b'), std::string::npos) << "a command cannot control the terminal";
  const Ran document = run_with({"ledger", "show", "-o", "json"}, kClean);
  EXPECT_NE(document.out.find("\"kind\": \"Ledger\""), std::string::npos) << document.out;
}

TEST(LedgerCommand, VerifyTellsCleanFromDamaged) {
  const Ran clean = run_with({"ledger", "verify"}, kClean);
  EXPECT_EQ(clean.status, 0);
  EXPECT_NE(clean.out.find("2 records in the snapshot, 3 appended, the last is number 17"),
            std::string::npos)
      << clean.out;
  EXPECT_NE(clean.out.find("\nclean\n"), std::string::npos) << clean.out;
  const Ran torn = run_with({"ledger", "verify"}, kTorn);
  EXPECT_EQ(torn.status, 0) << "nothing that was acknowledged is missing";
  EXPECT_NE(torn.out.find("9 bytes at the end, from byte 2039"), std::string::npos) << torn.out;
  for (const char* format : {"table", "json"}) {
    const Ran damaged = run_with({"ledger", "verify", "-o", format}, kDamaged);
    EXPECT_EQ(damaged.status, 1);
    EXPECT_NE(damaged.out.find("record 3 cannot be read"), std::string::npos) << damaged.out;
  }
}

TEST(LedgerCommand, SaysWhatIsInTheWay) {
  const Ran none = run_with({"ledger", "show"}, err(ErrorCode::kNotFound, "there is no ledger"));
  EXPECT_EQ(none.status, kExitNotFound);
  EXPECT_NE(none.err.find("there is no ledger"), std::string::npos);
  EXPECT_EQ(run_with({"ledger", "verify"}, err(ErrorCode::kPermissionDenied, "no")).status,
            kExitDenied);
  EXPECT_EQ(run_with({"ledger", "verify"}, std::string("{}")).status, kExitError);
  EXPECT_EQ(run_with({"ledger", "show", "-o", "wide"}, kClean).status, kExitUsage);
  const Ran help = run_with({"ledger"}, kClean);
  EXPECT_EQ(help.status, 0);
  EXPECT_NE(help.out.find("verify"), std::string::npos);
}

}  // namespace
}  // namespace divvy::cli
