#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/errors.h"
#include "jobs/job_store.h"
#include "server/batch_worker.h"
#include "server/data_directory.h"
#include "server/server.h"

namespace barge {

struct ApiRequest {
  std::string method;
  std::string target;  // as it came: path and query
  std::string authorization;
  std::string body;
};

struct ApiReply {
  int status = 200;
  nlohmann::ordered_json body;
  std::optional<std::filesystem::path> file;  // instead of body: its bytes
  std::vector<std::pair<std::string, std::string>> headers;
};

/// The reply that an error becomes.
ApiReply error_reply(const RequestError& error);

/// What the server says, without a word about HTTP's framing. Thread-safe; calls wait for the disk
/// as the store does.
class Api {
 public:
  /// References must outlive this.
  Api(const ServerOptions& options, const DataDirectory& directory, JobStore& store,
      BatchWorker& worker);

  void set_model(const ServedModel& model);

  /// Never throws for what is in the request.
  ApiReply handle(const ApiRequest& request);

  /// POST /v1/files, whose body isn't kept in memory (FileUpload).
  static bool is_upload(std::string_view method, std::string_view target);
  /// Throws RequestError (401) unless the key is right or none is asked for.
  void authorize(std::string_view authorization) const;

 private:
  struct Call {  // a request taken apart
    const ApiRequest& request;
    std::vector<std::string> captures;  // of the route's "*"
    std::map<std::string, std::string> query;
    nlohmann::json json() const;  // the body; throws RequestError
    std::optional<std::int64_t> limit() const;
  };
  struct Route {
    std::string method;
    std::vector<std::string> pattern;  // segments; "*" takes any one
    std::function<ApiReply(const Call&)> handler;
    bool is_public = false;
  };

  ApiReply dispatch(const ApiRequest& request);
  ApiReply health();
  nlohmann::ordered_json model_json();
  ApiReply model(const std::string& id);
  ApiReply list_files(const Call& call);
  FileRecord find_file(const std::string& id);
  ApiReply create_batch(const Call& call);
  ApiReply list_batches(const Call& call);
  ApiReply batch(const std::string& id);

  const ServerOptions& options_;
  const DataDirectory& directory_;
  JobStore& store_;
  BatchWorker& worker_;
  const std::int64_t started_at_;
  std::vector<Route> routes_;
  std::mutex mutex_;  // guards model_
  std::optional<ServedModel> model_;
};

}  // namespace barge
