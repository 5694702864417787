# Everything comes from Debian 12 (tools/install-deps.sh installs it); nothing is downloaded or vendored.
find_package(Threads REQUIRED)
find_package(fmt REQUIRED)
find_package(spdlog REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(CLI11 REQUIRED)
find_package(Boost 1.74 REQUIRED)
find_package(Protobuf REQUIRED)
find_package(OpenSSL 3.0 REQUIRED)  # Apache-2.0
find_package(GTest REQUIRED)
find_package(PkgConfig REQUIRED)

function(helix_pkg name pkg)
    pkg_check_modules(${name}_pkg REQUIRED IMPORTED_TARGET GLOBAL ${pkg})
    add_library(${name} INTERFACE)
    target_link_libraries(${name} INTERFACE PkgConfig::${name}_pkg)
endfunction()
helix_pkg(zmq libzmq)
helix_pkg(sodium libsodium)
helix_pkg(avahi avahi-core)  # LGPL-2.1+, linked dynamically; needs neither D-Bus nor a daemon
helix_pkg(pcre2 libpcre2-8)
helix_pkg(utf8proc libutf8proc)
helix_pkg(xxhash libxxhash)
helix_pkg(tomlplusplus tomlplusplus)
helix_pkg(sqlite3 sqlite3)  # public domain
helix_pkg(pq libpq)  # PostgreSQL licence
helix_pkg(edit libedit)  # BSD-3-Clause
helix_pkg(curl libcurl)  # curl licence
add_library(tomlplusplus::tomlplusplus ALIAS tomlplusplus)

helix_pkg(lemon lemon)
helix_pkg(cbc cbc)  # with CLP and OSI behind it; EPL-2.0

# The messages between coordinator and workers, generated from src/wire/helix.proto.
if(EXISTS ${CMAKE_SOURCE_DIR}/src/wire/helix.proto)
    add_library(helix_proto STATIC)
    target_sources(helix_proto PRIVATE ${CMAKE_SOURCE_DIR}/src/wire/helix.proto)
    target_link_libraries(helix_proto PUBLIC protobuf::libprotobuf)
    protobuf_generate(TARGET helix_proto IMPORT_DIRS ${CMAKE_SOURCE_DIR}/src PROTOC_OUT_DIR ${CMAKE_BINARY_DIR}/proto)
    target_include_directories(helix_proto SYSTEM PUBLIC ${CMAKE_BINARY_DIR}/proto/src ${CMAKE_BINARY_DIR}/proto)
else()
    add_library(helix_proto INTERFACE)
endif()

# Vulkan: headers, and volk, which looks for the loader when a device is asked for. Nothing is linked; a machine
# without a driver builds and runs the same program. glslangValidator compiles shaders at build time.
find_path(VOLK_INCLUDE_DIR volk.h REQUIRED)
find_program(GLSLANG_VALIDATOR glslangValidator REQUIRED)
add_library(helix_volk INTERFACE)
target_include_directories(helix_volk SYSTEM INTERFACE ${VOLK_INCLUDE_DIR})
target_compile_definitions(helix_volk INTERFACE VK_NO_PROTOTYPES)
target_link_libraries(helix_volk INTERFACE ${CMAKE_DL_LIBS})
