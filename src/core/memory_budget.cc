#include "core/memory_budget.h"

#include <algorithm>

#include "core/bytes.h"
#include "core/errors.h"

namespace barge {

MemoryBudget::Reservation::~Reservation() {
  if (budget_ != nullptr) budget_->release(bytes_, tag_);
}

MemoryBudget::MemoryBudget(Tier tier, std::size_t limit_bytes, std::string flag)
    : tier_(tier), limit_(limit_bytes), flag_(std::move(flag)) {}

MemoryBudget::Reservation MemoryBudget::reserve(std::size_t bytes, std::string_view tag) {
  const std::scoped_lock lock(mutex_);
  if (bytes > limit_ - used_) {
    std::string holders;
    for (const auto& [name, held] : by_tag_)
      if (held > 0) holders += concat(holders.empty() ? "" : ", ", name, " ", format_bytes(held));
    throw OutOfMemory(concat("cannot take ", format_bytes(bytes), " of ", name_of(tier_),
                             " space for ", tag, ": ", format_bytes(limit_ - used_), " of ",
                             format_bytes(limit_), " are free (",
                             holders.empty() ? "nothing else is held" : holders, "); raise ", flag_,
                             " or choose a smaller policy"));
  }
  used_ += bytes;
  peak_ = std::max(peak_, used_);
  const auto entry = by_tag_.try_emplace(std::string(tag), 0).first;
  entry->second += bytes;
  return {this, bytes, entry->first};
}

void MemoryBudget::release(std::size_t bytes, const std::string& tag) {
  const std::scoped_lock lock(mutex_);
  used_ -= bytes;
  by_tag_.find(tag)->second -= bytes;
}

std::size_t MemoryBudget::used() const {
  const std::scoped_lock lock(mutex_);
  return used_;
}

std::size_t MemoryBudget::peak() const {
  const std::scoped_lock lock(mutex_);
  return peak_;
}

std::map<std::string, std::size_t, std::less<>> MemoryBudget::by_tag() const {
  const std::scoped_lock lock(mutex_);
  return by_tag_;
}

}  // namespace barge
