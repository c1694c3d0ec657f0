# A script of barge_version(): writes WRITTEN, and leaves it alone where nothing changed.
set(text "${VERSION}")
if(GIT)
  execute_process(COMMAND ${GIT} rev-parse --short=12 HEAD WORKING_DIRECTORY ${SOURCE}
                  OUTPUT_VARIABLE commit OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  execute_process(COMMAND ${GIT} diff-index --quiet HEAD WORKING_DIRECTORY ${SOURCE}
                  RESULT_VARIABLE changed ERROR_QUIET)
  if(commit AND changed)
    string(APPEND commit ", changed")
  endif()
  if(commit)
    string(APPEND text " (${commit})")
  endif()
endif()
file(CONFIGURE OUTPUT ${WRITTEN} @ONLY CONTENT [[
#include "cli/program.h"

namespace barge {
const char* const kVersion = "@text@";
}
]])
