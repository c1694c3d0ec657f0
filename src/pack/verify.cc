#include "pack/verify.h"

#include <vector>

#include "model/input_file.h"
#include "offload/pack.h"

namespace barge {

void verify_pack(const std::filesystem::path& directory, const PackProgress& progress) {
  const Pack pack(directory);
  std::vector<InputFile> files;
  std::vector<std::byte> buffer;
  std::size_t done = 0;
  const std::size_t total = pack.bytes();
  for (const PackTensor& tensor : pack.tensors())
    for (const PackPanel& panel : tensor.panels) {
      for (int next = static_cast<int>(files.size()); next <= panel.file; ++next)
        files.emplace_back(pack.file(next).path());
      buffer.resize(panel.stored_bytes());
      files[static_cast<std::size_t>(panel.file)].read(panel.offset, buffer);
      pack.check(tensor, panel, buffer);
      done += buffer.size();
      if (progress) progress(done, total);
    }
}

}  // namespace barge
