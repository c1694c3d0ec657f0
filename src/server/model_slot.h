#pragma once

#include <memory>
#include <mutex>
#include <span>
#include <utility>

#include "core/errors.h"
#include "server/server.h"

namespace barge {

/// What answers: nothing yet, then one model until the server stops. Thread-safe.
class ModelSlot {
 public:
  void fill(ServedModel model) {
    auto filled = std::make_shared<const ServedModel>(std::move(model));
    const std::lock_guard lock(mutex_);
    model_ = std::move(filled);
  }
  /// The generator isn't touched any more, but by those who hold what `get` gave.
  void clear() {
    const std::lock_guard lock(mutex_);
    model_.reset();
  }

  /// Null: nothing is loaded.
  std::shared_ptr<const ServedModel> get() const {
    const std::lock_guard lock(mutex_);
    return model_;
  }
  /// Throws RequestError (503) if nothing is loaded.
  std::shared_ptr<const ServedModel> require() const {
    if (auto model = get()) return model;
    throw RequestError("The model is being loaded. Please try again later.", "", "model_loading",
                       503);
  }
  /// Unless the slot was cleared: ids mean nothing to another generator.
  void cancel(std::span<const Generator::RequestId> ids) const {
    const std::lock_guard lock(mutex_);
    if (!model_) return;
    for (const auto id : ids) model_->generator->cancel(id);
  }

 private:
  mutable std::mutex mutex_;                  // guards model_
  std::shared_ptr<const ServedModel> model_;  // shared with those who are using it
};

}  // namespace barge
