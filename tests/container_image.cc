#include "container_image.h"

#include <fmt/format.h>
#include <sys/resource.h>

#include <boost/json.hpp>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <set>

namespace divvy::testing {
namespace {

namespace fs = std::filesystem;

// The libraries of a program, as the dynamic linker would load them.
std::set<fs::path> libraries_of(const std::string& program) {
  std::set<fs::path> result;
  const std::unique_ptr<FILE, int (*)(FILE*)> output(
      ::popen(("/usr/bin/ldd " + program).c_str(), "r"), ::pclose);
  char line[4096];
  while (output && ::fgets(line, sizeof line, output.get()) != nullptr) {
    const std::string text = line;
    const std::size_t start = text.find('/');
    if (start != std::string::npos) {
      result.insert(text.substr(start, text.find(' ', start) - start));
    }
  }
  return result;
}

// A limit that we can set: the container's may not be above our own.
std::string limit(const char* name, decltype(RLIMIT_NOFILE) what) {
  rlimit value{};
  ::getrlimit(what, &value);
  const auto number = std::min<rlim_t>(value.rlim_max, 20'000);
  return fmt::format("{}={}:{}", name, number, number);
}

}  // namespace

void make_container_image(const fs::path& image, const std::vector<std::string>& programs) {
  for (const char* name : {"bin", "usr/bin", "lib64", "etc", "tmp", "proc", "sys", "dev", "run"}) {
    fs::create_directories(image / name);
  }
  fs::copy_file("/bin/busybox", image / "bin/busybox");
  std::set<fs::path> libraries;
  for (const std::string& program : programs) {
    fs::copy_file(program, image / "usr/bin" / fs::path(program).filename());
    libraries.merge(libraries_of(program));
  }
  // The shim and the simulated driver name these as well, though they are empty today.
  for (const char* name : {"libdl.so.2", "libpthread.so.0", "librt.so.1", "libm.so.6"}) {
    for (const fs::path folder : {"/lib/x86_64-linux-gnu", "/lib/aarch64-linux-gnu", "/lib64"}) {
      if (fs::exists(folder / name)) libraries.insert(folder / name);
    }
  }
  for (const fs::path& library : libraries) {
    fs::create_directories(image / library.parent_path().relative_path());
    fs::copy_file(library, image / library.relative_path(), fs::copy_options::overwrite_existing);
  }
}

std::vector<std::string> container_run_options() {
  std::vector<std::string> words = {"--network", "none",
                                    "--ulimit",  limit("nofile", RLIMIT_NOFILE),
                                    "--ulimit",  limit("nproc", RLIMIT_NPROC)};
  for (const char* name : {"ASAN_OPTIONS", "TSAN_OPTIONS", "UBSAN_OPTIONS"}) {
    if (const char* value = std::getenv(name)) {
      words.insert(words.end(), {"--env", fmt::format("{}={}", name, value)});
    }
  }
#ifdef DIVVY_SANITIZED
  // Sanitizers look at their own process in ways that containers are usually denied.
  words.insert(words.end(), {"--cap-add", "SYS_PTRACE", "--security-opt", "seccomp=unconfined"});
#endif
  return words;
}

std::string podman_line(const fs::path& folder) {
  return fmt::format(
      "mkdir -p /run/cdi && mount --bind {0}/run/cdi /run/cdi && exec /usr/bin/podman --root "
      "{0}/storage --runroot {0}/runroot --tmpdir {0}/podman --storage-driver vfs --runtime runc "
      "--cgroup-manager cgroupfs --events-backend none",
      folder.string());
}

bool is_mps_client(const std::string& gpuload_info) {
  const boost::json::value report = boost::json::parse(gpuload_info);
  return report.at("attributes").at("mps").to_number<int>() == 1;
}

}  // namespace divvy::testing
