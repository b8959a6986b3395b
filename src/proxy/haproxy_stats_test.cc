#include "proxy/haproxy_stats.h"

#include <gtest/gtest.h>

namespace divvy::proxy {
namespace {

TEST(HaproxyStats, ColumnsAreFoundByTheirNames) {
  const auto lines = read_stat(
      "# pxname,svname,qcur,scur,stot,hrsp_5xx,qtime,ctime,rtime,\n"
      "f_8000_model,FRONTEND,,3,17,0,,,,\n"
      "s_model,j7,0,2,12,1,4,1,30,\n\n");
  ASSERT_TRUE(lines);
  ASSERT_EQ(lines->size(), 2U);
  EXPECT_EQ(lines->at(1), (StatLine{"s_model", "j7", 2, 12, 1, 35}));
}

TEST(HaproxyStats, TheStateOfServersSaysWhoMayBeAsked) {
  const auto servers = read_servers_state(
      "1\n"
      "# be_id be_name srv_id srv_name srv_addr srv_op_state srv_admin_state srv_uweight "
      "srv_iweight srv_time_since_last_change srv_check_status srv_check_result\n"
      "3 s_model 1 j1 127.0.0.1 2 8 100 100 0 15 3\n"
      "3 s_model 1 j2 127.0.0.1 0 1 100 100 0 8 2\n");
  ASSERT_TRUE(servers);
  ASSERT_EQ(servers->size(), 2U);
  EXPECT_EQ(servers->at(0), (ServerState{"s_model", "j1", true, false, true, true, 100}));
  EXPECT_EQ(servers->at(1), (ServerState{"s_model", "j2", false, true, false, false, 100}));
}

TEST(HaproxyStats, OldWorkersAreToldFromTheNewOne) {
  const auto found = read_processes(
      "#<PID>          <type>          <reloads>       <uptime>        <version>      \n"
      "10760           master          1 [failed: 0]   0d00h00m55s     2.6.12-1+deb12u4\n"
      "# workers\n"
      "11996           worker          0               0d00h00m01s     2.6.12-1+deb12u4\n"
      "# old workers\n"
      "10764           worker          1               0d00h00m55s     2.6.12-1+deb12u4\n"
      "# programs\n\n");
  ASSERT_TRUE(found);
  EXPECT_EQ(*found, (Processes{10760, 11996, {10764}}));
}

TEST(HaproxyStats, AnAnswerThatIsNoneIsRefused) {
  EXPECT_FALSE(read_stat("Permission denied\n"));
  EXPECT_FALSE(read_servers_state(""));
  EXPECT_FALSE(read_processes("1 master\n")) << "no signal is sent to that";
}

}  // namespace
}  // namespace divvy::proxy
