# cmake -DOUT=FILE.cc -DDIR=DIRECTORY -DFILES=A;B -P embed.cmake
# Writes a .cc with the bytes of DIRECTORY's FILES and the table of server/web_page.h that names
# them. Bytes as numbers: g++ takes neither #embed nor string literals of any length.
set(arrays "")
set(table "")
set(index 0)
foreach(name ${FILES})
  file(READ "${DIR}/${name}" bytes HEX)
  file(SHA256 "${DIR}/${name}" hash)
  string(SUBSTRING "${hash}" 0 32 hash)
  string(REGEX REPLACE "(................................)" "\\1\n" bytes "${bytes}")  # by lines
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${bytes}")
  string(APPEND arrays "constexpr unsigned char k${index}[] = {\n${bytes}};\n")
  string(APPEND table "    {\"${name}\", {reinterpret_cast<const char*>(k${index}), sizeof k${index}}, "
                      "\"\\\"${hash}\\\"\"},\n")
  math(EXPR index "${index} + 1")
endforeach()
file(WRITE "${OUT}" "// Made by cmake/embed.cmake.
#include \"server/web_page.h\"

namespace barge {
namespace {

${arrays}
const PageFile kFiles[] = {
${table}};

}  // namespace

std::span<const PageFile> page_files() { return kFiles; }

}  // namespace barge
")
