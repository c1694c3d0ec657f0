#include "server/api.h"

#include <ctime>

#include "core/io_error.h"
#include "core/log.h"
#include "jobs/body_fields.h"
#include "jobs/completion_response.h"
#include "server/batches.h"
#include "server/file_upload.h"
#include "server/target.h"
#include "server/tokenizer_api.h"
#include "server/web_page.h"

namespace barge {
namespace {

using Json = nlohmann::ordered_json;

}  // namespace

ApiReply ok(nlohmann::ordered_json body) { return {.body = std::move(body)}; }

ApiReply error_reply(const RequestError& error) {
  ApiReply reply{.status = error.status, .body = error_body(error)};
  // Clients try again at these, too, unless they are told that it is of no use.
  if (error.status == 409 || error.status == 507)
    reply.headers.emplace_back("x-should-retry", "false");
  if (error.status == 503) reply.headers.emplace_back("Retry-After", "5");
  return reply;
}

RequestError disk_is_full() {
  return RequestError("The server's disk is full. Please try again later.", "",
                      "insufficient_storage", 507);
}

nlohmann::json parse_json(std::string_view body) {
  if (is_too_deep(body))
    throw RequestError(
        concat("The JSON body of your request nests deeper than ", kMaxJsonDepth, " levels."));
  if (has_too_many_values(body))
    throw RequestError(
        concat("The JSON body of your request has more than ", kMaxJsonValues, " values."));
  auto parsed = nlohmann::json::parse(body, nullptr, /*allow_exceptions=*/false);
  if (parsed.is_discarded())
    throw RequestError(
        "We could not parse the JSON body of your request. (HINT: This likely means "
        "you aren't using your HTTP library correctly. The API expects a JSON "
        "payload, but what was sent was not valid JSON.)");
  if (!parsed.is_object()) throw_type("body", "an object", parsed);
  return parsed;
}

std::string checked_model(const std::string& asked, const ServerOptions& options) {
  if (!asked.empty() && asked != options.served_model_name)
    throw RequestError(concat("The model '", asked, "' does not exist"), "model", "model_not_found",
                       404);
  return options.served_model_name;
}

Api::Api(const ServerOptions& options, const DataDirectory& directory, JobStore& store,
         DataQuota& quota, BatchWorker& worker, const ModelSlot& models, const Metrics& metrics)
    : options_(options),
      keys_(options.api_keys),
      directory_(directory),
      store_(store),
      quota_(quota),
      worker_(worker),
      models_(models),
      metrics_(metrics),
      started_at_(std::time(nullptr)) {
  const auto add = [&](std::string method, std::vector<std::string> pattern, auto handler) {
    routes_.push_back({std::move(method), std::move(pattern), std::move(handler)});
  };
  for (const char* name : {"health", "ready"}) {
    add("GET", {name}, [this](const Call&) { return health(); });
    routes_.back().is_public = true;
  }
  // The page itself is no secret; what it shows is behind the key that it asks its user for.
  const auto add_page = [&](std::vector<std::string> pattern, std::string file) {
    add("GET", std::move(pattern), [file](const Call& call) {
      return web_page(file.empty() ? call.captures[0] : file, call.request.if_none_match);
    });
    routes_.back().is_public = true;
  };
  add_page({}, "index.html");
  add_page({"page", "*"}, "");
  add_page({"openapi.json"}, "openapi.json");
  add("GET", {"metrics"}, [this](const Call&) { return print_metrics(); });
  add("GET", {"v1", "models"}, [this](const Call&) {
    return ok({{"object", "list"}, {"data", Json::array({model_json()})}});
  });
  add("GET", {"v1", "models", "*"}, [this](const Call& call) { return model(call.captures[0]); });
  const auto add_text = [&](std::string method, std::string name, auto answer) {
    add(std::move(method), {std::move(name)}, [this, answer](const Call& call) {
      const nlohmann::json body =
          call.request.is_get() ? nlohmann::json::object() : parse_json(call.request.body);
      checked_model(BodyFields(body).string("model").value_or(""), options_);
      return ok(answer(body, *models_.require()));
    });
  };
  add_text("POST", "tokenize", tokenize);
  add_text("POST", "detokenize", detokenize);
  add_text("GET", "tokenizer_info", tokenizer_info);
  // Of these two only other methods come here, of uploads only those without a body.
  const auto elsewhere = [](const Call&) -> ApiReply { throw Error("is a session's matter"); };
  add("POST", {"v1", "completions"}, elsewhere);
  add("POST", {"v1", "chat", "completions"}, elsewhere);
  add("GET", {"v1", "files"}, [this](const Call& call) { return list_files(call); });
  add("POST", {"v1", "files"}, [](const Call&) -> ApiReply { throw_missing("file"); });  // empty
  add("GET", {"v1", "files", "*"},
      [this](const Call& call) { return ok(file_json(find_file(call))); });
  add("DELETE", {"v1", "files", "*"}, [this](const Call& call) { return delete_file(call); });
  add("GET", {"v1", "files", "*", "content"},
      [this](const Call& call) { return ApiReply{.file = directory_.file(find_file(call).id)}; });
  add("GET", {"v1", "batches"}, [this](const Call& call) { return list_batches(call); });
  add("POST", {"v1", "batches"}, [this](const Call& call) { return create_batch(call); });
  add("GET", {"v1", "batches", "*"},
      [this](const Call& call) { return ok(batch_json(find_batch(call))); });
  add("POST", {"v1", "batches", "*", "cancel"},
      [this](const Call& call) { return cancel_batch(call); });
}

bool Api::is_upload(const ApiRequest& request) {
  return request.method == "POST" && Target(request.target).match({"v1", "files"});
}

std::optional<Endpoint> Api::completion_endpoint(const ApiRequest& request) {
  if (request.method != "POST") return std::nullopt;
  const Target target(request.target);
  if (target.match({"v1", "completions"})) return Endpoint::kCompletions;
  if (target.match({"v1", "chat", "completions"})) return Endpoint::kChatCompletions;
  return std::nullopt;
}

bool Api::is_quick(const ApiRequest& request) {
  return request.path() == "/health" || request.path() == "/ready" || request.path() == "/metrics";
}

std::vector<std::string> Api::routes() const {
  std::vector<std::string> names;
  for (const Route& route : routes_) {
    names.push_back(route.method + ' ');
    for (const std::string& segment : route.pattern) names.back() += '/' + segment;
    if (route.pattern.empty()) names.back() += '/';
  }
  return names;
}

ApiReply Api::handle(const ApiRequest& request) {
  try {
    return dispatch(request);
  } catch (const RequestError& error) {
    return error_reply(error);
  } catch (const DiskFull& error) {
    log::error(concat(request.method, ' ', request.target, ": ", error.what()));
    return error_reply(disk_is_full());
  } catch (const std::exception& error) {
    log::error(concat(request.method, ' ', request.target, ": ", error.what()));
    return error_reply(
        RequestError("The server had an error while processing your request.", "", "", 500));
  }
}

ApiReply Api::dispatch(const ApiRequest& request) {
  const Target target(request.target);
  std::string allowed;
  for (const Route& route : routes_) {
    auto captures = target.match(route.pattern);
    if (!captures) continue;
    if (route.method != request.method && !(route.method == "GET" && request.is_get())) {
      allowed += (allowed.empty() ? "" : ", ") + route.method;
      if (route.method == "GET") allowed += ", HEAD";
      continue;
    }
    std::string owner;
    if (!route.is_public) owner = authorize(request.authorization);
    return route.handler({request, std::move(*captures), target.query(), std::move(owner)});
  }
  authorize(request.authorization);
  if (allowed.empty())
    throw RequestError(concat("Invalid URL (", request.method, ' ', target.path(), ")"), "", "",
                       404);
  ApiReply reply = error_reply(RequestError(
      concat("Invalid method for URL (", request.method, ' ', target.path(), ")"), "", "", 405));
  reply.headers.emplace_back("Allow", allowed);
  return reply;
}

ApiReply Api::health() {
  const auto model = models_.get();
  if (!model) return {.status = 503, .body = {{"status", "loading"}}};
  if (const std::string failure = model->generator->failure(); !failure.empty())
    return {.status = 503, .body = {{"status", "failed"}, {"message", failure}}};
  return ok({{"status", "ok"}});
}

ApiReply Api::print_metrics() {
  const auto model = models_.get();
  return {.text = metrics_.print(options_.served_model_name, model.get(), worker_.numbers()),
          .content_type = "text/plain; version=0.0.4; charset=utf-8"};
}

Json Api::model_json() {
  Json json = {{"id", options_.served_model_name},
               {"object", "model"},
               {"created", started_at_},
               {"owned_by", "barge"}};
  if (const auto model = models_.get(); model && model->max_model_len > 0)
    json["max_model_len"] = model->max_model_len;
  return json;
}

ApiReply Api::model(const std::string& id) {
  checked_model(id, options_);
  return ok(model_json());
}

}  // namespace barge
