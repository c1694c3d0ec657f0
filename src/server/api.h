#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/errors.h"
#include "jobs/batch_line.h"
#include "jobs/job_store.h"
#include "server/api_keys.h"
#include "server/batch_worker.h"
#include "server/data_directory.h"
#include "server/data_quota.h"
#include "server/metrics.h"
#include "server/model_slot.h"
#include "server/server.h"

namespace barge {

struct ApiRequest {
  std::string method;
  std::string target;  // as it came: path and query
  std::string authorization;
  std::string body;
  std::string if_none_match = {};

  std::string_view path() const { return std::string_view(target).substr(0, target.find('?')); }
  /// HEAD asks for what GET would say, and leaves the body out.
  bool is_get() const { return method == "GET" || method == "HEAD"; }
};

struct ApiReply {
  int status = 200;
  nlohmann::ordered_json body;
  std::optional<std::string> text;            // instead of body: as it is
  std::optional<std::filesystem::path> file;  // instead of either: its bytes
  std::string content_type = "application/json";
  std::vector<std::pair<std::string, std::string>> headers;
};

ApiReply ok(nlohmann::ordered_json body);
/// The reply that an error becomes.
ApiReply error_reply(const RequestError& error);
/// What a client is told of a DiskFull.
RequestError disk_is_full();

/// The body of a request: an object. Throws RequestError.
nlohmann::json parse_json(std::string_view body);

/// The model that a body asks for; the server's own if it names none, as in vLLM. Throws
/// RequestError (404) for another.
std::string checked_model(const std::string& asked, const ServerOptions& options);

/// What the server says, without a word about HTTP's framing. Thread-safe; calls wait for the disk
/// as the store does. What comes in pieces, uploads and completions, is the session's matter.
class Api {
 public:
  /// References must outlive this.
  Api(const ServerOptions& options, const DataDirectory& directory, JobStore& store,
      DataQuota& quota, BatchWorker& worker, const ModelSlot& models, const Metrics& metrics);

  /// Never throws for what is in the request.
  ApiReply handle(const ApiRequest& request);

  /// POST /v1/files, whose body isn't kept in memory (FileUpload).
  static bool is_upload(const ApiRequest& request);
  /// POST /v1/completions and /v1/chat/completions, which take long (OnlineCompletion).
  static std::optional<Endpoint> completion_endpoint(const ApiRequest& request);
  /// Whether `handle` returns at once.
  static bool is_quick(const ApiRequest& request);
  /// What there is to ask for, as "GET /v1/files/*": what openapi.json describes.
  std::vector<std::string> routes() const;
  /// Who it is that calls (ApiKeys). Throws RequestError (401) for a wrong key.
  std::string authorize(std::string_view authorization) const { return keys_.owner(authorization); }
  /// Neither asks for a key nor serves other machines.
  bool trusts_this_machine() const { return keys_.empty() && !options_.allow_anonymous; }

 private:
  struct Call {  // a request taken apart
    const ApiRequest& request;
    std::vector<std::string> captures;  // of the route's "*"
    std::map<std::string, std::string> query;
    std::string owner;  // who calls: sees what is theirs and what is everybody's
    bool may_see(const std::string& owner_of_it) const {
      return owner.empty() || owner_of_it.empty() || owner == owner_of_it;
    }
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
  ApiReply print_metrics();
  nlohmann::ordered_json model_json();
  ApiReply model(const std::string& id);
  ApiReply list_files(const Call& call);
  FileRecord find_file(const Call& call);
  JobRecord find_batch(const Call& call);
  ApiReply delete_file(const Call& call);
  ApiReply create_batch(const Call& call);
  ApiReply list_batches(const Call& call);
  ApiReply cancel_batch(const Call& call);

  const ServerOptions& options_;
  const ApiKeys keys_;
  const DataDirectory& directory_;
  JobStore& store_;
  DataQuota& quota_;
  BatchWorker& worker_;
  const ModelSlot& models_;
  const Metrics& metrics_;
  const std::int64_t started_at_;
  std::vector<Route> routes_;
};

}  // namespace barge
