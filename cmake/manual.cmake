# The target `manual`: share/man/man1 and a completion for bash in the build directory, from the texts
# in packaging/man and the program's own flags.
file(GLOB MANUAL_SOURCES CONFIGURE_DEPENDS src/cli/manual/*.cc)
add_executable(barge_manual ${MANUAL_SOURCES})
target_link_libraries(barge_manual PRIVATE barge_cli)

file(GLOB MANUAL_TEXTS CONFIGURE_DEPENDS packaging/man/*)
set(MANUAL_PAGES)
foreach(command barge serve run plan bench pack probe tokenize)
  set(name barge-${command})
  if(command STREQUAL barge)
    set(name barge)
  endif()
  set(page ${CMAKE_BINARY_DIR}/share/man/man1/${name}.1)
  add_custom_command(OUTPUT ${page}
    COMMAND ${CMAKE_COMMAND} -E make_directory ${CMAKE_BINARY_DIR}/share/man/man1
    COMMAND barge_manual page ${command} ${CMAKE_SOURCE_DIR}/packaging/man/${name}.man > ${page}
    DEPENDS barge_manual ${MANUAL_TEXTS} VERBATIM)
  list(APPEND MANUAL_PAGES ${page})
endforeach()
set(BASH_COMPLETION ${CMAKE_BINARY_DIR}/share/bash-completion/completions/barge)
add_custom_command(OUTPUT ${BASH_COMPLETION}
  COMMAND ${CMAKE_COMMAND} -E make_directory ${CMAKE_BINARY_DIR}/share/bash-completion/completions
  COMMAND barge_manual bash > ${BASH_COMPLETION}
  DEPENDS barge_manual VERBATIM)
add_custom_target(manual ALL DEPENDS ${MANUAL_PAGES} ${BASH_COMPLETION})
