# Compiler settings that hold for every target: language, warnings, sanitizers, ccache, linking.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE RelWithDebInfo)
endif()

set(DIVVY_SANITIZE "" CACHE STRING "Sanitizers for the whole build: address,undefined or thread")
option(DIVVY_PCH "Parse the common headers once per target" OFF)
set(DIVVY_BATCH 0 CACHE STRING "Compile up to so many sources of a target together; 0: each alone")
option(DIVVY_KUBERNETES "The client of Kubernetes, and with DIVVY_GRPC the engines for it" ON)
option(DIVVY_GRPC "What needs gRPC and protobuf: the node agent of Kubernetes" ON)
option(DIVVY_WARNINGS "Warn, and refuse what is warned of" ON)
option(DIVVY_FUZZ "Build the fuzzers with libFuzzer (clang)" OFF)
set(DIVVY_CUDA_INCLUDE "" CACHE PATH "A CUDA toolkit's include folder, to compare our ABI with")
set(DIVVY_NVML_INCLUDE "${DIVVY_CUDA_INCLUDE}" CACHE PATH "The folder that has nvml.h")

if(DIVVY_BATCH)
  include(batches)
  cmake_language(DEFER DIRECTORY ${CMAKE_SOURCE_DIR} CALL divvy_batch_sources)
endif()

find_program(CCACHE ccache)
if(CCACHE)
  # The sloppiness is what precompiled headers need of it. Paths are taken relative to the source
  # tree, so that a second clone finds what the first has compiled.
  set(launcher ${CMAKE_COMMAND} -E env CCACHE_SLOPPINESS=pch_defines,time_macros
    CCACHE_BASEDIR=${CMAKE_SOURCE_DIR} CCACHE_NOHASHDIR=1 ${CCACHE})
  set(CMAKE_C_COMPILER_LAUNCHER ${launcher})
  set(CMAKE_CXX_COMPILER_LAUNCHER ${launcher})
endif()

if(DIVVY_WARNINGS)
  set(warnings -Wall -Wextra -Wpedantic -Wshadow -Werror)
  set(cxx_warnings
    $<$<COMPILE_LANGUAGE:CXX>:-Wnon-virtual-dtor$<SEMICOLON>-Woverloaded-virtual>)
  # In a batch a name may hide one of another source, and no source is the file that is compiled, in
  # which unnamed namespaces are nobody else's business; each alone is what counts.
  if(DIVVY_BATCH)
    list(REMOVE_ITEM warnings -Wshadow)
    if(CMAKE_CXX_COMPILER_ID STREQUAL GNU)
      string(APPEND cxx_warnings $<SEMICOLON>$<$<COMPILE_LANGUAGE:CXX>:-Wno-subobject-linkage>)
    endif()
  endif()
else()
  set(warnings -w)
  set(cxx_warnings)
endif()
add_compile_options(${warnings} -fno-omit-frame-pointer ${cxx_warnings}
  -ffile-prefix-map=${CMAKE_SOURCE_DIR}=.)

if(DIVVY_SANITIZE)
  add_compile_options(-fsanitize=${DIVVY_SANITIZE} -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${DIVVY_SANITIZE})
else()
  # What a program needs besides the C library travels inside it, so that `make dist` runs on a
  # machine with nothing installed.
  add_link_options(-static-libstdc++ -static-libgcc)
endif()
if(DIVVY_FUZZ)
  add_compile_options(-fsanitize=fuzzer-no-link)
endif()

# Everyday builds link a hundred programs with all of their debug information, and gold needs a third
# of the time. Only programs: gold exports more of the shim than it may (thread-local variables), and
# what ships is linked as Debian links.
find_program(GOLD ld.gold)
if(DIVVY_BATCH AND GOLD AND NOT DIVVY_SANITIZE)
  string(APPEND CMAKE_EXE_LINKER_FLAGS " -fuse-ld=gold")
endif()

find_package(Threads REQUIRED)
find_package(GTest REQUIRED)
find_package(fmt REQUIRED)
find_package(Boost 1.81 REQUIRED)

# See the file for why it is not fmt::fmt.
add_library(divvy_fmt STATIC ${CMAKE_SOURCE_DIR}/cmake/fmt_library.cc)

# Debian's CMake target for yaml-cpp is the shared object; programs and the simulated driver carry it
# along. With sanitizers the C++ library is shared, and the archive does not go together with that.
add_library(divvy_yaml INTERFACE)
if(DIVVY_SANITIZE)
  find_package(yaml-cpp REQUIRED)
  target_link_libraries(divvy_yaml INTERFACE yaml-cpp)
else()
  find_library(YAML_CPP_ARCHIVE NAMES libyaml-cpp.a REQUIRED)
  target_link_libraries(divvy_yaml INTERFACE ${YAML_CPP_ARCHIVE})
endif()

# Archives again, for the same reason. Imported targets, because the order of archives matters to the linker.
function(divvy_archive name file)
  find_library(${name}_FILE NAMES ${file} REQUIRED)
  add_library(${name} STATIC IMPORTED GLOBAL)
  set_target_properties(${name} PROPERTIES IMPORTED_LOCATION ${${name}_FILE})
  target_link_libraries(${name} INTERFACE ${ARGN})
endfunction()
divvy_archive(divvy_sqlite3 libsqlite3.a Threads::Threads m ${CMAKE_DL_LIBS})
divvy_archive(divvy_sqlite libSQLiteCpp.a divvy_sqlite3)
divvy_archive(divvy_crypto libcrypto.a Threads::Threads ${CMAKE_DL_LIBS})
divvy_archive(divvy_tls libssl.a divvy_crypto)
