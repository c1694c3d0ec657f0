# barge_folder(NAME DEPENDS folders... LIBRARIES packages...)
# One static library for all of src/NAME. DEPENDS are the folders whose headers it may include.
function(barge_folder name)
  cmake_parse_arguments(ARG "" "" "DEPENDS;LIBRARIES" ${ARGN})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/${name}/*.cc)
  list(FILTER sources EXCLUDE REGEX /src/kernels/cuda/)  # a plug-in of its own
  if(sources)
    add_library(barge_${name} STATIC ${sources})
    set(scope PUBLIC)
  else()
    add_library(barge_${name} INTERFACE)
    set(scope INTERFACE)
  endif()
  target_include_directories(barge_${name} ${scope} ${CMAKE_SOURCE_DIR}/src)
  list(TRANSFORM ARG_DEPENDS PREPEND barge_)
  target_link_libraries(barge_${name} ${scope} ${ARG_DEPENDS} ${ARG_LIBRARIES})
endfunction()

# barge_embed(LIBRARY DIRECTORY): the library gets the bytes of DIRECTORY's files.
function(barge_embed library directory)
  file(GLOB paths CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/${directory}/*)
  set(names)
  foreach(path ${paths})
    get_filename_component(file ${path} NAME)
    list(APPEND names ${file})
  endforeach()
  set(script ${CMAKE_SOURCE_DIR}/cmake/embed.cmake)
  set(out ${CMAKE_CURRENT_BINARY_DIR}/${library}_embedded.cc)
  add_custom_command(OUTPUT ${out} DEPENDS ${script} ${paths} VERBATIM
    COMMAND ${CMAKE_COMMAND} -DOUT=${out} -DDIR=${CMAKE_SOURCE_DIR}/${directory} "-DFILES=${names}"
            -P ${script})
  target_sources(${library} PRIVATE ${out})
endfunction()

# barge_test(NAME LIBRARIES folders...)
# One program NAME_test for all of tests/NAME.
function(barge_test name)
  cmake_parse_arguments(ARG "" "" "LIBRARIES" ${ARGN})
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tests/${name}/*.cc)
  if(NOT sources)
    return()
  endif()
  add_executable(${name}_test ${sources})
  target_include_directories(${name}_test PRIVATE ${CMAKE_SOURCE_DIR})
  target_compile_definitions(${name}_test PRIVATE
    BARGE_TEST_DATA="${CMAKE_SOURCE_DIR}/tests/data" BARGE_PROGRAM="${CMAKE_BINARY_DIR}/barge")
  list(TRANSFORM ARG_LIBRARIES PREPEND barge_)
  target_link_libraries(${name}_test PRIVATE ${ARG_LIBRARIES} GTest::gmock GTest::gtest_main)
  # What is tested is compiled as for users; the tests themselves needn't be fast.
  # UndefinedBehaviorSanitizer, which takes a third of a sanitized build, looks at src alone.
  target_compile_options(${name}_test PRIVATE $<$<CONFIG:Release>:-O1>)
  if(BARGE_SANITIZE)
    target_compile_options(${name}_test PRIVATE -fno-sanitize=undefined)
  endif()
  add_test(NAME ${name}_test COMMAND ${name}_test)
endfunction()
