# divvy_module(NAME room [PURE] [SIMULATES] [SOURCES ...] [TESTS ...] [FUZZERS ...] [DEPS room ...]
#              [LINK target ...] [TEST_LINK target ...])
#
# Declares a room: the library divvy_<room>, its tests (one executable divvy_<room>_test) and its
# fuzzers. An edge that the table in rooms.cmake does not have ends the configuration. PURE: there
# are no threads in it, so its tests are left out where only the thread sanitizer would look.
# SIMULATES: its tests compute much; with sanitizers it and what is PURE are optimised a little.
include(${CMAKE_CURRENT_LIST_DIR}/rooms.cmake)
include(GoogleTest)

# Everything that `make fuzz` needs.
if(NOT TARGET fuzzers)
  add_custom_target(fuzzers)
endif()

# What runs a fuzzer's corpus where there is no libFuzzer.
if(NOT DIVVY_FUZZ AND NOT TARGET divvy_fuzz_replay)
  add_library(divvy_fuzz_replay OBJECT ${CMAKE_SOURCE_DIR}/cmake/fuzz_replay.cc)
  target_link_libraries(divvy_fuzz_replay PRIVATE divvy_fmt)
endif()

function(divvy_check_edges room)
  if(NOT room IN_LIST DIVVY_ROOMS)
    message(FATAL_ERROR "There is no room '${room}' in cmake/rooms.cmake.")
  endif()
  foreach(dep IN LISTS ARGN)
    if(NOT dep IN_LIST DIVVY_MAY_USE_${room})
      message(FATAL_ERROR
        "Room '${room}' may not use '${dep}': the table in cmake/rooms.cmake allows only "
        "[${DIVVY_MAY_USE_${room}}]. Move the code, or change the table with a page in "
        "docs/decisions/.")
    endif()
  endforeach()
endfunction()

# Sources parse the common headers once per target. Without warnings: GCC 12 forgets which of them are
# the system's and warns of what its own strings do. Not for clang: it writes into the result where the
# headers lie, so that ccache cannot give it to another clone.
function(divvy_precompile target)
  if(DIVVY_PCH)
    target_precompile_headers(${target} PRIVATE ${CMAKE_SOURCE_DIR}/cmake/common_headers.h ${ARGN})
  endif()
endfunction()

function(divvy_module)
  cmake_parse_arguments(M "PURE;SIMULATES" "NAME" "SOURCES;TESTS;FUZZERS;DEPS;LINK;TEST_LINK" ${ARGN})
  divvy_check_edges(${M_NAME} ${M_DEPS})
  set(library divvy_${M_NAME})
  list(TRANSFORM M_DEPS PREPEND divvy_ OUTPUT_VARIABLE deps)

  if(M_SOURCES)
    add_library(${library} STATIC ${M_SOURCES})
    target_include_directories(${library} PUBLIC ${CMAKE_SOURCE_DIR}/src)
    target_link_libraries(${library} PUBLIC ${deps} PRIVATE ${M_LINK} Threads::Threads)
    if(divvy_base IN_LIST deps OR M_NAME STREQUAL base)
      divvy_precompile(${library})
    endif()
  else()
    add_library(${library} INTERFACE)
    target_include_directories(${library} INTERFACE ${CMAKE_SOURCE_DIR}/src)
    target_link_libraries(${library} INTERFACE ${deps})
  endif()

  if(M_PURE AND DIVVY_SANITIZE STREQUAL thread)
    return()
  endif()
  set(targets ${library})
  if(M_TESTS)
    divvy_test(${library}_test SOURCES ${M_TESTS} LINK ${library} ${M_LINK} ${M_TEST_LINK})
    list(APPEND targets ${library}_test)
  endif()
  # Their tests play thousands of histories, and take longer without it than the compiler with it.
  if(DIVVY_SANITIZE AND M_SOURCES AND (M_PURE OR M_SIMULATES))
    foreach(target IN LISTS targets)
      target_compile_options(${target} PRIVATE -O1)
    endforeach()
  endif()
  foreach(fuzzer IN LISTS M_FUZZERS)
    divvy_fuzzer(${fuzzer} ${library})
  endforeach()
endfunction()

# divvy_test(name [ALONE] [LOCK what] [TIMEOUT seconds] SOURCES ... LINK ...): a GoogleTest
# executable, one ctest entry per test case. ALONE: no other test runs beside them. LOCK: no other
# test with the same lock. TIMEOUT: of each, 300 unless told.
function(divvy_test name)
  cmake_parse_arguments(T "ALONE" "LOCK;TIMEOUT" "SOURCES;LINK;ENVIRONMENT" ${ARGN})
  if(NOT T_TIMEOUT)
    set(T_TIMEOUT 300)
  endif()
  add_executable(${name} ${T_SOURCES})
  target_include_directories(${name} PRIVATE ${CMAKE_SOURCE_DIR}/src)
  target_link_libraries(${name} PRIVATE ${T_LINK} GTest::gtest_main Threads::Threads)
  divvy_precompile(${name} <gtest/gtest.h>)
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/test)
  gtest_discover_tests(${name} DISCOVERY_TIMEOUT 60 PROPERTIES TIMEOUT ${T_TIMEOUT}
    RUN_SERIAL ${T_ALONE} RESOURCE_LOCK "${T_LOCK}" ENVIRONMENT "${T_ENVIRONMENT}")
endfunction()

# A fuzzer source defines LLVMFuzzerTestOneInput. With preset `fuzz` it becomes a libFuzzer
# program that also explores for a while; in every other build it replays its seed corpus.
function(divvy_fuzzer source library)
  get_filename_component(name ${source} NAME_WE)
  set(corpus ${CMAKE_CURRENT_SOURCE_DIR}/corpus/${name})
  add_executable(${name} ${source})
  target_link_libraries(${name} PRIVATE ${library} divvy_fmt)
  add_dependencies(fuzzers ${name})
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/test)
  if(DIVVY_FUZZ)
    target_link_options(${name} PRIVATE -fsanitize=fuzzer)
    add_test(NAME fuzz.${name} COMMAND ${name} -max_total_time=20 -max_len=512
      -artifact_prefix=${CMAKE_BINARY_DIR}/crash-${name}- ${CMAKE_BINARY_DIR}/corpus/${name}
      ${corpus})
    file(MAKE_DIRECTORY ${CMAKE_BINARY_DIR}/corpus/${name})
  else()
    target_link_libraries(${name} PRIVATE divvy_fuzz_replay)
    add_test(NAME fuzz.${name} COMMAND ${name} ${corpus})
  endif()
  set_tests_properties(fuzz.${name} PROPERTIES LABELS fuzz TIMEOUT 300)
endfunction()
