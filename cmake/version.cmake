# barge_version(TARGET): gives it the text of `barge --version`: the project's version and the commit,
# looked up at each build, for a build directory outlives commits. Without git: the version alone.
function(barge_version target)
  find_package(Git QUIET)
  set(written ${CMAKE_BINARY_DIR}/version.cc)
  add_custom_target(barge_write_version
    COMMAND ${CMAKE_COMMAND} -DGIT=${GIT_EXECUTABLE} -DSOURCE=${CMAKE_SOURCE_DIR}
            -DVERSION=${PROJECT_VERSION} -DWRITTEN=${written}
            -P ${CMAKE_SOURCE_DIR}/cmake/write_version.cmake
    BYPRODUCTS ${written} VERBATIM COMMENT "Looking up the commit")
  target_sources(${target} PRIVATE ${written})
  add_dependencies(${target} barge_write_version)
endfunction()
