// Modules, libraries, kernels, functions and the linker.
//
// A library is a module that belongs to no context, and a kernel is a function of one; the handles
// are interchangeable in launches, as with the real driver.
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <iterator>
#include <unordered_set>

#include "simgpu/driver.h"
#include "simgpu/memory.h"
#include "simgpu/module.h"

namespace divvy::simgpu {
namespace {

std::unordered_set<const Function*>& live_functions() {
  static auto* functions = new std::unordered_set<const Function*>();
  return *functions;
}
std::unordered_set<const Module*>& live_modules() {
  static auto* modules = new std::unordered_set<const Module*>();
  return *modules;
}

Module* resolve_module(const void* handle) {
  auto* module = static_cast<Module*>(const_cast<void*>(handle));
  return live_modules().contains(module) ? module : nullptr;
}

// Stops at a zero byte: an image given as text may be shorter than the mark.
bool is_elf(const char* image) { return strncmp(image, "\177ELF", 4) == 0; }

// The kernels of a cubin, by the names of its sections. Nothing is known of what they cost.
std::optional<PtxModule> read_cubin(const char* image) {
  struct Header {
    char ident[16];
    uint16_t type, machine;
    uint32_t version;
    uint64_t entry, phoff, shoff;
    uint32_t flags;
    uint16_t ehsize, phentsize, phnum, shentsize, shnum, shstrndx;
  };
  struct Section {
    uint32_t name, type;
    uint64_t flags, address, offset, size;
    uint32_t link, info;
    uint64_t align, entsize;
  };
  Header header;
  memcpy(&header, image, sizeof(header));
  constexpr uint16_t kCudaMachine = 190;
  if (header.machine != kCudaMachine || header.shentsize != sizeof(Section) ||
      header.shstrndx >= header.shnum) {
    return std::nullopt;
  }
  const auto section = [&](uint16_t index) {
    Section s;
    memcpy(&s, image + header.shoff + index * sizeof(Section), sizeof(s));
    return s;
  };
  const char* names = image + section(header.shstrndx).offset;
  PtxModule module;
  for (uint16_t i = 0; i < header.shnum; ++i) {
    const char* name = names + section(i).name;
    if (strncmp(name, ".text.", 6) != 0) continue;
    PtxKernel kernel;
    kernel.name = name + 6;
    module.kernels.push_back(std::move(kernel));
  }
  return module;
}

CUresult read_image(const void* image, PtxModule* out) {
  const char* text = static_cast<const char*>(image);
  if (is_elf(text)) {
    auto cubin = read_cubin(text);
    if (!cubin) return CUDA_ERROR_INVALID_IMAGE;
    *out = std::move(*cubin);
    return CUDA_SUCCESS;
  }
  // Text that is no PTX and bytes that are no image are told apart by their first characters.
  for (size_t i = 0; i < 16 && text[i] != 0; ++i) {
    const auto c = static_cast<unsigned char>(text[i]);
    if (c >= 0x7f || (c < 0x20 && c != '\n' && c != '\t' && c != '\r')) {
      return CUDA_ERROR_INVALID_IMAGE;
    }
  }
  auto ptx = parse_ptx(text);
  if (!ptx) {
    return text[0] == 0 || strstr(text, ".") == nullptr ? CUDA_ERROR_INVALID_IMAGE
                                                        : CUDA_ERROR_INVALID_PTX;
  }
  constexpr unsigned kNewestPtx = 90;  // what CUDA 13.0 knows
  if (ptx->version > kNewestPtx) return CUDA_ERROR_UNSUPPORTED_PTX_VERSION;
  *out = std::move(*ptx);
  return CUDA_SUCCESS;
}

Module* make_module(PtxModule&& ptx, Context* context) {
  auto* module = new Module();
  module->context = context;
  module->target = ptx.target;
  for (PtxKernel& kernel : ptx.kernels) {
    auto function = std::make_unique<Function>();
    function->module = module;
    function->kernel = std::move(kernel);
    live_functions().insert(function.get());
    module->functions[function->kernel.name] = std::move(function);
  }
  module->global_sizes = std::move(ptx.globals);
  live_modules().insert(module);
  return module;
}

CUresult load(void** out, const void* image, Context* context) {
  if (out == nullptr || image == nullptr) return CUDA_ERROR_INVALID_VALUE;
  PtxModule ptx;
  if (CUresult bad = read_image(image, &ptx)) return bad;
  *out = make_module(std::move(ptx), context);
  return CUDA_SUCCESS;
}

CUresult read_file(const char* path, std::string* bytes) {
  if (path == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::ifstream file(path, std::ios::binary);
  if (!file) return CUDA_ERROR_FILE_NOT_FOUND;
  bytes->assign(std::istreambuf_iterator<char>(file), {});
  // Images are read as text up to a zero byte; a cubin's header is read whole.
  bytes->append(64, '\0');
  return CUDA_SUCCESS;
}

void unload(Driver& driver, Module* module) {
  for (const auto& [name, function] : module->functions) live_functions().erase(function.get());
  for (const auto& [name, address] : module->globals) free_device(driver, address);
  live_modules().erase(module);
  delete module;
}

CUresult find_function(const Module* module, const char* name, Function** out) {
  if (name == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const auto found = module->functions.find(name);
  if (found == module->functions.end()) return CUDA_ERROR_NOT_FOUND;
  *out = found->second.get();
  return CUDA_SUCCESS;
}

CUresult find_global(Call& call, Module* module, const char* name, CUdeviceptr* address,
                     size_t* bytes) {
  if (name == nullptr || (address == nullptr && bytes == nullptr)) return CUDA_ERROR_INVALID_VALUE;
  const auto size = module->global_sizes.find(name);
  if (size == module->global_sizes.end()) return CUDA_ERROR_NOT_FOUND;
  if (address != nullptr) {
    uint64_t& at = module->globals[name];
    if (at == 0)
      at = alloc_device(call.driver, *call.context, size->second, MemoryKind::kGlobal, 256);
    if (at == 0) return CUDA_ERROR_OUT_OF_MEMORY;
    *address = at;
  }
  if (bytes != nullptr) *bytes = size->second;
  return CUDA_SUCCESS;
}

CUresult function_attribute(int* value, CUfunction_attribute attribute, const Function* function,
                            const GpuSpec& spec) {
  if (value == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (function == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  const int version = static_cast<int>(spec.compute_major * 10 + spec.compute_minor);
  switch (static_cast<int>(attribute)) {
    case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
      *value = 1024;
      break;
    case CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES:
      *value = static_cast<int>(function->kernel.static_shared);
      break;
    case CU_FUNC_ATTRIBUTE_NUM_REGS:
      *value = 32;
      break;
    case CU_FUNC_ATTRIBUTE_PTX_VERSION:
      *value = function->module->target != 0 ? static_cast<int>(function->module->target) : version;
      break;
    case CU_FUNC_ATTRIBUTE_BINARY_VERSION:
      *value = version;
      break;
    case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
      *value = function->max_dynamic_shared - static_cast<int>(function->kernel.static_shared);
      break;
    default:
      if (static_cast<unsigned>(attribute) >= CU_FUNC_ATTRIBUTE_MAX)
        return CUDA_ERROR_INVALID_VALUE;
      *value = function->attributes[attribute];
  }
  return CUDA_SUCCESS;
}

CUresult set_function_attribute(Function* function, CUfunction_attribute attribute, int value,
                                const GpuSpec& spec) {
  if (function == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (attribute == CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES) {
    const int most = (spec.compute_major >= 9   ? 232448
                      : spec.compute_major == 8 ? 166912
                                                : 98304) -
                     static_cast<int>(function->kernel.static_shared);
    if (value < 0 || value > most) return CUDA_ERROR_INVALID_VALUE;
    function->max_dynamic_shared = value + static_cast<int>(function->kernel.static_shared);
    return CUDA_SUCCESS;
  }
  if (attribute < CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT ||
      attribute >= CU_FUNC_ATTRIBUTE_MAX) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  function->attributes[attribute] = value;
  return CUDA_SUCCESS;
}

CUresult param_info(const Function* function, size_t index, size_t* offset, size_t* size) {
  if (offset == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (function == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (index >= function->kernel.params.size()) return CUDA_ERROR_INVALID_VALUE;
  *offset = function->kernel.params[index].offset;
  if (size != nullptr) *size = function->kernel.params[index].size;
  return CUDA_SUCCESS;
}

template <typename Handle>
CUresult enumerate(Handle* out, unsigned count, const Module* module) {
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (module == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  unsigned i = 0;
  for (const auto& [name, function] : module->functions) {
    if (i == count) break;
    out[i++] = reinterpret_cast<Handle>(function.get());
  }
  return CUDA_SUCCESS;
}

struct Link {
  std::string text;
};

}  // namespace

Function* resolve_function(CUfunction handle) {
  auto* function = reinterpret_cast<Function*>(handle);
  return live_functions().contains(function) ? function : nullptr;
}

SIMGPU_EXPORT CUresult cuModuleLoadDataEx(CUmodule* out, const void* image, unsigned int,
                                          CUjit_option*, void**) {
  Call call(Call::kContext);
  if (call.error != CUDA_SUCCESS) return call.error;
  return load(reinterpret_cast<void**>(out), image, call.context);
}
SIMGPU_EXPORT CUresult cuModuleLoadData(CUmodule* out, const void* image) {
  return cuModuleLoadDataEx(out, image, 0, nullptr, nullptr);
}
SIMGPU_EXPORT CUresult cuModuleLoadFatBinary(CUmodule* out, const void* image) {
  return cuModuleLoadDataEx(out, image, 0, nullptr, nullptr);
}
SIMGPU_EXPORT CUresult cuModuleLoad(CUmodule* out, const char* path) {
  std::string bytes;
  {
    Call call(Call::kContext);
    if (call.error != CUDA_SUCCESS) return call.error;
    if (CUresult bad = read_file(path, &bytes)) return bad;
  }
  return cuModuleLoadDataEx(out, bytes.data(), 0, nullptr, nullptr);
}
SIMGPU_EXPORT CUresult cuModuleUnload(CUmodule handle) {
  Call call(Call::kContext);
  if (call.error != CUDA_SUCCESS) return call.error;
  Module* module = resolve_module(handle);
  if (module == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (CUresult refused = refuse_while_capturing(call.driver)) return refused;
  // Launched kernels of the module may still run.
  call.driver.synchronize(call.lock, *call.context);
  unload(call.driver, module);
  return CUDA_SUCCESS;
}
SIMGPU_EXPORT CUresult cuModuleGetFunction(CUfunction* out, CUmodule handle, const char* name) {
  Call call(Call::kContext);
  if (call.error != CUDA_SUCCESS) return call.error;
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const Module* module = resolve_module(handle);
  if (module == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  return find_function(module, name, reinterpret_cast<Function**>(out));
}
SIMGPU_EXPORT CUresult cuModuleGetFunctionCount(unsigned int* count, CUmodule handle) {
  Call call(Call::kContext);
  if (call.error != CUDA_SUCCESS) return call.error;
  if (count == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const Module* module = resolve_module(handle);
  if (module == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  *count = static_cast<unsigned>(module->functions.size());
  return CUDA_SUCCESS;
}
SIMGPU_EXPORT CUresult cuModuleEnumerateFunctions(CUfunction* out, unsigned int count,
                                                  CUmodule handle) {
  Call call(Call::kContext);
  if (call.error != CUDA_SUCCESS) return call.error;
  return enumerate(out, count, resolve_module(handle));
}
SIMGPU_EXPORT CUresult cuModuleGetGlobal_v2(CUdeviceptr* address, size_t* bytes, CUmodule handle,
                                            const char* name) {
  Call call(Call::kContext);
  if (call.error != CUDA_SUCCESS) return call.error;
  Module* module = resolve_module(handle);
  if (module == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  return find_global(call, module, name, address, bytes);
}
SIMGPU_EXPORT CUresult cuModuleGetLoadingMode(CUmoduleLoadingMode* mode) {
  if (mode == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *mode = CU_MODULE_LAZY_LOADING;
  return CUDA_SUCCESS;
}

SIMGPU_EXPORT CUresult cuLibraryLoadData(CUlibrary* out, const void* image, CUjit_option*, void**,
                                         unsigned int, CUlibraryOption*, void**, unsigned int) {
  Call call(Call::kInit);
  if (call.error != CUDA_SUCCESS) return call.error;
  return load(reinterpret_cast<void**>(out), image, nullptr);
}
SIMGPU_EXPORT CUresult cuLibraryLoadFromFile(CUlibrary* out, const char* path, CUjit_option*,
                                             void**, unsigned int, CUlibraryOption*, void**,
                                             unsigned int) {
  Call call(Call::kInit);
  if (call.error != CUDA_SUCCESS) return call.error;
  std::string bytes;
  if (CUresult bad = read_file(path, &bytes)) return bad;
  return load(reinterpret_cast<void**>(out), bytes.data(), nullptr);
}
SIMGPU_EXPORT CUresult cuLibraryUnload(CUlibrary handle) {
  Call call(Call::kInit);
  if (call.error != CUDA_SUCCESS) return call.error;
  Module* module = resolve_module(handle);
  if (module == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  unload(call.driver, module);
  return CUDA_SUCCESS;
}
SIMGPU_EXPORT CUresult cuLibraryGetKernel(CUkernel* out, CUlibrary handle, const char* name) {
  Call call(Call::kInit);
  if (call.error != CUDA_SUCCESS) return call.error;
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const Module* module = resolve_module(handle);
  if (module == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  return find_function(module, name, reinterpret_cast<Function**>(out));
}
SIMGPU_EXPORT CUresult cuLibraryGetKernelCount(unsigned int* count, CUlibrary handle) {
  Call call(Call::kInit);
  if (call.error != CUDA_SUCCESS) return call.error;
  if (count == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const Module* module = resolve_module(handle);
  if (module == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  *count = static_cast<unsigned>(module->functions.size());
  return CUDA_SUCCESS;
}
SIMGPU_EXPORT CUresult cuLibraryEnumerateKernels(CUkernel* out, unsigned int count,
                                                 CUlibrary handle) {
  Call call(Call::kInit);
  if (call.error != CUDA_SUCCESS) return call.error;
  return enumerate(out, count, resolve_module(handle));
}
SIMGPU_EXPORT CUresult cuLibraryGetModule(CUmodule* out, CUlibrary handle) {
  Call call(Call::kContext);
  if (call.error != CUDA_SUCCESS) return call.error;
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  Module* module = resolve_module(handle);
  if (module == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  *out = reinterpret_cast<CUmodule>(module);
  return CUDA_SUCCESS;
}
SIMGPU_EXPORT CUresult cuLibraryGetGlobal(CUdeviceptr* address, size_t* bytes, CUlibrary handle,
                                          const char* name) {
  Call call(Call::kContext);
  if (call.error != CUDA_SUCCESS) return call.error;
  Module* module = resolve_module(handle);
  if (module == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  return find_global(call, module, name, address, bytes);
}

SIMGPU_EXPORT CUresult cuKernelGetFunction(CUfunction* out, CUkernel kernel) {
  Call call(Call::kContext);
  if (call.error != CUDA_SUCCESS) return call.error;
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *out = reinterpret_cast<CUfunction>(kernel);
  return resolve_function(*out) == nullptr ? CUDA_ERROR_INVALID_HANDLE : CUDA_SUCCESS;
}
SIMGPU_EXPORT CUresult cuKernelGetLibrary(CUlibrary* out, CUkernel kernel) {
  Call call(Call::kInit);
  if (call.error != CUDA_SUCCESS) return call.error;
  const Function* function = resolve_function(reinterpret_cast<CUfunction>(kernel));
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (function == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  *out = reinterpret_cast<CUlibrary>(function->module);
  return CUDA_SUCCESS;
}
SIMGPU_EXPORT CUresult cuKernelGetName(const char** name, CUkernel kernel) {
  Call call(Call::kInit);
  if (call.error != CUDA_SUCCESS) return call.error;
  const Function* function = resolve_function(reinterpret_cast<CUfunction>(kernel));
  if (name == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (function == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  *name = function->kernel.name.c_str();
  return CUDA_SUCCESS;
}
SIMGPU_EXPORT CUresult cuKernelGetAttribute(int* value, CUfunction_attribute attribute,
                                            CUkernel kernel, CUdevice device) {
  Call call(Call::kInit);
  if (call.error != CUDA_SUCCESS) return call.error;
  if (!call.driver.valid_device(device)) return CUDA_ERROR_INVALID_DEVICE;
  return function_attribute(value, attribute,
                            resolve_function(reinterpret_cast<CUfunction>(kernel)),
                            call.driver.spec(device));
}
SIMGPU_EXPORT CUresult cuKernelSetAttribute(CUfunction_attribute attribute, int value,
                                            CUkernel kernel, CUdevice device) {
  Call call(Call::kInit);
  if (call.error != CUDA_SUCCESS) return call.error;
  if (!call.driver.valid_device(device)) return CUDA_ERROR_INVALID_DEVICE;
  return set_function_attribute(resolve_function(reinterpret_cast<CUfunction>(kernel)), attribute,
                                value, call.driver.spec(device));
}
SIMGPU_EXPORT CUresult cuKernelSetCacheConfig(CUkernel kernel, CUfunc_cache, CUdevice device) {
  Call call(Call::kInit);
  if (call.error != CUDA_SUCCESS) return call.error;
  if (!call.driver.valid_device(device)) return CUDA_ERROR_INVALID_DEVICE;
  return resolve_function(reinterpret_cast<CUfunction>(kernel)) == nullptr
             ? CUDA_ERROR_INVALID_HANDLE
             : CUDA_SUCCESS;
}
SIMGPU_EXPORT CUresult cuKernelGetParamInfo(CUkernel kernel, size_t index, size_t* offset,
                                            size_t* size) {
  Call call(Call::kInit);
  if (call.error != CUDA_SUCCESS) return call.error;
  return param_info(resolve_function(reinterpret_cast<CUfunction>(kernel)), index, offset, size);
}

SIMGPU_EXPORT CUresult cuFuncGetAttribute(int* value, CUfunction_attribute attribute,
                                          CUfunction handle) {
  Call call(Call::kContext);
  if (call.error != CUDA_SUCCESS) return call.error;
  return function_attribute(value, attribute, resolve_function(handle),
                            call.driver.spec(call.context->device));
}
SIMGPU_EXPORT CUresult cuFuncSetAttribute(CUfunction handle, CUfunction_attribute attribute,
                                          int value) {
  Call call(Call::kContext);
  if (call.error != CUDA_SUCCESS) return call.error;
  return set_function_attribute(resolve_function(handle), attribute, value,
                                call.driver.spec(call.context->device));
}
SIMGPU_EXPORT CUresult cuFuncSetCacheConfig(CUfunction handle, CUfunc_cache) {
  Call call(Call::kContext);
  if (call.error != CUDA_SUCCESS) return call.error;
  return resolve_function(handle) == nullptr ? CUDA_ERROR_INVALID_HANDLE : CUDA_SUCCESS;
}
SIMGPU_EXPORT CUresult cuFuncGetModule(CUmodule* out, CUfunction handle) {
  Call call(Call::kInit);
  if (call.error != CUDA_SUCCESS) return call.error;
  const Function* function = resolve_function(handle);
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (function == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  *out = reinterpret_cast<CUmodule>(function->module);
  return CUDA_SUCCESS;
}
SIMGPU_EXPORT CUresult cuFuncGetName(const char** name, CUfunction handle) {
  return cuKernelGetName(name, reinterpret_cast<CUkernel>(handle));
}
SIMGPU_EXPORT CUresult cuFuncGetParamInfo(CUfunction handle, size_t index, size_t* offset,
                                          size_t* size) {
  return cuKernelGetParamInfo(reinterpret_cast<CUkernel>(handle), index, offset, size);
}
SIMGPU_EXPORT CUresult cuFuncIsLoaded(CUfunctionLoadingState* state, CUfunction handle) {
  Call call(Call::kInit);
  if (call.error != CUDA_SUCCESS) return call.error;
  if (state == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (resolve_function(handle) == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  *state = CU_FUNCTION_LOADING_STATE_LOADED;
  return CUDA_SUCCESS;
}
SIMGPU_EXPORT CUresult cuFuncLoad(CUfunction handle) {
  Call call(Call::kInit);
  if (call.error != CUDA_SUCCESS) return call.error;
  return resolve_function(handle) == nullptr ? CUDA_ERROR_INVALID_HANDLE : CUDA_SUCCESS;
}

// The linker joins PTX texts; what it completes to is again something cuModuleLoadData takes.
SIMGPU_EXPORT CUresult cuLinkCreate_v2(unsigned int, CUjit_option*, void**, CUlinkState* out) {
  Call call(Call::kContext);
  if (call.error != CUDA_SUCCESS) return call.error;
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *out = reinterpret_cast<CUlinkState>(new Link());
  return CUDA_SUCCESS;
}
SIMGPU_EXPORT CUresult cuLinkAddData_v2(CUlinkState state, CUjitInputType type, void* data,
                                        size_t size, const char*, unsigned int, CUjit_option*,
                                        void**) {
  Call call(Call::kContext);
  if (call.error != CUDA_SUCCESS) return call.error;
  if (state == nullptr || data == nullptr || size == 0) return CUDA_ERROR_INVALID_VALUE;
  if (type != CU_JIT_INPUT_PTX) return CUDA_ERROR_NOT_SUPPORTED;
  const std::string_view text(static_cast<const char*>(data), size);
  if (!parse_ptx(text)) return CUDA_ERROR_INVALID_PTX;
  reinterpret_cast<Link*>(state)->text.append(text.substr(0, text.find('\0'))).append("\n");
  return CUDA_SUCCESS;
}
SIMGPU_EXPORT CUresult cuLinkAddFile_v2(CUlinkState state, CUjitInputType type, const char* path,
                                        unsigned int, CUjit_option*, void**) {
  std::string bytes;
  if (CUresult bad = read_file(path, &bytes)) return bad;
  return cuLinkAddData_v2(state, type, bytes.data(), bytes.size(), path, 0, nullptr, nullptr);
}
SIMGPU_EXPORT CUresult cuLinkComplete(CUlinkState state, void** image, size_t* size) {
  Call call(Call::kContext);
  if (call.error != CUDA_SUCCESS) return call.error;
  if (state == nullptr || image == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::string& text = reinterpret_cast<Link*>(state)->text;
  *image = text.data();
  if (size != nullptr) *size = text.size() + 1;
  return CUDA_SUCCESS;
}
SIMGPU_EXPORT CUresult cuLinkDestroy(CUlinkState state) {
  Call call(Call::kContext);
  if (call.error != CUDA_SUCCESS) return call.error;
  if (state == nullptr) return CUDA_ERROR_INVALID_VALUE;
  delete reinterpret_cast<Link*>(state);
  return CUDA_SUCCESS;
}

}  // namespace divvy::simgpu
