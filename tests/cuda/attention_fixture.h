#pragma once

#include <algorithm>
#include <numeric>
#include <random>

#include "tests/cuda/fixture.h"

namespace barge::cuda {

struct AttentionShape {
  Encoding encoding;
  int heads, kv_heads, head_dim, group, page_positions;
};

inline std::ostream& operator<<(std::ostream& out, const AttentionShape& s) {
  return out << s.heads << " heads of " << s.head_dim << " over " << s.kv_heads << ", encoding "
             << static_cast<int>(s.encoding) << " in groups of " << s.group << ", pages of "
             << s.page_positions;
}

/// New rows of one sequence: positions [first, first + rows).
struct Part {
  int sequence, first, rows;
  bool prompt;
};

/// Some sequences, the q, k, v rows of all their positions, and a KV cache on the GPU and one on
/// the host. Pages lie in an order that `page_seed` chooses and hold NaN at first.
class Sequences {
 public:
  Sequences(const AttentionShape& shape, std::vector<int> lengths, unsigned page_seed = 0)
      : shape_(shape),
        format_{shape.encoding, shape.kv_heads, shape.head_dim, shape.group},
        lengths_(std::move(lengths)),
        first_row_(lengths_.size()) {
    std::exclusive_scan(lengths_.begin(), lengths_.end(), first_row_.begin(), 0);
    const int width = shape.heads * shape.head_dim, kv_width = shape.kv_heads * shape.head_dim;
    q = std::make_unique<Matrix>(random_numbers(rows() * width, 1), DType::kF32, rows(), width, 1);
    k = std::make_unique<Matrix>(random_numbers(rows() * kv_width, 2), DType::kF32, rows(),
                                 kv_width, 2);
    v = std::make_unique<Matrix>(random_numbers(rows() * kv_width, 3), DType::kF32, rows(),
                                 kv_width, 3);
    std::vector<std::size_t> places;
    for (const int length : lengths_)
      for (int at = 0; at < length; at += shape.page_positions) places.push_back(places.size());
    std::shuffle(places.begin(), places.end(), std::mt19937(page_seed));
    const std::size_t page_bytes =
        format_.record_bytes() * static_cast<std::size_t>(shape.page_positions);
    on_host_.assign(places.size() * page_bytes, std::byte{0xff});
    on_gpu_ = std::make_unique<OnDevice<std::byte>>(on_host_);
    auto place = places.begin();
    for (const int length : lengths_) {
      auto& host = host_pages_.emplace_back();
      auto& gpu = gpu_pages_.emplace_back();
      for (int at = 0; at < length; at += shape.page_positions, ++place) {
        host.push_back(on_host_.data() + *place * page_bytes);
        gpu.push_back(on_gpu_->data() + *place * page_bytes);
      }
    }
  }

  int rows() const { return std::accumulate(lengths_.begin(), lengths_.end(), 0); }
  int row(int sequence, int position) const { return first_row_[sequence] + position; }
  int width() const { return shape_.heads * shape_.head_dim; }
  float scale() const { return 1 / std::sqrt(static_cast<float>(shape_.head_dim)); }
  const AttentionShape& shape() const { return shape_; }
  const KvFormat& format() const { return format_; }
  std::vector<std::byte> gpu_records() const { return on_gpu_->read(); }
  const std::vector<std::byte>& host_records() const { return on_host_; }

  std::vector<Part> everything(bool prompt) const {
    std::vector<Part> parts;
    for (int s = 0; s < static_cast<int>(lengths_.size()); ++s)
      parts.push_back({s, 0, lengths_[s], prompt});
    return parts;
  }

  void append_on_gpu(cudaStream_t stream, const std::vector<Part>& parts) {
    const AttentionWork work(spans(parts, gpu_pages_), format_, shape_.page_positions,
                             shape_.heads);
    const OnDevice<std::byte> there(work.bytes());
    const DeviceMatrix keys(*k), values(*v);
    append_kv(stream, work, there.data(), keys.view(), values.view());
  }
  void append_on_host(Kernels& kernels, const std::vector<Part>& parts) {
    kernels.append_kv(format_, shape_.page_positions, spans(parts, host_pages_), k->view(),
                      v->view());
  }

  /// `workspace_rows`: for which the workspace is made.
  void attend_on_gpu(cudaStream_t stream, const std::vector<Part>& parts, Matrix& out,
                     std::int64_t workspace_rows = 100) {
    const AttentionWork work(spans(parts, gpu_pages_), format_, shape_.page_positions,
                             shape_.heads);
    const OnDevice<std::byte> there(work.bytes()),
        workspace(std::vector<std::byte>(
            attention_workspace_bytes(shape_.heads, shape_.head_dim, workspace_rows),
            std::byte{0xff}));
    const DeviceMatrix queries(*q);
    DeviceMatrix results(out);
    attend(stream, work, there.data(), scale(), queries.view(), results.view(),
           {workspace.data(), workspace.bytes()});
    results.fetch();
  }
  void attend_on_host(Kernels& kernels, const std::vector<Part>& parts, Matrix& out) {
    kernels.attend(format_, shape_.page_positions, spans(parts, host_pages_), shape_.heads, scale(),
                   q->view(), out.view());
  }

  std::unique_ptr<Matrix> q, k, v;

 private:
  std::vector<AttentionSpan> spans(const std::vector<Part>& parts,
                                   const std::vector<std::vector<std::byte*>>& pages) const {
    std::vector<AttentionSpan> spans;
    for (const Part& part : parts)
      spans.push_back({.first_row = row(part.sequence, part.first),
                       .rows = part.rows,
                       .first_position = part.first,
                       .prompt = part.prompt,
                       .pages = pages[part.sequence]});
    return spans;
  }

  const AttentionShape shape_;
  const KvFormat format_;
  const std::vector<int> lengths_;
  std::vector<int> first_row_;
  std::vector<std::byte> on_host_;
  std::unique_ptr<OnDevice<std::byte>> on_gpu_;
  std::vector<std::vector<std::byte*>> host_pages_, gpu_pages_;
};

}  // namespace barge::cuda
