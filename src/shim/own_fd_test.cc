#include "shim/own_fd.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

namespace divvy::shim {
namespace {

int make_socket() { return socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0); }

TEST(OwnFd, IsClosedOnExec) {
  OwnFd own;
  EXPECT_EQ(own.get(), -1);
  EXPECT_FALSE(own.lost());
  own.take(make_socket());
  ASSERT_GE(own.get(), 3);
  EXPECT_EQ(fcntl(own.get(), F_GETFD), FD_CLOEXEC);
  own.close();
  EXPECT_EQ(own.get(), -1);
  EXPECT_FALSE(own.lost());
}

TEST(OwnFd, KnowsThatTheProgramHasClosedIt) {
  OwnFd own;
  own.take(make_socket());
  close(own.get());
  EXPECT_TRUE(own.lost());
  EXPECT_EQ(own.get(), -1);
}

TEST(OwnFd, DoesNotCloseAReusedDescriptor) {
  OwnFd own;
  own.take(make_socket());
  const int number = own.get();
  const int other = make_socket();
  ASSERT_EQ(dup2(other, number), number);
  EXPECT_TRUE(own.lost());
  own.close();
  EXPECT_GE(fcntl(number, F_GETFD), 0) << "the program's file is still open";
  close(number);
  close(other);
}

}  // namespace
}  // namespace divvy::shim
