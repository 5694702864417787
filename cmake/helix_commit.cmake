# helix_commit(TARGET): tells the target the commit that it is built from. A library of its own, so that another
# commit compiles one small file and no more.
function(helix_commit target)
    set(source ${CMAKE_BINARY_DIR}/commit/build_commit.cc)
    set(write ${CMAKE_COMMAND} -DSOURCE_DIR=${CMAKE_SOURCE_DIR} -DOUTPUT=${source} -P ${CMAKE_SOURCE_DIR}/cmake/commit.cmake)
    execute_process(COMMAND ${write})
    add_custom_target(helix_commit_written COMMAND ${write} BYPRODUCTS ${source} VERBATIM)
    add_library(helix_commit STATIC ${source})
    target_include_directories(helix_commit PRIVATE ${CMAKE_SOURCE_DIR}/src)
    add_dependencies(helix_commit helix_commit_written)
    target_link_libraries(${target} PRIVATE helix_commit)
endfunction()
