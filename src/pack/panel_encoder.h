#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/thread_pool.h"
#include "model/checkpoint.h"
#include "offload/pack.h"

namespace barge {

/// Fills panels with the rows of a checkpoint, on several threads and in pieces of about a MiB: the
/// f32 rows of a whole 4-bit panel would take 30 MiB. One caller at a time.
class PanelEncoder {
 public:
  /// `checkpoint` and `pool` must outlive the encoder.
  PanelEncoder(const Checkpoint& checkpoint, ThreadPool& pool);

  /// to[i] gets panels[i] of `tensor`: layout.bytes bytes, padding 0. Where the layout's format is
  /// the stored one, bit for bit as the checkpoint has them. Throws IoError, and FormatError,
  /// naming the tensor, for numbers that the format can't hold.
  void encode(const TensorSpec& tensor, std::span<const PackPanel> panels,
              std::span<std::vector<std::byte>> to);

 private:
  struct Piece;
  struct Workspace {
    std::vector<float> rows;
    std::vector<std::byte> encoded;
  };
  void encode_piece(const TensorSpec& tensor, const PackPanel& panel, const Piece& piece,
                    bool stored, std::span<std::byte> to, Workspace& workspace) const;

  const Checkpoint& checkpoint_;
  ThreadPool& pool_;
  std::vector<Workspace> workspaces_;  // one a thread
};

}  // namespace barge
