# `cmake --install DIR --component program`: a folder that runs wherever it is put: bin/, lib/ and
# share/barge. lib/ has every library that the program needs but glibc's, so that it runs on any
# Linux with a glibc as new; CUDA's own come from the machine's toolkit.
# The component `tests` adds libexec/barge: what scripts/gpu_check runs on a machine with a GPU.

# The older kind of run path counts for libraries of libraries too, and before LD_LIBRARY_PATH.
set(run_path_option -Wl,--disable-new-dtags)
set(libraries_of_the_system
  "^ld-linux" "^lib(c|m|pthread|dl|rt|resolv|util)\\.so" "^libcu(da|dart|blas|blasLt)\\.so")

# barge_install(COMPONENT DIRECTORY TO_LIBRARIES programs...)
function(barge_install component directory to_libraries)
  foreach(program ${ARGN})
    if(NOT TARGET ${program})
      continue()
    endif()
    set_target_properties(${program} PROPERTIES INSTALL_RPATH "$ORIGIN/${to_libraries}")
    target_link_options(${program} PRIVATE ${run_path_option})
    install(TARGETS ${program}
            RUNTIME_DEPENDENCIES PRE_EXCLUDE_REGEXES ${libraries_of_the_system}
            RUNTIME DESTINATION ${directory} COMPONENT ${component}
            LIBRARY DESTINATION lib COMPONENT ${component})
  endforeach()
endfunction()

barge_install(program bin ../lib barge)
set(benches)
if(benchmark_FOUND)
  get_property(benches DIRECTORY bench PROPERTY BUILDSYSTEM_TARGETS)
  list(FILTER benches INCLUDE REGEX "^cuda_")
endif()
barge_install(tests libexec/barge ../../lib cuda_test engine_test ${benches})
install(DIRECTORY models/ DESTINATION share/barge/models COMPONENT program
        FILES_MATCHING PATTERN "*.json")
install(DIRECTORY examples machines DESTINATION share/barge COMPONENT program)
install(FILES README.md LICENSE DESTINATION . COMPONENT program)
install(FILES ${MANUAL_PAGES} DESTINATION share/man/man1 COMPONENT program)
install(FILES ${BASH_COMPLETION} DESTINATION share/bash-completion/completions COMPONENT program)
# For those who make a service of it: README.md says how.
install(FILES packaging/barge.service packaging/barge.sysusers packaging/serve.json
              packaging/environment DESTINATION share/barge/service COMPONENT program)
install(DIRECTORY tests/data/goldens DESTINATION libexec/barge/data COMPONENT tests)

# The plug-in finds CUDA's libraries where the loader does, else where toolkits usually are.
if(TARGET barge_cuda)
  set_target_properties(barge_cuda PROPERTIES
    INSTALL_RPATH "$ORIGIN:/usr/local/cuda/lib64:/usr/local/cuda/targets/x86_64-linux/lib")
  target_link_options(barge_cuda PRIVATE -Wl,--enable-new-dtags)
  install(TARGETS barge_cuda LIBRARY DESTINATION lib COMPONENT program)
endif()
if(TARGET barge_cuda_emulation)
  install(TARGETS barge_cuda_emulation LIBRARY DESTINATION libexec/barge COMPONENT tests)
endif()
