# helix_module(NAME [PURE] [PLANTED] [DEPS room...] [LIBS library...])
# One room: library helix_NAME from src/NAME/**.cc, test program helix_NAME_test from tests/NAME/*_test.cc.
# PLANTED: bugs can be planted in it (src/base/planted_bug.h).
function(helix_module name)
    cmake_parse_arguments(ARG "PURE;PLANTED" "" "DEPS;LIBS" ${ARGN})
    file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/${name}/*.cc)
    if(NOT sources)
        set(scope INTERFACE)
        add_library(helix_${name} INTERFACE)
    else()
        set(scope PUBLIC)
        add_library(helix_${name} STATIC ${sources})
        target_link_libraries(helix_${name} PRIVATE helix_flags)
        helix_together(helix_${name})
        helix_unoptimised(helix_${name})
        if(ARG_PLANTED)
            helix_planted_apart(helix_${name} ${sources})
        endif()
    endif()
    foreach(dep ${ARG_DEPS})
        target_link_libraries(helix_${name} ${scope} helix_${dep})
    endforeach()
    target_link_libraries(helix_${name} ${scope} ${ARG_LIBS})
    set_property(GLOBAL APPEND PROPERTY HELIX_ROOMS ${name})
endfunction()

# helix_part(ROOM PART [DEPS part...] [ROOMS room...]): read by tools/check_layers.py alone; the compiler sees no parts.
function(helix_part room part)
    if(NOT IS_DIRECTORY ${CMAKE_SOURCE_DIR}/src/${room}/${part})
        message(FATAL_ERROR "helix_part: there is no src/${room}/${part}")
    endif()
endfunction()

# helix_only_plain(TARGET): sanitizer builds leave the target out unless it is asked for by name, since only tests
# labelled slow run it, which they leave out too.
function(helix_only_plain target)
    if(HELIX_SANITIZE)
        set_target_properties(${target} PROPERTIES EXCLUDE_FROM_ALL ON)
    endif()
endfunction()

# helix_short_name(TARGET OUT): the target's name as the lists of rooms have it.
function(helix_short_name target out)
    string(REGEX REPLACE "^helix_" "" short ${target})
    set(${out} ${short} PARENT_SCOPE)
endfunction()

# helix_unoptimised(TARGET): what HELIX_UNOPTIMISED and HELIX_LITTLE_OPTIMISED name is compiled in half the time, or
# three quarters, and runs slower.
function(helix_unoptimised target)
    helix_short_name(${target} name)
    if(name IN_LIST HELIX_UNOPTIMISED)
        target_compile_options(${target} PRIVATE -O0)
    elseif(name IN_LIST HELIX_LITTLE_OPTIMISED)
        target_compile_options(${target} PRIVATE -O1)
    endif()
endfunction()

# helix_together(TARGET): with HELIX_UNITY the target's sources are compiled many at a time, since most of the time
# goes into headers and what they instantiate. So the sources of a room share one anonymous namespace; tests have
# a namespace of their own for each file.
function(helix_together target)
    if(NOT HELIX_UNITY)
        return()
    endif()
    set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE ${HELIX_UNITY_BATCH})
    # A class behind a pointer may hold types that only its source file knows; that file is no
    # header in a unity build either.
    target_compile_options(${target} PRIVATE $<$<CXX_COMPILER_ID:GNU>:-Wno-subobject-linkage>)
endfunction()

# helix_planted_apart(TARGET source...): those of the sources that can have planted bugs are compiled together and without
# the others, so that a program may have them once more, with the bugs, and the others from the library. The global
# property HELIX_PLANTED_SOURCES lists them.
function(helix_planted_apart target)
    set(number 0)
    foreach(source ${ARGN})
        file(STRINGS ${source} planted REGEX "(planted_bug|request_numbers)\\.h" LIMIT_COUNT 1)
        if(planted)
            set(group planted)
            set_property(GLOBAL APPEND PROPERTY HELIX_PLANTED_SOURCES ${source})
        else()
            math(EXPR group "${number} / ${HELIX_UNITY_BATCH}")
            math(EXPR number "${number} + 1")
        endif()
        set_source_files_properties(${source} PROPERTIES UNITY_GROUP "${group}")
    endforeach()
    set_target_properties(${target} PROPERTIES UNITY_BUILD_MODE GROUP)
endfunction()

# helix_apart(TARGET pattern...): these sources are each compiled alone, and with -O2 where the others of their room are
# little optimised.
function(helix_apart target)
    list(TRANSFORM ARGN PREPEND ${CMAKE_SOURCE_DIR}/)
    file(GLOB files CONFIGURE_DEPENDS ${ARGN})
    # g++ tells of vectors as arguments that another version would pass otherwise; these never leave their file.
    set(options "$<$<CXX_COMPILER_ID:GNU>:-Wno-psabi>")
    helix_short_name(${target} name)
    if(name IN_LIST HELIX_LITTLE_OPTIMISED)
        list(APPEND options -O2)
    endif()
    set_source_files_properties(${files} TARGET_DIRECTORY ${target} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON
        COMPILE_OPTIONS "${options}")
endfunction()

# helix_executable(NAME MAIN ROOM): its symbols go into NAME.debug beside it, where debuggers look for them.
function(helix_executable name main room)
    add_executable(${name} ${main})
    target_link_libraries(${name} PRIVATE helix_${room} helix_flags)
    helix_only_plain(${name})
    if(NOT HELIX_SANITIZE)
        add_custom_command(TARGET ${name} POST_BUILD VERBATIM
            COMMAND ${CMAKE_OBJCOPY} --only-keep-debug $<TARGET_FILE:${name}> $<TARGET_FILE:${name}>.debug
            COMMAND ${CMAKE_OBJCOPY} --strip-debug --strip-unneeded
                --add-gnu-debuglink=$<TARGET_FILE:${name}>.debug $<TARGET_FILE:${name}>)
    endif()
endfunction()

# helix_test(NAME [WAITS] [SHARDS n] SOURCES... LIBS room...): a GoogleTest program; as n ctest entries NAME_1 to NAME_n, each
# with a part of its tests, where it waits or computes long; those that wait start first and then these, so that none is
# left for the end. The
# label slow leaves it out of the sanitizer runs. What HELIX_ONLY_SANITIZED names is neither built nor run by itself
# here: it does under a sanitizer all that it does anywhere.
function(helix_test name)
    cmake_parse_arguments(ARG "WAITS" "SHARDS" "SOURCES;LIBS" ${ARGN})
    set(slots 2)
    set(cost 1)
    if(ARG_WAITS)
        set(slots 1)
        set(cost 2)
    endif()
    add_executable(${name} ${ARG_SOURCES})
    target_link_libraries(${name} PRIVATE ${ARG_LIBS} helix_flags GTest::gmock GTest::gtest_main)
    target_include_directories(${name} PRIVATE ${CMAKE_SOURCE_DIR}/tests)
    helix_together(${name})
    helix_unoptimised(${name})
    # Relative to the checkout, where the tests are run, so that a second clone hits the same compiler cache.
    file(RELATIVE_PATH data ${CMAKE_SOURCE_DIR} ${HELIX_DATA_DIR})
    file(RELATIVE_PATH binary ${CMAKE_SOURCE_DIR} ${CMAKE_RUNTIME_OUTPUT_DIRECTORY}/helix)
    target_compile_definitions(${name} PRIVATE
        HELIX_DATA_DIR="${data}" HELIX_SOURCE_DIR="." HELIX_BINARY="${binary}")
    helix_short_name(${name} short)
    if(short IN_LIST HELIX_ONLY_SANITIZED)
        set_target_properties(${name} PROPERTIES EXCLUDE_FROM_ALL ON)
        return()
    endif()
    if(NOT ARG_SHARDS)
        add_test(NAME ${name} COMMAND ${name} --gtest_brief=1 WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
        set_tests_properties(${name} PROPERTIES PROCESSORS ${slots})
        if(ARG_WAITS)
            set_tests_properties(${name} PROPERTIES COST ${cost})
        endif()
        return()
    endif()
    foreach(shard RANGE 1 ${ARG_SHARDS})
        math(EXPR index "${shard} - 1")
        add_test(NAME ${name}_${shard} COMMAND ${name} --gtest_brief=1 WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
        set_tests_properties(${name}_${shard} PROPERTIES COST ${cost} PROCESSORS ${slots}
            ENVIRONMENT "GTEST_TOTAL_SHARDS=${ARG_SHARDS};GTEST_SHARD_INDEX=${index}")
    endforeach()
endfunction()
