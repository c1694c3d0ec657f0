#include "server/data_quota.h"

#include <utility>

#include "core/bytes.h"
#include "core/errors.h"

namespace barge {

DataQuota::DataQuota(std::int64_t limit_bytes, JobStore& store)
    : limit_bytes_(limit_bytes), store_(store) {
  refresh();
}

void DataQuota::refresh() {
  if (limit_bytes_ > 0) stored_ = store_.stored_bytes();
}

void DataQuota::Upload::grow(std::int64_t bytes) {
  bytes_ += bytes;
  const std::int64_t taken = quota_.stored_ + (quota_.uploading_ += bytes);
  if (quota_.limit_bytes_ == 0 || taken <= quota_.limit_bytes_) return;
  const auto text = [](std::int64_t n) { return format_bytes(static_cast<std::size_t>(n)); };
  throw RequestError(
      concat("There is no room for this file: it wants ", text(bytes_),
             " or more, the others take ", text(taken - bytes_), " and the server's limit is ",
             text(quota_.limit_bytes_), ". Delete files that you don't need any more."),
      "file", "insufficient_storage", 507);
}

void DataQuota::Upload::keep() {
  quota_.stored_ += bytes_;
  quota_.uploading_ -= std::exchange(bytes_, 0);
}

}  // namespace barge
