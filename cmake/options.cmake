set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)
set(CMAKE_ARCHIVE_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/lib)

option(HELIX_UNITY "compile several sources at a time; off: each alone, for quick small rebuilds" ON)
# The larger the batches, the less work in all, the more memory (2 GB each) and the fewer processors that find some.
cmake_host_system_information(RESULT cores QUERY NUMBER_OF_LOGICAL_CORES)
cmake_host_system_information(RESULT memory_mib QUERY TOTAL_PHYSICAL_MEMORY)
math(EXPR memory_mib_each "${memory_mib} / ${cores}")
set(unity_batch 32)
if(cores LESS_EQUAL 4 AND memory_mib_each GREATER_EQUAL 3000)
    set(unity_batch 96)
endif()
set(HELIX_UNITY_BATCH ${unity_batch} CACHE STRING "that many")
set(HELIX_ONLY_SANITIZED "" CACHE STRING "test programs, without helix_, that only sanitizer builds build and run")
set(HELIX_UNOPTIMISED "" CACHE STRING "targets that need no speed, without helix_: compiled with -O0")
set(HELIX_LITTLE_OPTIMISED "" CACHE STRING "those that need some: compiled with -O1")
option(HELIX_BENCHMARKS "build bench/" OFF)
option(HELIX_FUZZ "build fuzz/ (needs clang)" OFF)
set(HELIX_SANITIZE "" CACHE STRING "sanitizers, as -fsanitize= takes them: address,undefined or thread")
option(HELIX_SANITIZE_POINTERS "undefined behaviour: also null, misaligned and too short, at every pointer" OFF)
set(HELIX_DATA_DIR "${CMAKE_SOURCE_DIR}/../shared/data" CACHE PATH
    "vocabularies, templates and models of others; tests that need them skip visibly (the paper's inputs are in data/paper)")

find_program(CCACHE ccache)
if(CCACHE)
    # Paths relative to the checkout, so that a second clone hits the same cache.
    set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_BASEDIR=${CMAKE_SOURCE_DIR}
        CCACHE_NOHASHDIR=1 CCACHE_SLOPPINESS=pch_defines,time_macros ${CCACHE})
endif()
find_program(MOLD mold)
if(MOLD AND NOT CMAKE_CROSSCOMPILING)  # compilers for other processors do not find it
    add_link_options(-fuse-ld=mold)
endif()

# What every target of ours is compiled with. Never -ffast-math: it would break the promise that a row's
# result does not depend on the batch it is computed in.
add_library(helix_flags INTERFACE)
target_compile_options(helix_flags INTERFACE
    -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wsign-conversion -Wnon-virtual-dtor -Wold-style-cast
    -Woverloaded-virtual -Wnull-dereference -Wimplicit-fallthrough -Werror
    -fstack-protector-strong -ffp-contract=off)
target_compile_definitions(helix_flags INTERFACE _GLIBCXX_ASSERTIONS)
target_include_directories(helix_flags INTERFACE ${CMAKE_SOURCE_DIR}/src)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # g++ 12 reports these falsely inside std::variant and std::string at -O2.
    target_compile_options(helix_flags INTERFACE -Wno-error=maybe-uninitialized -Wno-maybe-uninitialized
        -Wno-restrict -Wno-error=null-dereference -Wno-null-dereference)
endif()
if(NOT CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64)$")
    # A plain char has a sign, as it has on amd64, where everything is tested; on ARM it would have none.
    target_compile_options(helix_flags INTERFACE -fsigned-char)
endif()
if(HELIX_SANITIZE)
    target_compile_options(helix_flags INTERFACE -fsanitize=${HELIX_SANITIZE} -fno-omit-frame-pointer
        -fno-sanitize-recover=all)
    target_link_options(helix_flags INTERFACE -fsanitize=${HELIX_SANITIZE})
    target_compile_definitions(helix_flags INTERFACE HELIX_SANITIZED)
    if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang" AND HELIX_SANITIZE MATCHES undefined)
        # clang 14 cannot assemble coroutines with the check of function pointers' types; and the
        # check of an object's dynamic type opens a pipe, which fails where tests have taken all
        # descriptors away.
        target_compile_options(helix_flags INTERFACE -fno-sanitize=function,vptr)
        # These checks make up a third of the compile time; address sanitizer finds most of what they would.
        if(NOT HELIX_SANITIZE_POINTERS AND HELIX_SANITIZE MATCHES address)
            target_compile_options(helix_flags INTERFACE -fno-sanitize=null,alignment,object-size)
        endif()
    endif()
endif()
