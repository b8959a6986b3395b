#include "gpuload/own_exports.h"

#include <dlfcn.h>
#include <elf.h>
#include <link.h>

#include <algorithm>
#include <cstdint>

namespace divvy::gpuload {
namespace {

// A GNU hash table does not say how many symbols there are; its last chain ends with the last one.
uint32_t count_symbols(const uint32_t* gnu_hash) {
  const uint32_t buckets = gnu_hash[0];
  const uint32_t first = gnu_hash[1];
  const uint32_t bloom_words = gnu_hash[2] * (sizeof(ElfW(Addr)) / sizeof(uint32_t));
  const uint32_t* bucket = gnu_hash + 4 + bloom_words;
  const uint32_t* chain = bucket + buckets;
  const uint32_t highest = buckets == 0 ? 0 : *std::max_element(bucket, bucket + buckets);
  if (highest < first) return first;
  uint32_t last = highest;
  while ((chain[last - first] & 1U) == 0) ++last;
  return last + 1;
}

}  // namespace

OwnExports::OwnExports(void* library) {
  const link_map* map = nullptr;
  if (dlinfo(library, RTLD_DI_LINKMAP, &map) != 0 || map == nullptr) return;
  const ElfW(Sym)* symbols = nullptr;
  const char* names = nullptr;
  uint32_t count = 0;
  for (const ElfW(Dyn)* entry = map->l_ld; entry->d_tag != DT_NULL; ++entry) {
    const ElfW(Addr) address = entry->d_un.d_ptr;
    if (entry->d_tag == DT_SYMTAB) symbols = reinterpret_cast<const ElfW(Sym)*>(address);
    if (entry->d_tag == DT_STRTAB) names = reinterpret_cast<const char*>(address);
    if (entry->d_tag == DT_GNU_HASH) {
      count = count_symbols(reinterpret_cast<const uint32_t*>(address));
    }
    if (entry->d_tag == DT_HASH) {
      count = std::max(count, reinterpret_cast<const uint32_t*>(address)[1]);
    }
  }
  if (symbols == nullptr || names == nullptr) return;
  for (uint32_t i = 0; i < count; ++i) {
    const ElfW(Sym)& symbol = symbols[i];
    if (symbol.st_shndx == SHN_UNDEF || ELF64_ST_TYPE(symbol.st_info) != STT_FUNC) continue;
    functions_.emplace(names + symbol.st_name,
                       reinterpret_cast<void*>(map->l_addr + symbol.st_value));
  }
}

void* OwnExports::find(std::string_view name) const {
  const auto found = functions_.find(name);
  return found == functions_.end() ? nullptr : found->second;
}

}  // namespace divvy::gpuload
