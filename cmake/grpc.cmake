# gRPC and protobuf, for the one room that talks to the kubelet, and divvy_protos(), which makes a
# library of .proto files.
#
# Debian's CMake targets are shared objects; programs carry the archives along. They refer to each
# other in circles, so the linker gets them as one group. With sanitizers the C++ library is shared,
# and the archives do not go together with that.
add_library(divvy_grpc INTERFACE)
if(DIVVY_SANITIZE)
  target_link_libraries(divvy_grpc INTERFACE grpc++ grpc gpr protobuf)
else()
  set(grpc_archives)
  foreach(name IN ITEMS grpc++ grpc gpr address_sorting upb protobuf re2 cares z)
    find_library(GRPC_${name}_FILE NAMES lib${name}.a REQUIRED)
    list(APPEND grpc_archives ${GRPC_${name}_FILE})
  endforeach()
  get_filename_component(grpc_folder ${GRPC_grpc++_FILE} DIRECTORY)
  file(GLOB absl_archives ${grpc_folder}/libabsl_*.a)
  # One word for the linker: as words of their own, archives that stand elsewhere too (OpenSSL's)
  # would be moved there, before what needs them.
  list(JOIN grpc_archives "," grpc_archives)
  list(JOIN absl_archives "," absl_archives)
  target_link_libraries(divvy_grpc INTERFACE
    "-Wl,--start-group,${grpc_archives},${absl_archives},${divvy_tls_FILE},${divvy_crypto_FILE},--end-group"
    Threads::Threads ${CMAKE_DL_LIBS} rt)
endif()

find_program(PROTOC protoc REQUIRED)
find_program(GRPC_CPP_PLUGIN grpc_cpp_plugin REQUIRED)

# divvy_protos(target file.proto ...): their messages and services, to be included with angle
# brackets as <file.grpc.pb.h>. Nobody wrote the code, so nobody is warned of it. It is made when the
# build is configured, because clang-tidy reads a tree in which nothing is built.
function(divvy_protos target)
  set(folder ${CMAKE_CURRENT_BINARY_DIR}/protos)
  file(MAKE_DIRECTORY ${folder})
  set(generated)
  foreach(proto IN LISTS ARGN)
    set(path ${CMAKE_CURRENT_SOURCE_DIR}/${proto})
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${path})
    get_filename_component(name ${proto} NAME_WE)
    get_filename_component(from ${path} DIRECTORY)
    set(result ${folder}/${name}.grpc.pb.cc)
    if(NOT EXISTS ${result} OR ${path} IS_NEWER_THAN ${result})
      execute_process(
        COMMAND ${PROTOC} --proto_path=${from} --cpp_out=${folder} --grpc_out=${folder}
          --plugin=protoc-gen-grpc=${GRPC_CPP_PLUGIN} ${name}.proto
        COMMAND_ERROR_IS_FATAL ANY)
    endif()
    list(APPEND generated ${folder}/${name}.pb.cc ${result})
  endforeach()
  add_library(${target} STATIC ${generated})
  target_compile_options(${target} PRIVATE -w)
  target_include_directories(${target} SYSTEM PUBLIC ${folder})
  target_link_libraries(${target} PUBLIC divvy_grpc)
endfunction()
