# Debian packages, made by scripts/package: barge (component deb), and barge-cuda (deb_cuda) where the
# GPU's part is built. Both are laid out from / on; to look at what would be in one:
#   DESTDIR=root cmake --install build/release --prefix / --component deb
# Unlike in a bundle, libraries are Debian's: dpkg-shlibdeps finds out which.

set(debian ${CMAKE_SOURCE_DIR}/packaging/debian)
set(deb COMPONENT deb EXCLUDE_FROM_ALL)
install(TARGETS barge RUNTIME DESTINATION usr/bin ${deb})
install(DIRECTORY models/ DESTINATION usr/share/barge/models ${deb} FILES_MATCHING PATTERN "*.json")
install(DIRECTORY machines examples DESTINATION usr/share/barge ${deb})
install(FILES ${MANUAL_PAGES} DESTINATION usr/share/man/man1 ${deb})
install(FILES ${BASH_COMPLETION} DESTINATION usr/share/bash-completion/completions ${deb})
install(FILES README.md ${debian}/copyright DESTINATION usr/share/doc/barge ${deb})
install(FILES packaging/barge.service DESTINATION lib/systemd/system ${deb})
install(FILES packaging/barge.sysusers DESTINATION usr/lib/sysusers.d RENAME barge.conf ${deb})
install(FILES packaging/serve.json DESTINATION etc/barge ${deb})
install(FILES packaging/environment DESTINATION etc/barge PERMISSIONS OWNER_READ OWNER_WRITE ${deb})
install(CODE [[
  set(root "$ENV{DESTDIR}${CMAKE_INSTALL_PREFIX}")
  file(RPATH_REMOVE FILE "${root}/usr/bin/barge")  # that of a bundle
  file(GLOB pages "${root}/usr/share/man/man1/*.1")
  execute_process(COMMAND gzip -9nf ${pages} COMMAND_ERROR_IS_FATAL ANY)
]] ${deb})

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_CONTACT "The barge authors <root@localhost>")
set(CPACK_PACKAGE_NAME barge)
set(CPACK_PACKAGING_INSTALL_PREFIX /)
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS
    OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
set(CPACK_STRIP_FILES ON)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_COMPONENTS_ALL deb)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_RELEASE 1)
set(CPACK_DEBIAN_COMPRESSION_TYPE xz)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_DEBIAN_DEB_PACKAGE_NAME barge)
set(CPACK_DEBIAN_DEB_PACKAGE_SECTION science)
set(CPACK_DEBIAN_DEB_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_DEB_PACKAGE_DEPENDS "systemd | systemd-standalone-sysusers")  # makes the user
set(CPACK_DEBIAN_DEB_PACKAGE_CONTROL_EXTRA
    ${debian}/conffiles ${debian}/postinst ${debian}/prerm ${debian}/postrm)
set(CPACK_COMPONENT_DEB_DESCRIPTION
"Bulk jobs on language models that are larger than memory
 A JSONL file of requests goes in, weights and KV cache are spread over GPU
 memory, CPU memory and disk, and one answer line for each request comes out,
 at the highest throughput that the machine allows: from file to file, or over
 OpenAI's Batch API.")

if(TARGET barge_cuda)
  install(TARGETS barge_cuda LIBRARY DESTINATION usr/lib COMPONENT deb_cuda EXCLUDE_FROM_ALL)
  install(FILES ${debian}/copyright DESTINATION usr/share/doc/barge-cuda COMPONENT deb_cuda
          EXCLUDE_FROM_ALL)
  list(APPEND CPACK_COMPONENTS_ALL deb_cuda)
  set(CPACK_DEBIAN_DEB_CUDA_PACKAGE_NAME barge-cuda)
  set(CPACK_DEBIAN_DEB_CUDA_PACKAGE_SECTION science)
  # cuBLAS is NVIDIA's, found where its toolkit is: no package of Debian's has it.
  set(CPACK_DEBIAN_DEB_CUDA_PACKAGE_SHLIBDEPS OFF)
  set(CPACK_DEBIAN_DEB_CUDA_PACKAGE_DEPENDS
      "barge (= ${PROJECT_VERSION}-${CPACK_DEBIAN_PACKAGE_RELEASE}), libc6 (>= 2.36), libstdc++6 (>= 12)")
  set(CPACK_COMPONENT_DEB_CUDA_DESCRIPTION
"GPU part of barge
 Computes on NVIDIA GPUs of compute capability 7.5 or newer. It needs their
 driver and cuBLAS of CUDA 13, which NVIDIA's packages bring.")
endif()
include(CPack)
