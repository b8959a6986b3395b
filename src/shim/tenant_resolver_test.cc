// How a program finds functions: by dlsym, by cuGetProcAddress, with versions and stream flags.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <string>

#include "shim/tenant_fixture.h"

namespace divvy::shim {
namespace {

std::string library_of(void* function) {
  Dl_info info{};
  if (function == nullptr || dladdr(function, &info) == 0) return "nowhere";
  const std::string path = info.dli_fname;
  return path.substr(path.rfind('/') + 1);
}
std::string name_of(void* function) {
  Dl_info info{};
  if (function == nullptr || dladdr(function, &info) == 0 || info.dli_sname == nullptr) return {};
  return info.dli_sname;
}

void* ask(const Cuda& cu, const char* base, int version, cuuint64_t flags) {
  void* found = nullptr;
  CUdriverProcAddressQueryResult status{};
  cu.cuGetProcAddress_v2(base, &found, version, flags, &status);
  return found;
}

TEST(TenantResolver, DlsymGivesOursForWhatIsHookedAndTheirsForTheRest) {
  if (!inside_tenant()) return run_as_tenant({.limits = {kGiB}});
  const Cuda cu;
  EXPECT_EQ(library_of(dlsym(cu.library, "cuMemAlloc_v2")), "libdivvy.so");
  EXPECT_EQ(library_of(dlsym(cu.library, "cuGetProcAddress_v2")), "libdivvy.so");
  EXPECT_EQ(library_of(dlsym(cu.library, "cuDriverGetVersion")), "libcuda.so.1");
  EXPECT_EQ(dlsym(cu.library, "cuNoSuchFunction"), nullptr);
  EXPECT_NE(std::string(dlerror()).find("cuNoSuchFunction"), std::string::npos);
}

TEST(TenantResolver, AnswersAsIfTheShimWereNotThere) {
  if (!inside_tenant()) return run_as_tenant({.limits = {kGiB}});
  EXPECT_EQ(dlsym(RTLD_DEFAULT, "cuInit"), nullptr) << "the driver is not loaded yet";
  EXPECT_EQ(library_of(dlsym(RTLD_NEXT, "getpid")), "libc.so.6");
  EXPECT_EQ(library_of(dlsym(RTLD_DEFAULT, "dlsym")), "libdivvy.so");
  void* driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
  ASSERT_NE(driver, nullptr);
  EXPECT_EQ(library_of(dlsym(RTLD_DEFAULT, "cuInit")), "libdivvy.so");
  EXPECT_EQ(library_of(dlsym(RTLD_NEXT, "cuInit")), "libdivvy.so");
  // The simulated driver has no symbol versions, so a question with one finds nothing.
  EXPECT_EQ(dlvsym(driver, "cuInit", "NOT_A_VERSION"), nullptr);
  EXPECT_EQ(library_of(dlvsym(RTLD_DEFAULT, "getpid", "GLIBC_2.2.5")), "libc.so.6");
}

TEST(TenantResolver, PerThreadStreamProgramsGetPerThreadFunctions) {
  if (!inside_tenant()) return run_as_tenant({.limits = {kGiB}});
  const Cuda cu;
  ASSERT_EQ(cu.cuInit(0), CUDA_SUCCESS);
  constexpr cuuint64_t kPerThread = CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;
  constexpr cuuint64_t kLegacy = CU_GET_PROC_ADDRESS_LEGACY_STREAM;
  for (const char* base : {"cuLaunchKernel", "cuLaunchKernelEx", "cuGraphLaunch", "cuMemAllocAsync",
                           "cuMemAllocFromPoolAsync", "cuStreamSynchronize"}) {
    SCOPED_TRACE(base);
    void* own = ask(cu, base, 12000, kPerThread);
    void* legacy = ask(cu, base, 12000, kLegacy);
    EXPECT_EQ(name_of(own), std::string(base) + "_ptsz");
    EXPECT_EQ(name_of(legacy), base);
    EXPECT_EQ(library_of(own), "libdivvy.so");
    EXPECT_EQ(library_of(legacy), "libdivvy.so");
    EXPECT_EQ(ask(cu, base, 12000, 0), legacy);
  }
}

TEST(TenantResolver, VersionsComeOutAsTheDriverGivesThem) {
  if (!inside_tenant()) return run_as_tenant({.limits = {kGiB}});
  const Cuda cu;
  ASSERT_EQ(cu.cuInit(0), CUDA_SUCCESS);
  EXPECT_EQ(name_of(ask(cu, "cuCtxCreate", 3020, 0)), "cuCtxCreate_v2");
  EXPECT_EQ(name_of(ask(cu, "cuCtxCreate", 12050, 0)), "cuCtxCreate_v4");
  EXPECT_EQ(name_of(ask(cu, "cuMemAlloc", 12000, 0)), "cuMemAlloc_v2");
  EXPECT_EQ(name_of(ask(cu, "cuGetProcAddress", 11030, 0)), "cuGetProcAddress");
  EXPECT_EQ(name_of(ask(cu, "cuGetProcAddress", 12000, 0)), "cuGetProcAddress_v2");
  EXPECT_EQ(library_of(ask(cu, "cuDeviceGetName", 12000, 0)), "libcuda.so.1");
  EXPECT_EQ(ask(cu, "cuNoSuchFunction", 12000, 0), nullptr);
  void* found = nullptr;
  EXPECT_EQ(cu.cuGetProcAddress("cuNoSuchFunction", &found, 12000, 0), CUDA_ERROR_NOT_FOUND);
  EXPECT_EQ(cu.cuGetProcAddress("cuMemAlloc", &found, 12000, 0), CUDA_SUCCESS);
  EXPECT_EQ(library_of(found), "libdivvy.so");
}

}  // namespace
}  // namespace divvy::shim
